"""`elmo predict`: predictions of a trained task model."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elmo.cli.options import (
    is_given,
    lines_option,
    path_argument,
    task_bilm_option,
    texts_argument,
    warn_if_empty,
)

if TYPE_CHECKING:
    from elmo.text.lines import LineFormat


@click.command()
@path_argument("folder", "DIR")
@texts_argument("sources", "INPUT")
@click.option("--data", is_flag=True, help="INPUT is a data file of the task, not text.")
@task_bilm_option
@lines_option
@click.option("--json", "as_json", is_flag=True, help="Print a line of JSON per example.")
def predict(
    folder: Path,
    sources: tuple[str, ...],
    data: bool,
    bilm: Path | None,
    lines: "LineFormat",
    as_json: bool,
) -> None:
    """Predict with a trained task model.

    DIR is the output folder of `elmo train`.

    INPUT is plain, .gz or .xz text, a folder, a glob, or - for standard input.
    """
    if data and is_given("lines"):
        raise click.UsageError("--lines is for text, not for --data.")
    from itertools import tee

    from elmo.files.text_files import find_text_files, read_lines
    from elmo.tasks.saved import open_task

    trained = open_task(folder, bilm_path=bilm)
    paths = [Path(source) for source in sources] if data else find_text_files(*sources)
    examples = (
        example
        for path in paths
        for example in (trained.read(path) if data else trained.read_text(read_lines(path), lines))
    )
    shown, given = tee(examples)
    n_examples = 0
    for example, prediction in zip(shown, trained.predict(given), strict=True):
        n_examples += 1
        if as_json:
            click.echo(json.dumps(trained.task.to_mapping(example, prediction)))
        else:
            click.echo(trained.task.show(example, prediction))
    warn_if_empty(sources, n_examples)
