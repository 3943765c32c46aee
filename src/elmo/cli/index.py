"""`elmo index`: an index of a text, for `elmo neighbors` and `elmo serve`."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elmo.cli.options import (
    check_folder_name,
    is_given,
    json_option,
    lines_option,
    model_option,
    path_option,
    texts_argument,
)

if TYPE_CHECKING:
    from elmo.search import WordIndex
    from elmo.text.lines import LineFormat


@click.command()
@texts_argument("texts", "TEXT")
@path_option("--out", "-o", help="Folder of the index; an index in it is replaced.")
@model_option
@click.option(
    "--layers",
    default="top",
    show_default=True,
    help="Layer for the search graph and for exports: top, average, or a layer number.",
)
@click.option(
    "--exact",
    is_flag=True,
    help="Build no search graph; --any-word then compares all vectors (exact, but slower).",
)
@lines_option
@path_option("--parquet", help="Export a map of the words for embedding-atlas: x, y, neighbors.")
@path_option("--tsv", help="Export vectors to a folder for TensorBoard's projector.")
@click.option("--word", "words", multiple=True, help="Export this word only; repeatable.")
@click.option(
    "--max-rows", default=5000, show_default=True, help="Words to export, spread over the text."
)
@json_option
def index(
    texts: tuple[str, ...],
    out: Path | None,
    model: Path,
    layers: str,
    exact: bool,
    lines: "LineFormat",
    parquet: Path | None,
    tsv: Path | None,
    words: tuple[str, ...],
    max_rows: int,
    as_json: bool,
) -> None:
    """Index every word of a text in its context.

    TEXT is a file, a folder or a glob of files: plain, .gz or .xz; or - for standard input. To
    export an existing index, give its folder as TEXT and omit --out.
    """
    _check_options(texts, out, exact=exact, is_exported=parquet is not None or tsv is not None)
    for folder in (out, tsv):
        if folder is not None:
            check_folder_name(folder)
    from elmo.api import Elmo
    from elmo.files.text_files import find_text_files
    from elmo.search import WordIndex, write_map, write_projector
    from elmo.search.build import GRAPH_FROM, build_index
    from elmo.search.export import MIN_ROWS, check_map, check_projector
    from elmo.text.lines import read_sentences

    # Before the index is built, which may take hours.
    if max_rows < MIN_ROWS:
        raise click.UsageError(f"--max-rows {max_rows}, expected at least {MIN_ROWS}.")
    if parquet is not None:
        check_map()
    if tsv is not None:
        check_projector(tsv)
    elmo = Elmo.load(model)
    if out is None:
        made = WordIndex(Path(texts[0]), elmo)
    else:
        made = build_index(
            elmo,
            read_sentences(find_text_files(*texts), lines),
            out,
            layers=layers,
            graph_from=None if exact else GRAPH_FROM,
        )
    exported = {
        str(path): write(made, path, layers=layers, words=words, max_rows=max_rows)
        for path, write in ((parquet, write_map), (tsv, write_projector))
        if path is not None
    }
    _show(made, out or Path(texts[0]), exported, as_json)


def _check_options(
    texts: tuple[str, ...], out: Path | None, *, exact: bool, is_exported: bool
) -> None:
    """Reject options that would do nothing."""
    if out is None and not is_exported:
        raise click.UsageError("Missing option '--out' / '-o'.")
    if out is None and len(texts) > 1:
        raise click.UsageError(f"{len(texts)} texts without --out: give the folder of one index.")
    if out is None and (exact or is_given("lines")):
        raise click.UsageError("--exact and --lines are for a new index: add --out.")
    if not is_exported and (is_given("words") or is_given("max_rows")):
        raise click.UsageError("--word and --max-rows are for an export: add --parquet or --tsv.")
    if not is_exported and exact and is_given("layers"):
        raise click.UsageError("--layers is for the search graph or an export: omit --exact.")


def _show(made: "WordIndex", out: Path, exported: dict[str, int], as_json: bool) -> None:
    counts = {
        "n_tokens": len(made),
        "n_sentences": len(made.sentences),
        "n_words": made.n_words,
        "has_graph": made.has_graph,
        **({"exported": exported} if exported else {}),
    }
    if as_json:
        click.echo(json.dumps(counts))
        return
    click.echo(
        f"{out}: {len(made):,} tokens, {made.n_words:,} distinct words, "
        f"{len(made.sentences):,} sentences{', with a graph' if made.has_graph else ''}"
    )
    for path, n_rows in exported.items():
        click.echo(f"{path}: {n_rows:,} words in context")
