"""`elmo neighbors`: the nearest occurrences of a word in a text."""

import json
from pathlib import Path
from typing import TYPE_CHECKING

import click

from elmo.cli.options import (
    check_lines_have_text,
    fit_terminal,
    json_option,
    lines_option,
    model_option,
    search_text_option,
)

if TYPE_CHECKING:
    from elmo.text.lines import LineFormat


@click.command()
@click.argument("sentence")
@search_text_option
@lines_option
@model_option
@click.option(
    "-k", default=10, show_default=True, type=click.IntRange(1), help="Number of neighbors."
)
@click.option("--any-word", is_flag=True, help="Search all words, not only the same one.")
@click.option(
    "--layers", default="top", show_default=True, help="top, average, or the number of a layer."
)
@json_option
def neighbors(
    sentence: str,
    text: tuple[str, ...],
    lines: "LineFormat",
    model: Path,
    k: int,
    any_word: bool,
    layers: str,
    as_json: bool,
) -> None:
    """Find the nearest occurrences of a word in a text.

    SENTENCE has the word between asterisks: "I took a *bow*.".
    """
    check_lines_have_text(text)
    from elmo.api import Elmo
    from elmo.inference.occurrence import Occurrence
    from elmo.search import find_neighbors, open_index

    occurrence = Occurrence.marked(sentence)
    elmo = Elmo.load(model)
    found = find_neighbors(
        elmo, open_index(elmo, *text, lines=lines), occurrence, k, layers=layers, any_word=any_word
    )
    if as_json:
        click.echo(json.dumps(found.to_mapping()))
        return
    for neighbor in found.in_context:
        tokens, position = list(neighbor.occurrence.tokens), neighbor.occurrence.position
        tokens[position] = f"*{tokens[position]}*"
        click.echo(fit_terminal(f"{neighbor.similarity:.3f}  {' '.join(tokens)}"))
    static = ", ".join(f"{word.word} {word.similarity:.2f}" for word in found.without_context)
    click.echo(f"\nwithout context: {static}")
