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

    IN is a model folder, an official weights.hdf5, or a .zip of one. An OUT that ends with .hdf5 is
    written as official weights with options.json beside it; any other as a model folder.
    """
    from elmo import formats

    formats.write(out, formats.read(source, options))
    click.echo(out)
