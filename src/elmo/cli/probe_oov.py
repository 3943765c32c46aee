"""`elmo probe oov`: whether misspelt and invented words land near what is meant."""

from pathlib import Path
from typing import Literal

import click

from elmo.cli.options import model_option
from elmo.cli.probe import json_option, show, state_option


@click.command()
@click.option(
    "--vocabulary",
    type=click.Path(path_type=Path),
    help="Words by falling frequency, one a line.  [default: the model's own]",
)
@click.option(
    "--glove",
    type=click.Path(path_type=Path),
    help="Static vectors to compare with: text of GloVe or word2vec.",
)
@click.option(
    "--words",
    default=1000,
    show_default=True,
    type=click.IntRange(1),
    help="How many frequent words to misspell and to build on.",
)
@state_option
@model_option
@json_option
def oov(
    vocabulary: Path | None,
    glove: Path | None,
    words: int,
    state: Literal["fresh", "warm", "carry"],
    model: Path,
    as_json: bool,
) -> None:
    """Measure how near unseen words are to the words that they are made of."""
    from elmo.api import Elmo
    from elmo.probes.oov import probe_oov

    measured = probe_oov(
        Elmo.load(model),
        vocabulary_path=vocabulary,
        glove_path=glove,
        n_words=words,
        state=state,
    )
    show(measured, as_json)
