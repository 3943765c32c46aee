"""`elmo evaluate`: how well a model does on data it never saw."""

import dataclasses
import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elmo.cli.options import is_given, lines_option

if TYPE_CHECKING:
    from elmo.text.lines import LineFormat


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.argument("text", metavar="FILE")
@click.option("--softmax", type=click.Path(path_type=Path), help="Official softmax weights.")
@click.option("--vocabulary", type=click.Path(path_type=Path), help="Their words, one a line.")
@lines_option
@click.option(
    "bilm",
    "--model",
    "-m",
    type=click.Path(path_type=Path),
    help="The biLM of a task model, if it is not where it was in training.",
)
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for a program to read.")
def evaluate(
    model: Path,
    text: str,
    softmax: Path | None,
    vocabulary: Path | None,
    lines: "LineFormat",
    bilm: Path | None,
    as_json: bool,
) -> None:
    """Measure MODEL on a text, or on data of its task.

    A biLM is measured by perplexity on a text (FILE may be a glob), with the full softmax, each
    sentence from its start. Sentence ends count as words. Bits per character charge 8 bits for
    each byte of an unknown word, so that models with different vocabularies can be compared.

    A task model, which `elmo train` wrote, is measured by the scores of its task on a data FILE.
    """
    from elmo.api import Elmo
    from elmo.pretraining.perplexity import measure_text
    from elmo.tasks.saved import is_task_folder, open_task

    if is_task_folder(model):
        if softmax is not None or vocabulary is not None or is_given("lines"):
            raise click.UsageError("--softmax, --vocabulary and --lines are for a biLM's text.")
        trained = open_task(model, bilm_path=bilm)
        measured = dict(trained.measure(trained.read(Path(text))))
    else:
        opened = Elmo.load(model, softmax=softmax, vocabulary=vocabulary).model
        measured = dataclasses.asdict(measure_text(opened, text, lines))
    if as_json:
        click.echo(json.dumps(measured))
        return
    for name, value in measured.items():
        if value is not None:
            shown = f"{value:,}" if isinstance(value, int) else f"{value:,.4g}"
            click.echo(f"{name.replace('_', ' '):20} {shown}")
