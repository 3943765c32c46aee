"""`elmo probe`: what the layers of a model represent; one subcommand per probe."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from elmo.cli.options import (
    glove_option,
    json_option,
    model_option,
    path_argument,
    path_option,
    state_option,
)

if TYPE_CHECKING:
    from elmo.api import State
    from elmo.probes.result import ProbeResult


@click.group(invoke_without_command=True)
@click.pass_context
def probe(ctx: click.Context) -> None:
    """Measure what the layers of a model represent."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


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


@probe.command("coarse-wsd")
@path_argument("folder", "FOLDER")
@state_option
@model_option
@json_option
def coarse_wsd(folder: Path, state: "State", model: Path, as_json: bool) -> None:
    """Coarse word senses by the nearest class average, on each layer.

    FOLDER is CoarseWSD-20, with a folder for each word.
    """
    from elmo.api import Elmo
    from elmo.probes.coarse_wsd import measure

    _show(measure(Elmo.load(model), folder, state=state), as_json)


@probe.command()
@path_argument("file", "FILE")
@path_option("--train", required=True, help="Pairs that choose the threshold: train.data.txt.")
@state_option
@model_option
@json_option
def wic(file: Path, train: Path, state: "State", model: Path, as_json: bool) -> None:
    """Word in context: the same sense or not, by the cosine of two occurrences.

    FILE is NAME.data.txt of WiC, with NAME.gold.txt beside it.
    """
    from elmo.api import Elmo
    from elmo.probes.wic import measure

    _show(measure(Elmo.load(model), file, train, state=state), as_json)


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
@path_option("--train", required=True, help="Training trees in CoNLL-U.")
@path_option("--test", required=True, help="Test trees in CoNLL-U.")
@click.option(
    "--rank", default=64, show_default=True, type=click.IntRange(1), help="Rank of the probe."
)
@click.option(
    "--epochs", default=10, show_default=True, type=click.IntRange(1), help="Training epochs."
)
@state_option
@model_option
@json_option
def structure(
    train: Path, test: Path, rank: int, epochs: int, state: "State", model: Path, as_json: bool
) -> None:
    """Distances in syntax trees by a linear probe on each layer."""
    from elmo.api import Elmo
    from elmo.probes.structure import measure

    elmo = Elmo.load(model)
    _show(measure(elmo, train, test, rank=rank, n_epochs=epochs, state=state), as_json)


@probe.command()
@path_argument("file", "FILE")
@click.option(
    "--group",
    type=click.Choice(["phenomenon", "paradigm", "field"]),
    default="phenomenon",
    show_default=True,
    help="One row per linguistics_term, UID or field of BLiMP.",
)
@model_option
@json_option
def pairs(
    file: Path, group: Literal["paradigm", "phenomenon", "field"], model: Path, as_json: bool
) -> None:
    """Minimal pairs: how often the acceptable sentence is more probable.

    FILE has JSON lines with sentence_good and sentence_bad, as in BLiMP.
    """
    from elmo.api import Elmo
    from elmo.probes.pairs import measure

    _show(measure(Elmo.load(model), file, group=group), as_json)


@probe.command()
@path_argument("file", "FILE")
@model_option
@json_option
def reading(file: Path, model: Path, as_json: bool) -> None:
    """Reading times: what surprisal explains beyond length and frequency.

    FILE has the tab-separated columns sentence, word and time, one word per line.
    """
    from elmo.api import Elmo
    from elmo.probes.reading import measure

    _show(measure(Elmo.load(model), file), as_json)


@probe.command()
@path_option("--vocabulary", help="Words, most frequent first.  [default: the model's]")
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
    """How near misspelled and derived words are to their source words."""
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
