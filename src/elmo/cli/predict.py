"""`elmo predict`: predictions of a trained task model."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elmo.cli.options import lines_option, path_argument, task_bilm_option

if TYPE_CHECKING:
    from elmo.text.lines import LineFormat


@click.command()
@path_argument("folder", "DIR")
@path_argument("source", "INPUT")
@click.option("--data", is_flag=True, help="INPUT is a data file of the task, not text.")
@task_bilm_option
@lines_option
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON per example.")
def predict(
    folder: Path, source: Path, data: bool, bilm: Path | None, lines: "LineFormat", as_json: bool
) -> None:
    """Predict with the task model in DIR, the output of `elmo train`.

    INPUT is plain, .gz or .xz text, or - for standard input.
    """
    from itertools import tee

    from elmo.files.text_files import read_lines
    from elmo.tasks.saved import open_task

    trained = open_task(folder, bilm_path=bilm)
    examples = trained.read(source) if data else trained.task.read_text(read_lines(source), lines)
    shown, given = tee(examples)
    for example, prediction in zip(shown, trained.predict(given), strict=True):
        if as_json:
            click.echo(json.dumps(trained.task.to_mapping(example, prediction)))
        else:
            click.echo(trained.task.show(example, prediction))
