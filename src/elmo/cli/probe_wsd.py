"""`elmo probe wsd`: word senses, by the nearest sense of SemCor at each layer."""

from pathlib import Path
from typing import Literal

import click

from elmo.cli.options import model_option
from elmo.cli.probe import json_option, show, state_option


@click.command()
@click.option(
    "--semcor", required=True, type=click.Path(path_type=Path), help="SemCor as JSON lines."
)
@click.option(
    "--sets",
    required=True,
    type=click.Path(path_type=Path),
    help="The folder with the all-words sets, a folder each.",
)
@click.option(
    "--wordnet",
    default="/usr/share/wordnet",
    show_default=True,
    type=click.Path(path_type=Path),
    help="WordNet 3.0, as Debian's wordnet-base installs it.",
)
@state_option
@model_option
@json_option
def wsd(
    semcor: Path,
    sets: Path,
    wordnet: Path,
    state: Literal["fresh", "warm", "carry"],
    model: Path,
    as_json: bool,
) -> None:
    """Measure how well the senses of words can be told at each layer."""
    from elmo.api import Elmo
    from elmo.probes.wsd import probe_wsd

    show(probe_wsd(Elmo.load(model), semcor, sets, wordnet, state=state), as_json)
