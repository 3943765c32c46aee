"""`elmo download`: get a released model, and open it once."""

from pathlib import Path

import click


@click.command()
@click.argument("name")
def download(name: str) -> None:
    """Download a released model by its name.

    NAME is one of `elmo models`, or hf:owner/name.
    """
    from elmo.models import downloads
    from elmo.models.describe import describe

    folder = downloads.fetch(name)
    found = describe(Path(name))
    click.echo(f"{name}: {found['n_parameters']:,} parameters, in {folder}")
