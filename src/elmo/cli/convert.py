"""`elmo convert`: write a model in another format."""

from pathlib import Path

import click

from elmo.cli.options import (
    alignment_option,
    check_folder_name,
    options_option,
    path_argument,
    source_vocabulary_option,
)


@click.command()
@path_argument("source", "IN")
@path_argument("out", "OUT")
@options_option
@source_vocabulary_option
@alignment_option
@click.option("--half", is_flag=True, help="Store a model folder in float16: half the size.")
def convert(
    source: Path,
    out: Path,
    options: Path | None,
    vocabulary: Path | None,
    alignment: dict[int, Path] | None,
    half: bool,
) -> None:
    """Write a model in another format.

    IN is any model: a folder, a file, an archive or a name (`elmo models` lists names).
    The extension of OUT decides the format: .hdf5 writes official weights with options.json beside
    them, and vocab.txt and softmax.hdf5 if the model has a softmax; .onnx writes an ONNX graph, no
    extension a model folder.
    """
    from elmo.models import formats
    from elmo.models.formats.alignment import align

    if out.suffix not in (".onnx", *formats.hdf5.ENDINGS):
        check_folder_name(out)
    elif half:
        raise click.UsageError(f"--half is for a model folder, which {out} is not.")
    model = formats.read(source, options, vocabulary)
    if alignment is not None:
        model = align(model, alignment)
    if out.suffix == ".onnx":
        from elmo.adapters.onnx import export_onnx
        from elmo.api import Elmo

        export_onnx(Elmo(model), out)
    else:
        formats.write(out, model, is_half=half)
    click.echo(out)
