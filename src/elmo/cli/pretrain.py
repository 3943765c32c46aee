"""`elmo pretrain`: train a model on your own text; the same command again goes on."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from elmo.cli.options import lines_option

if TYPE_CHECKING:
    from elmo.text.lines import LineFormat


@click.command()
@click.option("--train", required=True, metavar="GLOB", help="Text files, also .gz and .xz.")
@click.option("--heldout", required=True, metavar="GLOB", help="Other text, to measure with.")
@click.option("--out", required=True, type=click.Path(path_type=Path), help="The run's folder.")
@click.option("--size", help="original, medium, small (the default) or tiny.")
@click.option("--config", type=click.Path(path_type=Path), help="Settings as TOML.")
@click.option("--set", "sets", multiple=True, metavar="NAME=VALUE", help="One setting; repeatable.")
@click.option("--max-minutes", type=float, help="Training time, restarts included.")
@click.option("--max-steps", type=int, help="Steps, restarts included.")
@lines_option
@click.option(
    "--cache",
    type=click.Path(path_type=Path),
    help="Where split text is kept, to share it between runs.  [default: OUT/cache]",
)
def pretrain(
    train: str,
    heldout: str,
    out: Path,
    size: str | None,
    config: Path | None,
    sets: tuple[str, ...],
    max_minutes: float | None,
    max_steps: int | None,
    lines: "LineFormat",
    cache: Path | None,
) -> None:
    """Train a model on your own text.

    A blank line stands between documents. OUT/model is the model; the same command
    goes on with a run that was stopped or killed.
    """
    from elmo.pretraining import pretrain as room
    from elmo.pretraining.config import read_config
    from elmo.training.budget import Budget
    from elmo.training.distributed import join_processes

    settings = read_config(size, config, sets)
    processes = join_processes()
    texts = room.open_texts(train, heldout, cache or out / "cache", processes, lines)
    result = room.pretrain(settings, texts, out, Budget(max_steps, max_minutes), processes)
    processes.leave()
    if not result.is_finished:
        raise click.Abort
    if result.heldout is not None:
        click.echo(f"{out / 'model'}: held-out perplexity {result.heldout.mean:.2f}")
