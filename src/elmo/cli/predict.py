"""`elmo predict`: what a trained task model says of a text."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elmo.cli.options import lines_option

if TYPE_CHECKING:
    from elmo.text.lines import LineFormat


@click.command()
@click.argument("folder", metavar="DIR", type=click.Path(path_type=Path))
@click.argument("source", metavar="INPUT", type=click.Path(path_type=Path))
@click.option("--data", is_flag=True, help="INPUT is a data file of the task, not raw text.")
@click.option(
    "--model",
    "-m",
    type=click.Path(path_type=Path),
    help="The biLM, if it is not where it was in training.",
)
@lines_option
@click.option("--json", "as_json", is_flag=True, help="A line of JSON for each example.")
def predict(
    folder: Path, source: Path, data: bool, model: Path | None, lines: "LineFormat", as_json: bool
) -> None:
    """Ask the task model in DIR, which `elmo train` wrote, about a text.

    INPUT is plain, .gz or .xz text, or - for standard input.
    """
    from itertools import tee

    from elmo.files.text_files import read_lines
    from elmo.tasks.saved import open_task

    trained = open_task(folder, bilm_path=model)
    examples = trained.read(source) if data else trained.task.read_text(read_lines(source), lines)
    shown, asked = tee(examples)
    for example, prediction in zip(shown, trained.predict(asked), strict=True):
        if as_json:
            click.echo(json.dumps(trained.task.to_mapping(example, prediction)))
        else:
            click.echo(trained.task.show(example, prediction))
