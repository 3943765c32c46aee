"""`elmo index`: a text as a folder in which `neighbors` and `serve` search."""

import json
from pathlib import Path

import click

from elmo.cli.options import model_option


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
@click.option("--tokens", is_flag=True, help="A line of the text is tokens, with spaces.")
@click.option("--json", "as_json", is_flag=True, help="One JSON object, for a program to read.")
def index(text: str, out: Path, model: Path, tokens: bool, as_json: bool) -> None:
    """Index every word of a text where it stands.

    TEXT is a file, a folder or a glob of files: plain, .gz or .xz, one paragraph a line.
    """
    from elmo.build_index import build_index, read_sentences
    from elmo.elmo import Elmo
    from elmo.shards import find_shards

    sentences = read_sentences(find_shards(text), is_tokenised=tokens)
    made = build_index(Elmo.load(model), sentences, out)
    counts = {
        "n_tokens": len(made),
        "n_sentences": len(made.sentences),
        "n_words": made.n_words,
    }
    if as_json:
        click.echo(json.dumps(counts))
        return
    click.echo(
        f"{out}: {len(made):,} words, {made.n_words:,} of them different, "
        f"in {len(made.sentences):,} sentences"
    )
