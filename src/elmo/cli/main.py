"""`elmo`: runs a verb, and reports errors that a user can fix in one line on standard error.

SIGTERM ends a verb like Ctrl-C: unfinished files are removed. A verb is the click command in the
module of the same name, which is imported when the verb is called. torch is imported inside the
command, so that `elmo --help` is fast.
"""

import io
import logging
import os
import sys
import warnings
from collections.abc import Sequence
from importlib import import_module
from typing import NoReturn, TextIO

import click

from elmo import __version__
from elmo.cli.signals import INTERRUPTED, ended_by_signals
from elmo.errors import ElmoError

VERBS = (
    "embed",
    "score",
    "index",
    "neighbors",
    "serve",
    "pretrain",
    "finetune",
    "train",
    "predict",
    "evaluate",
    "probe",
    "export-static",
    "convert",
    "info",
    "models",
    "download",
)


class Verbs(click.Group):
    """The click group of all verbs, each imported on first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The verbs in the order of typical use."""
        return list(VERBS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The click command of a verb; None if there is no such verb."""
        if cmd_name not in VERBS:
            return None
        module = import_module(f"elmo.cli.{cmd_name.replace('-', '_')}")
        command: click.Command = getattr(module, cmd_name.replace("-", "_"))
        return command

    def invoke(self, ctx: click.Context) -> object:
        """Run a verb; an `ElmoError` becomes a message, or a traceback with --debug."""
        try:
            return super().invoke(ctx)
        except ElmoError as error:
            if ctx.params["debug"]:
                raise
            raise click.ClickException(str(error)) from error


@click.group(cls=Verbs, invoke_without_command=True)
@click.version_option(__version__, message="%(version)s")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
@click.pass_context
def cli(ctx: click.Context, debug: bool) -> None:
    """ELMo: contextual word vectors."""
    if ctx.invoked_subcommand is None:
        click.echo(ctx.get_help())


def main(arguments: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):  # otherwise replaced by the caller, such as a test
            # The system encoding may lack characters of the text, as cp1252 on Windows does. A file
            # name that is not valid Unicode has surrogates, which UTF-8 cannot encode either.
            stream.reconfigure(encoding="utf-8", errors="backslashreplace")
    logging.basicConfig(format="%(message)s", level=logging.INFO, stream=sys.stderr)
    warnings.showwarning = _show_warning
    try:
        with ended_by_signals():
            sys.exit(cli.main(arguments, prog_name="elmo", standalone_mode=False))
    except (click.Abort, KeyboardInterrupt):
        sys.exit(INTERRUPTED)
    except click.ClickException as error:
        _fail(_one_line(error))
    except OSError as error:  # from the operating system, such as a full disk
        if "--debug" in (sys.argv[1:] if arguments is None else arguments):
            raise
        _fail(_describe(error))


def _fail(message: str) -> NoReturn:
    click.echo(f"error: {message}", err=True)
    _drop_output()
    sys.exit(2)


def _one_line(error: click.ClickException) -> str:
    message = " ".join(error.format_message().split("\n"))
    if isinstance(error, click.UsageError) and error.ctx is not None:
        return f"{message} See `{error.ctx.command_path} --help`."
    return message


def _describe(error: OSError) -> str:
    reason = error.strerror or str(error)
    return reason if error.filename is None else f"{error.filename}: {reason}"


def _drop_output() -> None:
    """Discard output that a full disk did not take: flushing it at exit would fail again."""
    try:
        sys.stdout.flush()
    except OSError:
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _show_warning(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    click.echo(f"warning: {message}", err=True)
