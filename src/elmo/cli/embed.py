"""`elmo embed`: a file of text to a file of vectors."""

from pathlib import Path
from typing import Literal

import click

from elmo.cli.options import model_option


@click.command()
@click.argument("source", metavar="INPUT", type=click.Path(path_type=Path))
@click.option(
    "--out",
    "-o",
    required=True,
    type=click.Path(path_type=Path),
    help="A new .npz, .h5, .jsonl or .parquet file.",
)
@model_option
@click.option(
    "--options", type=click.Path(path_type=Path), help="options.json, if not beside the weights."
)
@click.option("--split", is_flag=True, help="A line is a paragraph: split it into sentences.")
@click.option("--tokens", is_flag=True, help="A line is the tokens of a sentence, with spaces.")
@click.option(
    "--layers",
    default="average",
    show_default=True,
    help="all, top, average, or numbers such as 0,2.",
)
@click.option(
    "--dtype", type=click.Choice(["float32", "float16"]), default="float32", show_default=True
)
def embed(
    source: Path,
    out: Path,
    model: Path,
    options: Path | None,
    split: bool,
    tokens: bool,
    layers: str,
    dtype: Literal["float16", "float32"],
) -> None:
    """Write one vector per word of a text.

    INPUT is plain, .gz or .xz text, or - for standard input; a line is a sentence.
    """
    if split and tokens:
        raise click.UsageError("--split is for raw text, not for --tokens: give one of them.")
    from elmo.embed_files import embed_file

    counts = embed_file(
        source,
        out,
        model,
        options=options,
        reading="tokens" if tokens else "paragraphs" if split else "sentences",
        layers=layers,
        dtype=dtype,
    )
    click.echo(f"{out}: {counts.n_sentences:,} sentences, {counts.n_tokens:,} tokens")
