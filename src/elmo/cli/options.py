"""Options that several verbs have."""

from pathlib import Path

import click
from click.core import ParameterSource

from elmo.models import ENGLISH

model_option = click.option(
    "--model",
    "-m",
    default=ENGLISH,
    show_default=True,
    type=click.Path(path_type=Path),
    help="A model folder, an official weights.hdf5, a .zip of one, or the package's own.",
)

lines_option = click.option(
    "--lines",
    type=click.Choice(["paragraphs", "sentences", "tokens"]),
    default="paragraphs",
    show_default=True,
    help="What a line of text is: a paragraph (split into sentences), one sentence, or the tokens "
    "of one sentence with white space between them.",
)


def is_given(name: str) -> bool:
    """Whether the user gave this option of the current command."""
    source = click.get_current_context().get_parameter_source(name)
    return source is ParameterSource.COMMANDLINE
