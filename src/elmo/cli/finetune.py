"""`elmo finetune`: let a trained model go on learning from text of another kind."""

import dataclasses
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elmo.cli.options import lines_option

if TYPE_CHECKING:
    from elmo.text.lines import LineFormat


@click.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option("--train", required=True, metavar="GLOB", help="Text files, also .gz and .xz.")
@click.option("--heldout", required=True, metavar="GLOB", help="Other text, to measure with.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The run's folder.")
@click.option("--softmax", type=click.Path(path_type=Path), help="Official softmax weights.")
@click.option("--vocabulary", type=click.Path(path_type=Path), help="Their words, one a line.")
@click.option("--config", type=click.Path(path_type=Path), help="Settings as TOML.")
@click.option("--set", "sets", multiple=True, metavar="NAME=VALUE", help="One setting; repeatable.")
@click.option("--max-minutes", type=float, help="Training time, restarts included.")
@click.option("--max-steps", type=int, help="Steps, restarts included.")
@lines_option
def finetune(
    model: Path,
    train: str,
    heldout: str,
    out: Path,
    softmax: Path | None,
    vocabulary: Path | None,
    config: Path | None,
    sets: tuple[str, ...],
    max_minutes: float | None,
    max_steps: int | None,
    lines: "LineFormat",
) -> None:
    """Let MODEL go on learning from text of another kind.

    MODEL is a folder or official weights. OUT/model is the best model on the held-out text. The
    same command goes on with a run that was stopped or killed.
    """
    from elmo.api import Elmo
    from elmo.pretraining import finetune as room
    from elmo.pretraining.config import read_over
    from elmo.pretraining.pretrain import open_texts
    from elmo.training.budget import Budget
    from elmo.training.distributed import join_processes

    settings = read_over(dict(room.DEFAULTS), config, sets)
    start = Elmo.load(model, softmax=softmax, vocabulary=vocabulary).model
    settings = dataclasses.replace(settings, model=start.bilm.config)
    processes = join_processes()
    texts = open_texts(train, heldout, out / "cache", processes, lines)
    budget = Budget(max_steps, max_minutes)
    result = room.finetune(start, settings, texts, out, budget, processes)
    processes.leave()
    if not result.is_finished:
        raise click.Abort
    if result.before is not None and result.after is not None:
        click.echo(f"before: held-out perplexity {result.before.describe()}")
        click.echo(f"after:  held-out perplexity {result.after.describe()}")
