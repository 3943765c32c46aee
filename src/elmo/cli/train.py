"""`elmo train`: train a task model on ELMo vectors."""

from pathlib import Path

import click

from elmo.cli.options import (
    budget_options,
    check_folder_name,
    config_option,
    glove_option,
    model_option,
    out_option,
    path_option,
    set_option,
)
from elmo.tasks import TASKS


@click.command(epilog=f"Tasks: {', '.join(TASKS)}.")
@click.argument("task")
@path_option("--train", required=True, help="Training data.")
@path_option("--dev", required=True, help="Development data, for early stopping.")
@out_option
@model_option
@click.option("--no-elmo", is_flag=True, help="Train the same model without ELMo, as a baseline.")
@click.option("--fine-tune", is_flag=True, help="Train the biLM too; see fine_tune in settings.")
@glove_option
@config_option
@set_option
@budget_options
@path_option("--cache", help="Folder of ELMo layers, shared between runs.  [default: OUT/cache]")
@click.option("--bundle", is_flag=True, help="Store a copy of the biLM with the model.")
def train(
    task: str,
    train: Path,
    dev: Path,
    out: Path,
    model: Path,
    no_elmo: bool,
    fine_tune: bool,
    glove: Path | None,
    config: Path | None,
    sets: tuple[str, ...],
    max_minutes: float | None,
    max_steps: int | None,
    cache: Path | None,
    bundle: bool,
) -> None:
    """Train a task model, such as a tagger, on labeled data.

    The page Tasks of the documentation describes the data and settings of each TASK. OUT/model is
    the best model on the development data. Run the same command to resume a run that was stopped or
    killed.
    """
    check_folder_name(out)
    from elmo.tasks import find_task
    from elmo.tasks.config import read_config
    from elmo.tasks.train import train_task
    from elmo.training import Budget, join_processes

    found = find_task(task)
    settings = read_config(
        found.defaults(), config, sets, has_elmo=not no_elmo, is_fine_tuned=fine_tune
    )
    processes = join_processes()
    result = train_task(
        found,
        settings,
        train,
        dev,
        out,
        bilm=model,
        static=glove,
        cache=cache,
        bundle=bundle,
        budget=Budget(max_steps, max_minutes),
        processes=processes,
    )
    processes.shutdown()
    if result is None:
        raise click.Abort
    if processes.is_first:
        score = result["scores"][found.metric]
        click.echo(
            f"{out / 'model'}: dev {found.metric} {score:.2f} (epoch {result['best_epoch']})"
        )
