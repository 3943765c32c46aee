"""`elmo train`: a task model on ELMo, from data files; the same command again goes on."""

from pathlib import Path

import click

from elmo.cli.options import model_option
from elmo.tasks import TASKS


@click.command(epilog=f"Tasks: {', '.join(TASKS)}.")
@click.argument("task")
@click.option("--train", required=True, type=click.Path(path_type=Path), help="Training data.")
@click.option("--dev", required=True, type=click.Path(path_type=Path), help="To stop early by.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The run's folder.")
@model_option
@click.option("--no-elmo", is_flag=True, help="The same model without ELMo, to compare with.")
@click.option(
    "--glove",
    type=click.Path(path_type=Path),
    help="Word vectors in GloVe's or word2vec's text format; random ones without.",
)
@click.option("--config", type=click.Path(path_type=Path), help="Settings as TOML.")
@click.option("--set", "sets", multiple=True, metavar="NAME=VALUE", help="One setting; repeatable.")
@click.option(
    "--cache",
    type=click.Path(path_type=Path),
    help="Where ELMo's layers are kept, to share them between runs.  [default: OUT/cache]",
)
@click.option("--bundle", is_flag=True, help="Put a copy of the biLM beside the model.")
def train(
    task: str,
    train: Path,
    dev: Path,
    out: Path,
    model: Path,
    no_elmo: bool,
    glove: Path | None,
    config: Path | None,
    sets: tuple[str, ...],
    cache: Path | None,
    bundle: bool,
) -> None:
    """Train a model for a TASK.

    docs/tasks.md says what data each task reads, and what can be set. OUT/model is the best
    model on the dev data. The same command goes on with a run that was stopped or killed.
    """
    from elmo.tasks import find_task
    from elmo.tasks.config import read_config
    from elmo.tasks.train import train_task

    found = find_task(task)
    settings = read_config(found.defaults(), config, sets, has_elmo=not no_elmo)
    result = train_task(
        found, settings, train, dev, out, bilm=model, static=glove, cache=cache, bundle=bundle
    )
    if result is None:
        raise click.Abort
    score = result["scores"][found.metric]
    click.echo(f"{out / 'model'}: dev {found.metric} {score:.2f} (epoch {result['best_epoch']})")
