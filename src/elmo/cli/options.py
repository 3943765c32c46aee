"""Options that several verbs have."""

from pathlib import Path

import click

from elmo.models import ENGLISH

model_option = click.option(
    "--model",
    "-m",
    default=ENGLISH,
    show_default=True,
    type=click.Path(path_type=Path),
    help="A model folder, an official weights.hdf5, a .zip of one, or the package's own.",
)
