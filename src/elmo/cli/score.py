"""`elmo score`: how expected each word of a text is."""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

from elmo.cli.options import lines_option, model_option

if TYPE_CHECKING:
    from elmo.text.lines import LineFormat


@click.command()
@click.argument("source", metavar="INPUT", type=click.Path(path_type=Path))
@model_option
@click.option("--softmax", type=click.Path(path_type=Path), help="Official softmax weights.")
@click.option("--vocabulary", type=click.Path(path_type=Path), help="Their words, one a line.")
@lines_option
@click.option(
    "--state",
    type=click.Choice(["fresh", "carry"]),
    default="fresh",
    show_default=True,
    help="carry: remember the sentences before, as in training on running text.",
)
@click.option(
    "--json", "as_json", is_flag=True, help="A line of JSON a sentence; then the perplexities."
)
def score(
    source: Path,
    model: Path,
    softmax: Path | None,
    vocabulary: Path | None,
    lines: "LineFormat",
    state: Literal["fresh", "carry"],
    as_json: bool,
) -> None:
    """Tell how surprising each word is, both ways, in bits.

    Given what stands before it, after it, and both.

    INPUT is plain, .gz or .xz text, or - for standard input. A word that the model cannot predict
    is scored as unknown and marked with a question mark. Perplexities count each sentence's end
    (forward) or begin (backward) as one more word; the combined one sees both sides of a word.
    """
    from elmo.api import Elmo
    from elmo.inference.results import Tally, as_table
    from elmo.text.lines import read_sentences

    elmo = Elmo.load(model, softmax=softmax, vocabulary=vocabulary)
    tally = Tally()
    for sentence in elmo.scorer.stream(read_sentences([source], lines), state):
        tally.add(sentence)
        if as_json:
            click.echo(json.dumps(sentence.to_mapping()))
        else:
            click.echo(f"{as_table(sentence)}\n")
    if as_json:
        click.echo(json.dumps({"perplexity": tally.perplexities()}))
        return
    for reading, perplexity in tally.perplexities().items():
        click.echo(f"perplexity {reading:9} {perplexity or math.inf:10.2f}")
