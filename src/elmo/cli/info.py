"""`elmo info`: what a model file is."""

import json
from pathlib import Path

import click

from elmo.cli.options import (
    json_option,
    options_option,
    path_argument,
    source_vocabulary_option,
)


@click.command()
@path_argument("path", "MODEL")
@options_option
@source_vocabulary_option
@json_option
def info(path: Path, options: Path | None, vocabulary: Path | None, as_json: bool) -> None:
    """Describe a model: format, sizes, SHA-256.

    MODEL is a path or a name (`elmo models` lists names).
    """
    from elmo.models.describe import describe

    description = describe(path, options, vocabulary)
    if as_json:
        click.echo(json.dumps(description, indent=2))
        return
    width = max(map(len, description))
    for name, value in description.items():
        shown = f"{value:,}" if type(value) is int else "none" if value is None else str(value)
        click.echo(f"{name:{width}}  {shown}")
