"""Embed a corpus: a folder of text in, a folder of Parquet shards out.

In: the paths or URLs of a corpus, a model and an output folder, settings, and workers. Out: the
shards, and their counts. The same call resumes a run that was killed: intact shards are not written
again.
"""

import logging
import shutil
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path

from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from elmo.api import Elmo
from elmo.errors import DataError
from elmo.files.remote import StoragePath
from elmo.files.tables import Fields
from elmo.inference.results import layer_weights
from elmo.models.identity import vectors_hash
from elmo.text.lines import LineFormat
from elmo.vectors.corpus.chunks import Chunk, split_corpus
from elmo.vectors.corpus.shards import (
    EmbedJob,
    Shard,
    check_separate,
    exclusive_output,
    find_finished,
)
from elmo.vectors.corpus.workers import LocalWorkers, Workers
from elmo.vectors.embed import Precision

# Large enough to be read fast, small enough that a killed worker loses little.
SHARD_BYTES = 128 * 2**20
# Of English text, with spaces; only the sizes of shards depend on this.
BYTES_PER_TOKEN = 5
# Compressed size of a row without its vectors.
ROW_BYTES = 8
LOG_SECONDS = 60.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CorpusCounts:
    """The content of a corpus's shards, and how many of them were written by this call."""

    n_shards: int
    n_new: int
    n_sentences: int
    n_tokens: int


def embed_corpus(
    corpus: str | Path,
    out: str | Path,
    model: str | Path,
    *,
    options: str | Path | None = None,
    alignment: Mapping[int, str | Path] | None = None,
    lines: LineFormat = "paragraphs",
    layers: str = "average",
    dtype: Precision = "float32",
    column: str = "text",
    id_column: str | None = None,
    id_field: int | None = None,
    workers: Workers | None = None,
    shard_bytes: int = SHARD_BYTES,
) -> CorpusCounts:
    """Write the vectors of every sentence of a corpus.

    Corpus and output are paths, or URLs that fsspec opens. `column` has the text of Parquet files.
    Shards have a column `id` if there are ids: those of `id_column`, or those of FASTA files, where
    `id_field` selects one of the fields that `|` separates.
    """
    source, target = StoragePath.of(corpus), StoragePath.of(out)
    check_separate(source, target)
    elmo = Elmo.load(model, options=options, alignment=alignment)
    row_bytes = _row_bytes(elmo, layers, dtype)
    job = EmbedJob(
        out=target.address,
        model=_absolute(model),
        options=None if options is None else _absolute(options),
        alignment={layer: _absolute(file) for layer, file in (alignment or {}).items()},
        model_sha256=vectors_hash(elmo.model),
        lines=lines,
        layers=layers,
        dtype=dtype,
        fields=Fields(column=column, id_column=id_column, id_field=id_field),
    )
    encoder = elmo.bilm.word_encoder
    del elmo  # workers load their own
    workers = workers or LocalWorkers()
    chunk_bytes = max(1, shard_bytes * BYTES_PER_TOKEN // row_bytes)
    chunks = split_corpus(source, lines, job.fields, chunk_bytes, workers.split)
    with exclusive_output(target):
        shards = _write(job, chunks, row_bytes, workers)
    encoder.warn_truncated(sum(shard.n_truncated for shard in shards))
    return _count(shards)


def _row_bytes(elmo: Elmo, layers: str, dtype: Precision) -> int:
    """The size of a token in a shard, in bytes."""
    n_numbers = len(layer_weights(layers, elmo.n_layers)) * elmo.output_dim
    return n_numbers * (2 if dtype == "float16" else 4) + ROW_BYTES


def _write(job: EmbedJob, chunks: Sequence[Chunk], row_bytes: int, workers: Workers) -> list[Shard]:
    target = StoragePath.of(job.out)
    finished = find_finished(target, chunks, job)
    _check_size(target, chunks, finished, row_bytes)
    shards = []
    new = [chunk for chunk in chunks if chunk.shard_name not in finished]
    with _ProgressLog(new) as progress, closing(workers.write(job, chunks)) as written:
        for shard in written:
            if shard.name not in finished:
                # Not new to a second worker if the first was killed after it had written the shard.
                shard = replace(shard, is_new=True)
                progress.update(shard)
            elif shard.is_new:
                log.warning("%s was damaged and has been written again", shard.name)
            shards.append(shard)
    return shards


def _count(shards: Sequence[Shard]) -> CorpusCounts:
    return CorpusCounts(
        len(shards),
        sum(shard.is_new for shard in shards),
        sum(shard.n_sentences for shard in shards),
        sum(shard.n_tokens for shard in shards),
    )


def _absolute(path: str | Path) -> str:
    """An absolute path; the name of a shipped model is unchanged."""
    path = Path(path)
    is_path = path.exists() or path.parent != Path()
    return str(path.absolute() if is_path else path)


def _check_size(
    target: StoragePath, chunks: Sequence[Chunk], finished: Collection[str], row_bytes: int
) -> None:
    """Log how much will be written; raise a DataError if the disk has less free space."""
    all_tokens = sum(chunk.estimated_tokens for chunk in chunks)
    new_tokens = sum(chunk.estimated_tokens for chunk in chunks if chunk.shard_name not in finished)
    log.info(
        f"{target.address}: {len({chunk.name for chunk in chunks}):,} files to be written as "
        f"{len(chunks):,} shards: about {all_tokens:,} tokens, {_size(all_tokens * row_bytes)}; "
        f"{len(finished):,} shards exist, {_size(new_tokens * row_bytes)} to be written"
    )
    free = shutil.disk_usage(target.path).free if target.is_local else None
    if free is not None and new_tokens * row_bytes > free:
        raise DataError(
            f"{target.path}: {_size(free)} free, expected about {_size(new_tokens * row_bytes)} "
            "for the shards; --dtype float16 and fewer layers take less"
        )


def _size(n_bytes: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if n_bytes < 1000:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:,.3g} TB"


class _ProgressLog:
    """A progress bar on a terminal, else a log line per minute."""

    def __init__(self, chunks: Sequence[Chunk]) -> None:
        self._estimates = {chunk.shard_name: chunk.estimated_tokens for chunk in chunks}
        self._n_done = self._n_tokens = 0

    def __enter__(self) -> "_ProgressLog":
        self._started_at = self._logged_at = time.monotonic()
        self._redirection = logging_redirect_tqdm()
        self._redirection.__enter__()
        total = sum(self._estimates.values())
        self._bar = tqdm(total=total, unit=" tokens", unit_scale=True, disable=None)
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()
        self._redirection.__exit__(None, None, None)

    def update(self, shard: Shard) -> None:
        self._n_done += 1
        self._n_tokens += self._estimates[shard.name]
        self._bar.update(self._estimates[shard.name])
        now = time.monotonic()
        # Without tokens there is no speed to report.
        if self._bar.disable and self._n_tokens and now - self._logged_at >= LOG_SECONDS:
            self._logged_at = now
            speed = self._n_tokens / (now - self._started_at)
            left = tqdm.format_interval((sum(self._estimates.values()) - self._n_tokens) / speed)
            log.info(
                f"{self._n_done:,} of {len(self._estimates):,} shards, {speed:,.0f} tokens/s, "
                f"{left} left"
            )
