"""`elmo models`: the models that can be opened by name."""

import json
from dataclasses import asdict

import click

from elmo.cli.options import fit_terminal


@click.command()
@click.argument("name", required=False)
@click.option("--json", "as_json", is_flag=True, help="Print JSON.")
def models(name: str | None, as_json: bool) -> None:
    """List the released models, or describe one."""
    from elmo.models import catalog, downloads

    found = list(catalog.releases().values()) if name is None else [catalog.find(name)]
    rows = [
        {**asdict(release), "is_here": downloads.is_here(release)}
        | {"folder": str(downloads.folder_of(release))}
        for release in found
    ]
    if as_json:
        click.echo(json.dumps(rows if name is None else rows[0], indent=2))
    elif name is None:
        width = max(len(release.name) for release in found)
        for row in rows:
            mark = "*" if row["is_here"] else " "
            click.echo(fit_terminal(f"{mark} {row['name']:{width}}  {row['about']}"))
        click.echo("* = downloaded. Run `elmo models NAME` for details.")
    else:
        for key, value in rows[0].items():
            values = value if isinstance(value, tuple) else (value,)
            for shown in values or ("none",):
                click.echo(f"{key:10}  {'unknown' if shown is None else shown}")
