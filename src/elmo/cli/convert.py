"""`elmo convert`: from any format that is read to one that is written."""

from pathlib import Path

import click


@click.command()
@click.argument("source", metavar="IN", type=click.Path(path_type=Path))
@click.argument("out", metavar="OUT", type=click.Path(path_type=Path))
@click.option(
    "--options", type=click.Path(path_type=Path), help="options.json, if not beside the weights."
)
@click.option(
    "--vocabulary",
    type=click.Path(path_type=Path),
    help="Words of a TensorFlow checkpoint or token cache, if not beside it.",
)
@click.option("--half", is_flag=True, help="A model folder in float16: half the room.")
def convert(
    source: Path, out: Path, options: Path | None, vocabulary: Path | None, half: bool
) -> None:
    """Write a model in another format.

    IN is a model folder, an official weights.hdf5, a .zip of one, a folder of ELMoForManyLangs, a
    TensorFlow checkpoint of bilm, or a token cache. An OUT that ends with .hdf5 is written as
    official weights with options.json beside it, one that ends with .onnx as a graph; any other as
    a model folder.
    """
    if half and out.suffix:
        raise click.UsageError(f"--half is for a model folder, which {out} is not: leave it out.")
    from elmo.models import formats

    model = formats.read(source, options, vocabulary)
    if out.suffix == ".onnx":
        from elmo.adapters.onnx import export_onnx
        from elmo.api import Elmo

        export_onnx(Elmo(model), out)
    else:
        formats.write(out, model, is_half=half)
    click.echo(out)
