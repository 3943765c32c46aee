"""`elmo score`: how expected each word of a text is."""

import json
import math
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import click

if TYPE_CHECKING:
    from elmo.scored import Reading, ScoredSentence


@click.command()
@click.argument("source", metavar="INPUT", type=click.Path(path_type=Path))
@click.option(
    "--model",
    "-m",
    required=True,
    type=click.Path(path_type=Path),
    help="A model folder, an official weights.hdf5, or a .zip of one.",
)
@click.option("--softmax", type=click.Path(path_type=Path), help="Official softmax weights.")
@click.option("--vocabulary", type=click.Path(path_type=Path), help="Their words, one a line.")
@click.option("--tokens", is_flag=True, help="A line is the tokens of a sentence, with spaces.")
@click.option(
    "--state",
    type=click.Choice(["fresh", "carry"]),
    default="fresh",
    show_default=True,
    help="carry: remember the sentences before, as in training on running text.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for a program to read.")
def score(
    source: Path,
    model: Path,
    softmax: Path | None,
    vocabulary: Path | None,
    tokens: bool,
    state: Literal["fresh", "carry"],
    as_json: bool,
) -> None:
    """Tell how surprising each word is, both ways, in bits.

    Given what stands before it, after it, and both.

    INPUT is plain, .gz or .xz text, or - for standard input. A word that the model cannot predict
    is scored as unknown and marked with a question mark. Perplexities count each sentence's end
    (forward) or begin (backward) as one more word; the combined one sees both sides of a word.
    """
    from elmo.elmo import Elmo
    from elmo.scored import Scored, to_mapping
    from elmo.shards import read_lines

    lines = [line for line in read_lines(source) if line]
    elmo = Elmo.load(model, softmax=softmax, vocabulary=vocabulary)
    texts = elmo.score([line.split() if tokens else line for line in lines], state=state)
    scored = Scored([sentence for text in texts for sentence in text.sentences])
    if as_json:
        click.echo(json.dumps(to_mapping(scored)))
        return
    for sentence in scored.sentences:
        _print_sentence(sentence)
    for reading in scored.sentences[0].log_probabilities if scored.sentences else ():
        click.echo(f"perplexity {reading:9} {scored.perplexity(reading):10.2f}")


def _print_sentence(sentence: "ScoredSentence") -> None:
    """A line a word, then the sentence's edge and its sum, all in bits."""
    readings: tuple[Reading, ...] = tuple(sentence.log_probabilities)
    known = zip(sentence.tokens, sentence.is_known, strict=True)
    names = [word if is_known else f"{word} ?" for word, is_known in known]
    rows = [
        list(readings),
        *(
            map("{:.2f}".format, row)
            for row in zip(*map(sentence.surprisal, readings), strict=True)
        ),
        [f"{_bits(sentence.edges[r]):.2f}" if r in sentence.edges else "" for r in readings],
        [f"{_bits(sentence.log_probability(r)):.2f}" for r in readings],
    ]
    width = max(map(len, [*names, "(its edge)"]))
    for name, row in zip(["bits", *names, "(its edge)", "(in all)"], rows, strict=True):
        click.echo(f"{name:{width}}" + "".join(f"{cell:>10}" for cell in row))
    click.echo()


def _bits(log_probability: float) -> float:
    return -log_probability / math.log(2)
