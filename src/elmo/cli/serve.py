"""`elmo serve`: a web page to explore a model, and a JSON API."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from elmo.cli.options import (
    check_lines_have_text,
    lines_option,
    model_option,
    search_text_option,
)

if TYPE_CHECKING:
    from elmo.text.lines import LineFormat


@click.command()
@model_option
@click.option("--host", help="Address to listen on.  [default: 127.0.0.1]")
@click.option("--port", type=int, help="Port; 0 chooses a free one.  [default: 8000]")
@search_text_option
@lines_option
@click.option(
    "--task",
    "tasks",
    multiple=True,
    type=click.Path(path_type=Path),
    help="Output folder of `elmo train`; repeatable.",
)
@click.option(
    "--token-file",
    type=click.Path(path_type=Path),
    help="File with a token that clients must send.",
)
@click.option("--token-variable", metavar="NAME", help="Environment variable with that token.")
@click.option("--config", type=click.Path(path_type=Path), help="Settings and limits as TOML.")
@click.option("--set", "sets", multiple=True, metavar="NAME=VALUE", help="One setting; repeatable.")
def serve(
    model: Path,
    host: str | None,
    port: int | None,
    text: tuple[str, ...],
    lines: "LineFormat",
    tasks: tuple[Path, ...],
    token_file: Path | None,
    token_variable: str | None,
    config: Path | None,
    sets: tuple[str, ...],
) -> None:
    """Serve a web page to explore a model, and a JSON API.

    /docs describes the API. Ctrl-C stops the server after the requests in progress.
    """
    check_lines_have_text(text)
    if token_file is not None and token_variable is not None:
        raise click.UsageError("--token-file or --token-variable, not both.")
    try:
        from elmo.serve.run import listen, read_token
        from elmo.serve.run import serve as run
    except ModuleNotFoundError as error:
        raise click.ClickException(
            f"{error.name} is not installed; install it with: pip install 'elmo-torch[serve]'"
        ) from error
    from elmo.api import Elmo
    from elmo.search.neighbors import open_index
    from elmo.serve.config import read_config
    from elmo.serve.operations import Service
    from elmo.serve.predictions import load_tasks

    settings = read_config(config, sets, host, port)
    token = read_token(token_file, token_variable)
    # Listen before the model is loaded, so that a port in use is reported without delay.
    with listen(settings.host, settings.port) as listening:
        elmo = Elmo.load(model)
        index = open_index(elmo, *text, lines=lines)
        service = Service(elmo, str(model), index, load_tasks(tasks, elmo))
        run(listening, service, settings, token, click.echo)
