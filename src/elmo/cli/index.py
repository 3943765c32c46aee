"""`elmo index`: an index of a text, for `elmo neighbors` and `elmo serve`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elmo.cli.options import (
    check_folder_name,
    json_option,
    lines_option,
    model_option,
    path_option,
    texts_argument,
)

if TYPE_CHECKING:
    from elmo.text.lines import LineFormat


@click.command()
@texts_argument("texts", "TEXT")
@path_option("--out", "-o", required=True, help="Folder of the index; an index in it is replaced.")
@model_option
@click.option(
    "--layers",
    default="top",
    show_default=True,
    help="Vectors of the graph of a large text: top, average, or the number of a layer.",
)
@click.option("--exact", is_flag=True, help="No graph: a search for any word compares all of them.")
@lines_option
@json_option
def index(
    texts: tuple[str, ...],
    out: Path,
    model: Path,
    layers: str,
    exact: bool,
    lines: "LineFormat",
    as_json: bool,
) -> None:
    """Index every word of a text in its context.

    TEXT is a file, a folder or a glob of files: plain, .gz or .xz; or - for standard input.
    """
    check_folder_name(out)
    from elmo.api import Elmo
    from elmo.files.text_files import find_text_files
    from elmo.search.build import GRAPH_FROM, build_index
    from elmo.text.lines import read_sentences

    made = build_index(
        Elmo.load(model),
        read_sentences(find_text_files(*texts), lines),
        out,
        layers=layers,
        graph_from=None if exact else GRAPH_FROM,
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
        f"{out}: {len(made):,} tokens, {made.n_words:,} distinct words, "
        f"{len(made.sentences):,} sentences{', with a graph' if made.has_graph else ''}"
    )
