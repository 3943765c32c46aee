"""`elmo serve`: a page to explore a model with, and a JSON API."""

from pathlib import Path

import click

from elmo.cli.options import model_option


@click.command()
@model_option
@click.option("--host", help="An address of this machine.  [default: 127.0.0.1]")
@click.option("--port", type=int, help="0 takes a free one.  [default: 8000]")
@click.option(
    "--text",
    type=click.Path(path_type=Path),
    help="To find neighbours in: a text file, or a folder of `elmo index`.  "
    "[default: WordNet's examples]",
)
@click.option(
    "--task",
    "tasks",
    multiple=True,
    type=click.Path(path_type=Path),
    help="A trained task model; repeatable.",
)
@click.option(
    "--token-file", type=click.Path(path_type=Path), help="A file with a token to ask for."
)
@click.option("--token-variable", metavar="NAME", help="An environment variable that holds one.")
@click.option("--config", type=click.Path(path_type=Path), help="Settings and limits as TOML.")
@click.option("--set", "sets", multiple=True, metavar="NAME=VALUE", help="One setting; repeatable.")
def serve(
    model: Path,
    host: str | None,
    port: int | None,
    text: Path | None,
    tasks: tuple[Path, ...],
    token_file: Path | None,
    token_variable: str | None,
    config: Path | None,
    sets: tuple[str, ...],
) -> None:
    """Open a page to explore a model with, and an API for programs, on this machine.

    /docs describes the API. Ctrl-C stops the server when it has answered what it was asked.
    """
    try:
        from elmo.serve.run import read_token
        from elmo.serve.run import serve as run
    except ModuleNotFoundError as error:
        raise click.ClickException(
            f"{error.name} is missing; install the server with: pip install 'elmo-torch[serve]'"
        ) from error
    from elmo.api import Elmo
    from elmo.search.neighbors import open_index
    from elmo.serve.operations import Service
    from elmo.serve.serve_config import read_config
    from elmo.serve.tasks import load_tasks

    settings = read_config(config, sets, host, port)
    token = read_token(token_file, token_variable)
    elmo = Elmo.load(model)
    service = Service(elmo, str(model), open_index(elmo, text), load_tasks(tasks, elmo))
    run(service, settings, token, click.echo)
