"""`elmo evaluate`: how well a model foresees a text it never saw."""

import dataclasses
import json
from pathlib import Path

import click


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("text", metavar="GLOB")
@click.option("--softmax", type=click.Path(path_type=Path), help="Official softmax weights.")
@click.option("--vocabulary", type=click.Path(path_type=Path), help="Their words, one a line.")
@click.option("--tokens", is_flag=True, help="The text is tokenised, a sentence a line.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for a program to read.")
def evaluate(
    model: Path,
    text: str,
    softmax: Path | None,
    vocabulary: Path | None,
    tokens: bool,
    as_json: bool,
) -> None:
    """Measure the perplexity of MODEL on a text.

    With the full softmax, each sentence from its start.

    Sentence ends count as words. Bits per character charge 8 bits for each byte of an unknown
    word, so that models with different vocabularies can be compared.
    """
    from elmo.elmo import Elmo
    from elmo.evaluate import measure_text

    opened = Elmo.load(model, softmax=softmax, vocabulary=vocabulary).model
    measured = dataclasses.asdict(measure_text(opened, text, is_tokenised=tokens))
    if as_json:
        click.echo(json.dumps(measured))
        return
    for name, value in measured.items():
        if value is not None:
            shown = f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
            click.echo(f"{name.replace('_', ' '):20} {shown}")
