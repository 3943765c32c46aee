"""`elmo export-static`: one vector per word, in the formats of word2vec."""

from pathlib import Path
from typing import TYPE_CHECKING

import click

from elmo.cli.options import is_given, lines_option, model_option, path_option

if TYPE_CHECKING:
    from elmo.text.lines import LineFormat


@click.command("export-static")
@path_option(
    "--out", "-o", required=True, help="Output file in word2vec's format: .txt, .vec or .bin."
)
@model_option
@path_option("--vocabulary", help="Words, one per line: the vector of each is its layer 0.")
@click.option(
    "--text",
    multiple=True,
    help="Text files (path or glob); the vector of a word is the mean over its occurrences; "
    "repeatable.",
)
@lines_option
@click.option(
    "--layers", default="average", show_default=True, help="With --text: top, average or a number."
)
@click.option(
    "--min-count", default=1, show_default=True, help="With --text: leave out rarer words."
)
def export_static(
    out: Path,
    model: Path,
    vocabulary: Path | None,
    text: tuple[str, ...],
    lines: "LineFormat",
    layers: str,
    min_count: int,
) -> None:
    """Write static word vectors of a vocabulary or of a text."""
    if not text and any(map(is_given, ("lines", "layers", "min_count"))):
        raise click.UsageError("--lines, --layers and --min-count are for --text.")
    from elmo.vectors import export_static

    static = export_static(
        out,
        model,
        vocabulary=vocabulary,
        text=text or None,
        lines=lines,
        layers=layers,
        min_count=min_count,
    )
    click.echo(f"{out}: {len(static.words):,} words, {static.dim} dimensions")
