"""`elmo finetune`: continue pre-training on text of another domain."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from elmo.cli.options import (
    check_folder_name,
    path_argument,
    softmax_option,
    text_run_options,
    vocabulary_option,
)

if TYPE_CHECKING:
    from elmo.text.lines import LineFormat


@click.command()
@path_argument("model", "MODEL")
@text_run_options
@softmax_option
@vocabulary_option
def finetune(
    model: Path,
    train: tuple[str, ...],
    heldout: tuple[str, ...],
    lines: "LineFormat",
    out: Path,
    config: Path | None,
    sets: tuple[str, ...],
    max_minutes: float | None,
    max_steps: int | None,
    softmax: Path | None,
    vocabulary: Path | None,
) -> None:
    """Continue training a model on text of another domain.

    MODEL is any model: a folder, a file, an archive or a name. OUT/model is the best model on the
    held-out text. Run the same command to resume a run that was stopped or killed.

    If MODEL has no softmax, one is trained first; --max-minutes and --max-steps apply to each of
    the two phases.
    """
    check_folder_name(out)
    from elmo.api import Elmo
    from elmo.pretraining import finetune_model, open_texts, read_finetune_config
    from elmo.pretraining.pretrain import check_run_folder
    from elmo.training import Budget, join_processes

    start = Elmo.load(model, softmax=softmax, vocabulary=vocabulary).model
    settings = read_finetune_config(start, config, sets)
    check_run_folder(out, settings)
    processes = join_processes()
    texts = open_texts(train, heldout, out / "cache", processes, lines)
    budget = Budget(max_steps, max_minutes)
    result = finetune_model(start, settings, texts, out, budget, processes)
    processes.shutdown()
    if result is None:
        raise click.Abort
    if processes.is_first:
        click.echo(f"before: held-out perplexity {result.before.describe()}")
        click.echo(f"after:  held-out perplexity {result.after.describe()}")
