"""`elmo export-static`: one vector for each word, for all that reads word2vec's formats."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from elmo.cli.options import lines_option, model_option

if TYPE_CHECKING:
    from elmo.text.lines import LineFormat


@click.command("export-static")
@click.option(
    "--out",
    "-o",
    required=True,
    type=click.Path(path_type=Path),
    help="A new .txt or .vec (text) or .bin file in word2vec's format.",
)
@model_option
@click.option(
    "--vocabulary",
    type=click.Path(path_type=Path),
    help="Words, one a line: each gets its layer 0.",
)
@click.option(
    "--text",
    type=click.Path(path_type=Path),
    help="A text: each of its words gets the mean of its vectors there.",
)
@lines_option
@click.option(
    "--layers", default="average", show_default=True, help="Of a text: top, average or a number."
)
@click.option(
    "--min-count", default=1, show_default=True, help="Of a text: words that come so often."
)
def export_static(
    out: Path,
    model: Path,
    vocabulary: Path | None,
    text: Path | None,
    lines: "LineFormat",
    layers: str,
    min_count: int,
) -> None:
    """Write static word vectors, of a vocabulary or of a text."""
    from elmo.vectors.static import export_static

    static = export_static(
        out,
        model,
        vocabulary=vocabulary,
        text=text,
        lines=lines,
        layers=layers,
        min_count=min_count,
    )
    click.echo(f"{out}: {len(static.words):,} words, {static.vectors.shape[1]} numbers each")
