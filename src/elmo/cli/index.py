"""`elmo index`: a text as a folder in which `neighbors` and `serve` search."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elmo.cli.options import lines_option, model_option

if TYPE_CHECKING:
    from elmo.text.lines import LineFormat


@click.command()
@click.argument("text")
@click.option(
    "--out",
    "-o",
    required=True,
    type=click.Path(path_type=Path),
    help="The folder to make; an index that is there is replaced.",
)
@model_option
@click.option(
    "--layers",
    default="top",
    show_default=True,
    help="What the graph of a large text links: top, average, or the number of a layer.",
)
@click.option("--exact", is_flag=True, help="No graph: a search for any word compares all of them.")
@lines_option
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for a program to read.")
def index(
    text: str, out: Path, model: Path, layers: str, exact: bool, lines: "LineFormat", as_json: bool
) -> None:
    """Index every word of a text where it stands.

    TEXT is a file, a folder or a glob of files: plain, .gz or .xz.
    """
    from elmo.api import Elmo
    from elmo.files.text_files import find_shards
    from elmo.search.build import GRAPH_FROM, build_index
    from elmo.text.lines import read_sentences

    sentences = read_sentences(find_shards(text), lines)
    made = build_index(
        Elmo.load(model), sentences, out, layers=layers, graph_from=None if exact else GRAPH_FROM
    )
    counts = {
        "n_tokens": len(made),
        "n_sentences": len(made.sentences),
        "n_words": made.n_words,
        "has_graph": made.has_graph,
    }
    if as_json:
        click.echo(json.dumps(counts))
        return
    click.echo(
        f"{out}: {len(made):,} words, {made.n_words:,} of them different, "
        f"in {len(made.sentences):,} sentences{', with a graph' if made.has_graph else ''}"
    )
