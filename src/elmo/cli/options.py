"""Options that several verbs have."""

from pathlib import Path

import click

model_option = click.option(
    "--model",
    "-m",
    required=True,
    type=click.Path(path_type=Path),
    help="A model folder, an official weights.hdf5, or a .zip of one.",
)
