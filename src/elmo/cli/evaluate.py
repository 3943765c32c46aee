"""`elmo evaluate`: perplexity of a biLM, or scores of a task model."""

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elmo.cli.options import (
    is_given,
    json_option,
    lines_option,
    path_argument,
    softmax_option,
    task_bilm_option,
    texts_argument,
    vocabulary_option,
    warn_of_unknown_words,
)

if TYPE_CHECKING:
    from elmo.text.lines import LineFormat


@click.command()
@path_argument("model", "MODEL")
@texts_argument("texts", "FILE")
@softmax_option
@vocabulary_option
@lines_option
@task_bilm_option
@json_option
def evaluate(
    model: Path,
    texts: tuple[str, ...],
    softmax: Path | None,
    vocabulary: Path | None,
    lines: "LineFormat",
    bilm: Path | None,
    as_json: bool,
) -> None:
    """Evaluate MODEL on held-out data.

    A language model (biLM): perplexity on text (FILE may be a glob), with the full softmax, each
    sentence from a zero state. Sentence boundaries count as words. Bits per character add 8 bits
    for each byte of an unknown word and for the space after it, so that models with different
    vocabularies can be compared.

    A task model of `elmo train`: the scores of its task on a data FILE.
    """
    from elmo.api import Elmo
    from elmo.pretraining.perplexity import measure_text
    from elmo.tasks.saved import is_task_folder, open_task

    if is_task_folder(model):
        if softmax is not None or vocabulary is not None or is_given("lines"):
            raise click.UsageError("--softmax, --vocabulary and --lines are for a biLM.")
        trained = open_task(model, bilm_path=bilm)
        examples = [example for text in texts for example in trained.read(Path(text))]
        measured = dict(trained.measure(examples))
    else:
        if bilm is not None:
            raise click.UsageError("--model is for a task model.")
        opened = Elmo.load(model, softmax=softmax, vocabulary=vocabulary).model
        measured = dataclasses.asdict(measure_text(opened, texts, lines))
    warn_of_unknown_words(measured.get("unknown_rate", 0.0))
    if as_json:
        click.echo(json.dumps(measured))
        return
    for name, value in measured.items():
        if value is not None:
            shown = f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
            click.echo(f"{name.replace('_', ' '):20} {shown}")
