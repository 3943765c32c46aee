"""`elmo embed`: text to vectors, from a file to a file or from a corpus to a folder of shards."""

from pathlib import Path
from typing import Any, Literal

import click

from elmo.cli.options import alignment_option, lines_option, model_option, options_option


@click.command()
@click.argument("source", metavar="INPUT")
@click.option(
    "--out", "-o", required=True, help="Output file: .npz, .h5, .jsonl or .parquet; or a folder."
)
@model_option
@options_option
@alignment_option
@lines_option
@click.option(
    "--layers",
    default="average",
    show_default=True,
    help="Layers: all, top, average, sum, or numbers such as 0,2.",
)
@click.option("--pool", type=click.Choice(["mean", "max"]), help="One vector per line.")
@click.option("--id-field", type=click.IntRange(0), help="Field of FASTA ids, from 0.")
@click.option(
    "--dtype",
    type=click.Choice(["float32", "float16"]),
    default="float32",
    show_default=True,
    help="Type of the numbers in the output.",
)
@click.option(
    "--format", "shards", type=click.Choice(["parquet"]), help="Write a folder of shards."
)
@click.option(
    "--column", default="text", show_default=True, help="Text column of .csv, .tsv or .parquet."
)
@click.option("--workers", type=click.IntRange(1), help="Processes for a corpus.  [default: 1]")
@click.option("--ray", is_flag=False, flag_value="", help="Use the Ray cluster at this address.")
def embed(
    source: str,
    out: str,
    model: Path,
    shards: str | None,
    column: str,
    workers: int | None,
    ray: str | None,
    pool: Literal["mean", "max"] | None,
    id_field: int | None,
    **wanted: Any,  # noqa: ANN401 - options, alignment, lines, layers, dtype: as the library names them
) -> None:
    """Write one vector per word of a text.

    INPUT is plain, .gz or .xz text, or - for standard input; the output has one record per line.
    The sequences of a FASTA file are found by their ids in the output.

    A folder of text and .parquet files becomes a folder of shards, with --format parquet; run the
    same command to resume it.
    """
    if not (shards or "://" in source or Path(source).is_dir()):
        if workers or ray is not None:
            raise click.UsageError("--workers and --ray write shards: add --format parquet.")
        from elmo.vectors import embed_file

        counts = embed_file(
            Path(source), Path(out), model, pool=pool, column=column, id_field=id_field, **wanted
        )
        click.echo(f"{out}: {counts.n_lines:,} lines, {counts.n_tokens:,} tokens")
        return
    if pool is not None or id_field is not None:
        raise click.UsageError("--pool and --id-field are for a file, not for a corpus.")
    from elmo.vectors.corpus import LocalWorkers, RayWorkers, embed_corpus

    working = LocalWorkers(workers or 1) if ray is None else RayWorkers(ray or None, workers)
    total = embed_corpus(source, out, model, column=column, workers=working, **wanted)
    click.echo(
        f"{out}: {total.n_shards:,} shards ({total.n_new:,} new), {total.n_sentences:,} sentences, "
        f"{total.n_tokens:,} tokens"
    )
