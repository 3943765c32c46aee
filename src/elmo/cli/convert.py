"""`elmo convert`: from any format that is read to one that is written."""

from pathlib import Path

import click


@click.command()
@click.argument("source", metavar="IN", type=click.Path(path_type=Path))
@click.argument("out", metavar="OUT", type=click.Path(path_type=Path))
@click.option(
    "--options", type=click.Path(path_type=Path), help="options.json, if not beside the weights."
)
def convert(source: Path, out: Path, options: Path | None) -> None:
    """Write a model in another format.

    IN is any model that is read. An OUT that ends with .hdf5 is written as official weights with
    options.json beside it, one that ends with .onnx as a graph; any other as a model folder.
    """
    from elmo import formats

    model = formats.read(source, options)
    if out.suffix == ".onnx":
        from elmo.adapters.onnx import export_onnx
        from elmo.elmo import Elmo

        export_onnx(Elmo(model), out)
    else:
        formats.write(out, model)
    click.echo(out)
