"""`elmo probe`: what the layers of a model represent; one subcommand per probe."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from elmo.cli.options import (
    glove_option,
    json_option,
    model_option,
    path_option,
    state_option,
)

if TYPE_CHECKING:
    from elmo.api import State
    from elmo.probes.result import ProbeResult


@click.group()
def probe() -> None:
    """Measure what the layers of a model represent, as the papers did."""


@probe.command()
@path_option("--train", required=True, help="Training data in CoNLL-U.")
@path_option("--test", required=True, help="Test data in CoNLL-U.")
@glove_option
@click.option(
    "--tags",
    type=click.Choice(["xpos", "upos"]),
    default="xpos",
    show_default=True,
    help="The treebank's own tags, or universal tags.",
)
@state_option
@model_option
@json_option
def pos(
    train: Path,
    test: Path,
    glove: Path | None,
    tags: Literal["upos", "xpos"],
    state: "State",
    model: Path,
    as_json: bool,
) -> None:
    """Part-of-speech tagging with a linear classifier on each layer."""
    from elmo.api import Elmo
    from elmo.probes.pos import measure

    elmo = Elmo.load(model)
    _show(measure(elmo, train, test, glove_path=glove, tags=tags, state=state), as_json)


@probe.command()
@path_option("--semcor", required=True, help="SemCor as JSON lines.")
@path_option("--sets", required=True, help="Folder of the all-words test sets, a folder each.")
@click.option(
    "--wordnet",
    default="/usr/share/wordnet",
    show_default=True,
    type=click.Path(path_type=Path),
    help="WordNet 3.0, as Debian's wordnet-base installs it.",
)
@state_option
@model_option
@json_option
def wsd(
    semcor: Path, sets: Path, wordnet: Path, state: "State", model: Path, as_json: bool
) -> None:
    """Word sense disambiguation by the nearest sense in SemCor, on each layer."""
    from elmo.api import Elmo
    from elmo.probes.wsd import measure

    _show(measure(Elmo.load(model), semcor, sets, wordnet, state=state), as_json)


@probe.command()
@state_option
@model_option
@json_option
def senses(state: "State", model: Path, as_json: bool) -> None:
    """How often the nearest occurrence of a word has the same sense."""
    from elmo.api import Elmo
    from elmo.probes.senses import measure

    _show(measure(Elmo.load(model), state=state), as_json)


@probe.command()
@path_option("--vocabulary", help="Words by falling frequency.  [default: the model's]")
@glove_option
@click.option(
    "--words",
    default=1000,
    show_default=True,
    type=click.IntRange(1),
    help="Number of frequent words to misspell and to derive new words from.",
)
@state_option
@model_option
@json_option
def oov(
    vocabulary: Path | None,
    glove: Path | None,
    words: int,
    state: "State",
    model: Path,
    as_json: bool,
) -> None:
    """How near misspelled and derived words are to the words they are made of."""
    from elmo.api import Elmo
    from elmo.probes.oov import measure

    result = measure(
        Elmo.load(model),
        vocabulary_path=vocabulary,
        glove_path=glove,
        n_words=words,
        state=state,
    )
    _show(result, as_json)


def _show(result: "ProbeResult", as_json: bool) -> None:
    click.echo(json.dumps(result.to_mapping()) if as_json else result.to_markdown())
