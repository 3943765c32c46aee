"""`elmo info`: what a model file is."""

import json
from pathlib import Path

import click


@click.command()
@click.argument("path", type=click.Path(path_type=Path))
@click.option(
    "--options", type=click.Path(path_type=Path), help="options.json, if not beside the weights."
)
@click.option(
    "--vocabulary",
    type=click.Path(path_type=Path),
    help="Words of a TensorFlow checkpoint or token cache, if not beside it.",
)
@click.option("--json", "as_json", is_flag=True, help="For a program to read.")
def info(path: Path, options: Path | None, vocabulary: Path | None, as_json: bool) -> None:
    """Say what a model is: kind, sizes, sha256."""
    from elmo.models.describe import describe

    description = describe(path, options, vocabulary)
    if as_json:
        click.echo(json.dumps(description, indent=2))
        return
    width = max(map(len, description))
    for name, value in description.items():
        shown = f"{value:,}" if type(value) is int else "none" if value is None else str(value)
        click.echo(f"{name:{width}}  {shown}")
