"""`elmo probe senses`: whether the neighbors of a word have its sense."""

from pathlib import Path
from typing import Literal

import click

from elmo.cli.options import model_option
from elmo.cli.probe import json_option, show, state_option


@click.command()
@state_option
@model_option
@json_option
def senses(state: Literal["fresh", "warm", "carry"], model: Path, as_json: bool) -> None:
    """Measure how often the nearest use of a word has the same sense."""
    from elmo.api import Elmo
    from elmo.probes.senses import probe_senses

    show(probe_senses(Elmo.load(model), state=state), as_json)
