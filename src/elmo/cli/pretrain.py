"""`elmo pretrain`: train a biLM on text."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from elmo.cli.options import check_folder_name, path_option, text_run_options

if TYPE_CHECKING:
    from elmo.text.lines import LineFormat


@click.command()
@text_run_options
@click.option("--size", help="Size of the network: original, medium, small (default) or tiny.")
@path_option("--cache", help="Folder of tokenized text, shared between runs.  [default: OUT/cache]")
def pretrain(
    train: tuple[str, ...],
    heldout: tuple[str, ...],
    lines: "LineFormat",
    out: Path,
    config: Path | None,
    sets: tuple[str, ...],
    max_minutes: float | None,
    max_steps: int | None,
    size: str | None,
    cache: Path | None,
) -> None:
    """Train a language model (biLM) on your own text.

    A blank line separates documents. OUT/model is the model. Run the same command to resume a run
    that was stopped or killed.
    """
    check_folder_name(out)
    from elmo.pretraining import open_texts, pretrain_model, read_config
    from elmo.pretraining.pretrain import check_run_folder
    from elmo.training import Budget, join_processes

    settings = read_config(size, config, sets)
    check_run_folder(out, settings)
    processes = join_processes()
    texts = open_texts(train, heldout, cache or out / "cache", processes, lines)
    perplexity = pretrain_model(settings, texts, out, Budget(max_steps, max_minutes), processes)
    processes.shutdown()
    if perplexity is None:
        raise click.Abort
    if processes.is_first:
        click.echo(f"{out / 'model'}: held-out perplexity {perplexity.describe()}")
