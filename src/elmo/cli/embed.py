"""`elmo embed`: text to vectors, from a file to a file or from a corpus to a folder of shards."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal

import click

from elmo.cli.options import (
    alignment_option,
    check_folder_name,
    is_given,
    lines_option,
    model_option,
    options_option,
    texts_argument,
    warn_if_empty,
)


@click.command()
@texts_argument("sources", "INPUT")
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
@click.option(
    "--pool",
    type=click.Choice(["mean", "max"]),
    help="Write the mean or maximum of the vectors of a line.",
)
@click.option(
    "--id-field",
    type=click.IntRange(0),
    help="Field of a FASTA id to use as the key, from 0; vertical bars separate fields.",
)
@click.option("--id-column", help="Id column of .csv, .tsv or .parquet.")
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
@click.option(
    "--ray",
    is_flag=False,
    flag_value="",
    help="Run on the Ray cluster at this address; without an address, start Ray on this machine.",
)
def embed(
    sources: tuple[str, ...],
    out: str,
    model: Path,
    shards: str | None,
    workers: int | None,
    ray: str | None,
    pool: Literal["mean", "max"] | None,
    **wanted: Any,  # noqa: ANN401 - what the library takes by the same names
) -> None:
    """Write one vector per token of a text.

    INPUT is plain, .gz or .xz text, a glob, or - for standard input; the output has one record per
    line. Sequences of a FASTA file, and rows of a table with --id-column, are keyed by their ids.

    A folder or URL of text, FASTA and .parquet files is written as a folder of Parquet shards; for
    a single file, add --format parquet. Run the same command to resume.
    """
    is_corpus = bool(shards) or any("://" in source or Path(source).is_dir() for source in sources)
    if not is_corpus:
        if workers or ray is not None:
            raise click.UsageError("--workers and --ray require a corpus; add --format parquet.")
        from elmo.files.text_files import find_text_files
        from elmo.vectors import embed_file

        paths = find_text_files(*sources)
        _check_fields(paths)
        counts = embed_file(paths, Path(out), model, pool=pool, **wanted)
        warn_if_empty(sources, counts.n_tokens)
        click.echo(f"{out}: {counts.n_lines:,} lines, {counts.n_tokens:,} tokens")
        return
    if pool is not None:
        raise click.UsageError("--pool is for a file, not for a corpus.")
    check_folder_name(out)
    if len(sources) > 1:
        raise click.UsageError(f"{len(sources)} inputs for a corpus, expected one file or folder.")
    from elmo.files.remote import StoragePath
    from elmo.vectors.corpus import LocalWorkers, RayWorkers, embed_corpus
    from elmo.vectors.corpus.chunks import find_files

    if any(map(is_given, ("column", "id_column", "id_field"))):
        _check_fields([Path(name) for name in find_files(StoragePath.of(sources[0]))])
    working = LocalWorkers(workers or 1) if ray is None else RayWorkers(ray or None, workers)
    total = embed_corpus(sources[0], out, model, workers=working, **wanted)
    click.echo(
        f"{out}: {total.n_shards:,} shards ({total.n_new:,} new), {total.n_sentences:,} sentences, "
        f"{total.n_tokens:,} tokens"
    )


def _check_fields(paths: Sequence[Path]) -> None:
    """Refuse options for kinds of files that are not among the paths."""
    from elmo.files.tables import PARQUET, SEPARATORS
    from elmo.files.text_files import is_fasta, suffix_of

    has_table = any(path.suffix == PARQUET or suffix_of(path) in SEPARATORS for path in paths)
    if not has_table and (is_given("column") or is_given("id_column")):
        raise click.UsageError("--column and --id-column are for .csv, .tsv and .parquet files.")
    if is_given("id_field") and not any(map(is_fasta, paths)):
        raise click.UsageError("--id-field is for FASTA files.")
