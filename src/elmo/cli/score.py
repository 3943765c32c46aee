"""`elmo score`: the surprisal of each word of a text."""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from elmo.cli.options import (
    lines_option,
    model_option,
    softmax_option,
    texts_argument,
    vocabulary_option,
    warn_if_empty,
    warn_of_unknown_words,
)

if TYPE_CHECKING:
    from elmo.text.lines import LineFormat


@click.command()
@texts_argument("sources", "INPUT")
@model_option
@softmax_option
@vocabulary_option
@lines_option
@click.option(
    "--state",
    type=click.Choice(["fresh", "carry"]),
    default="fresh",
    show_default=True,
    help="Initial LSTM state of a sentence: zeros, or after the sentence before it.",
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="Print a line of JSON per sentence, and one with the perplexities.",
)
def score(
    sources: tuple[str, ...],
    model: Path,
    softmax: Path | None,
    vocabulary: Path | None,
    lines: "LineFormat",
    state: Literal["fresh", "carry"],
    as_json: bool,
) -> None:
    """Print the surprisal of each word in bits.

    Forward: given the words before it. Backward: given the words after it. Combined: given both.

    INPUT is plain, .gz or .xz text, a folder, a glob, or - for standard input. A word
    outside the vocabulary is scored as the unknown word and marked with a question mark.
    Perplexities count the sentence boundary, its end (forward) or its start (backward), as one more
    word.
    """
    from elmo.api import Elmo
    from elmo.files.text_files import find_text_files
    from elmo.inference.results import Tally, as_table
    from elmo.text.lines import read_sentences

    paths = find_text_files(*sources)
    elmo = Elmo.load(model, softmax=softmax, vocabulary=vocabulary)
    tally = Tally()
    for sentence in elmo.scorer.stream(read_sentences(paths, lines), state):
        tally.add(sentence)
        if as_json:
            click.echo(json.dumps(sentence.to_mapping()))
        else:
            click.echo(f"{as_table(sentence)}\n")
    if as_json:
        totals = {"perplexity": tally.perplexities(), "unknown_rate": tally.unknown_rate}
        click.echo(json.dumps(totals))
    else:
        for context, perplexity in tally.perplexities().items():
            click.echo(f"perplexity {context:9} {perplexity or math.inf:10.2f}")
        if tally.n_words:
            click.echo(f"unknown words {tally.unknown_rate:>16.1%}")
    warn_if_empty(sources, tally.n_words)
    warn_of_unknown_words(tally.unknown_rate)
