"""`elmo probe pos`: parts of speech, by a linear classifier on each layer."""

from pathlib import Path
from typing import Literal

import click

from elmo.cli.options import model_option
from elmo.cli.probe import json_option, show, state_option


@click.command()
@click.option(
    "--train", required=True, type=click.Path(path_type=Path), help="CoNLL-U to learn from."
)
@click.option("--test", required=True, type=click.Path(path_type=Path), help="CoNLL-U to test on.")
@click.option(
    "--glove",
    type=click.Path(path_type=Path),
    help="Static vectors to compare with: text of GloVe or word2vec.",
)
@click.option(
    "--tags",
    type=click.Choice(["xpos", "upos"]),
    default="xpos",
    show_default=True,
    help="The treebank's own tags, or those of all languages.",
)
@state_option
@model_option
@json_option
def pos(
    train: Path,
    test: Path,
    glove: Path | None,
    tags: Literal["upos", "xpos"],
    state: Literal["fresh", "warm", "carry"],
    model: Path,
    as_json: bool,
) -> None:
    """Measure how well parts of speech can be read off each layer."""
    from elmo.api import Elmo
    from elmo.probes.pos import probe_pos

    show(
        probe_pos(Elmo.load(model), train, test, glove_path=glove, tags=tags, state=state), as_json
    )
