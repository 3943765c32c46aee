"""`elmo probe`: what the layers of a model know; the probes are its sub-verbs."""

import json
from importlib import import_module
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from elmo.probes.measured import Measured

PROBES = ("pos", "wsd", "senses", "oov")


class Probes(click.Group):
    """The probes, each imported at first use."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """In the order of the paper."""
        return list(PROBES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of a probe."""
        if cmd_name not in PROBES:
            return None
        command: click.Command = getattr(import_module(f"elmo.cli.probe_{cmd_name}"), cmd_name)
        return command


@click.group(cls=Probes)
def probe() -> None:
    """Measure what the layers of a model know, as the papers did."""


state_option = click.option(
    "--state",
    type=click.Choice(["fresh", "warm", "carry"]),
    default="fresh",
    show_default=True,
    help="What a sentence starts from: nothing, an empty sentence, or those before it.",
)
json_option = click.option(
    "--json", "as_json", is_flag=True, help="One JSON object, for a program to read."
)


def show(measured: "Measured", as_json: bool) -> None:
    """Print what a probe gave."""
    click.echo(json.dumps(measured.to_mapping()) if as_json else measured.to_markdown())
