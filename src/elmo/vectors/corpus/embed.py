"""Embed a corpus: a folder of text in, a folder of Parquet shards out.

In: places of a corpus, a model and an output, what is wanted, and who works. Out: the shards, and
how much is in them. The same call goes on with a run that was killed: a shard that is there and
whole is not made again.
"""

import logging
import shutil
import time
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from elmo.api import Elmo
from elmo.errors import DataError
from elmo.files.remote import Place, find_place
from elmo.inference.results import layer_weights
from elmo.models.identity import model_hash
from elmo.text.lines import LineFormat
from elmo.vectors.corpus.shards import Shard, Wanted, check_apart, exclusive_output, find_finished
from elmo.vectors.corpus.units import Unit, cut_corpus
from elmo.vectors.corpus.workers import LocalWorkers, Workers
from elmo.vectors.embed import Precision

# Large enough to be read fast, small enough that little is lost with a worker.
SHARD_BYTES = 128 * 2**20
# English text with its spaces; only the sizes of shards depend on it.
BYTES_PER_TOKEN = 5
# Of a row without its vectors, compressed.
ROW_BYTES = 8
LOG_SECONDS = 60.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class CorpusCounts:
    """What the shards of a corpus hold, and how many of them were written now."""

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
    lines: LineFormat = "paragraphs",
    layers: str = "average",
    dtype: Precision = "float32",
    column: str = "text",
    workers: Workers | None = None,
    shard_bytes: int = SHARD_BYTES,
) -> CorpusCounts:
    """Write the vectors of every sentence under `corpus`; `column` is that of Parquet files.

    Corpus and output are paths, or addresses that fsspec opens.
    """
    source, target = find_place(corpus), find_place(out)
    check_apart(source, target)
    elmo = Elmo.load(model, options=options)
    row_bytes = _row_bytes(elmo, layers, dtype)
    wanted = Wanted(
        out=target.address,
        model=_from_anywhere(model),
        options=None if options is None else _from_anywhere(options),
        model_sha256=model_hash(elmo.bilm),
        lines=lines,
        layers=layers,
        dtype=dtype,
        column=column,
    )
    encoder = elmo.bilm.word_encoder
    del elmo  # workers open their own
    workers = workers or LocalWorkers()
    unit_bytes = max(1, shard_bytes * BYTES_PER_TOKEN // row_bytes)
    units = cut_corpus(source, lines, column, unit_bytes, workers.cut)
    with exclusive_output(target):
        shards = _write(wanted, units, row_bytes, workers)
    encoder.warn_truncated(sum(shard.n_truncated for shard in shards))
    return _count(shards)


def _row_bytes(elmo: Elmo, layers: str, dtype: Precision) -> int:
    """What a token takes in a shard."""
    n_numbers = len(layer_weights(layers, elmo.n_layers)) * elmo.output_dim
    return n_numbers * (2 if dtype == "float16" else 4) + ROW_BYTES


def _write(wanted: Wanted, units: Sequence[Unit], row_bytes: int, workers: Workers) -> list[Shard]:
    target = find_place(wanted.out)
    there = find_finished(target, units, wanted)
    _tell_size(target, units, there, row_bytes)
    shards = []
    with _Progress([unit for unit in units if unit.shard_name not in there]) as progress:
        for shard in workers.write(wanted, units):
            if shard.name not in there:
                # Found whole by a second worker if the first was killed when it had written it.
                shard = replace(shard, is_new=True)
                progress.tell(shard)
            elif shard.is_new:
                log.warning("%s was broken: made again", shard.name)
            shards.append(shard)
    return shards


def _count(shards: Sequence[Shard]) -> CorpusCounts:
    return CorpusCounts(
        len(shards),
        sum(shard.is_new for shard in shards),
        sum(shard.n_sentences for shard in shards),
        sum(shard.n_tokens for shard in shards),
    )


def _from_anywhere(path: str | Path) -> str:
    """A path that also finds its file from another folder; the name of a model stays one."""
    path = Path(path)
    is_path = path.exists() or path.parent != Path()
    return str(path.absolute() if is_path else path)


def _tell_size(
    target: Place, units: Sequence[Unit], there: Collection[str], row_bytes: int
) -> None:
    """Say before anything is written what will be, and refuse what has no room."""
    all_tokens = sum(unit.about_tokens for unit in units)
    new_tokens = sum(unit.about_tokens for unit in units if unit.shard_name not in there)
    log.info(
        f"{target.address}: {len({unit.name for unit in units}):,} files become {len(units):,} "
        f"shards: about {all_tokens:,} tokens, {_size(all_tokens * row_bytes)}; "
        f"{len(there):,} shards are there, {_size(new_tokens * row_bytes)} are to be written"
    )
    free = shutil.disk_usage(target.path).free if target.is_local else None
    if free is not None and new_tokens * row_bytes > free:
        raise DataError(
            f"{target.path}: {_size(free)} free, expected about {_size(new_tokens * row_bytes)} "
            "for the shards; choose --dtype float16 or fewer layers, or name another output"
        )


def _size(n_bytes: float) -> str:
    for unit in ("bytes", "kB", "MB", "GB"):
        if n_bytes < 1000:
            return f"{n_bytes:.3g} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:,.3g} TB"


class _Progress:
    """A bar with the time left on a terminal, else a line a minute."""

    def __init__(self, units: Sequence[Unit]) -> None:
        self._about = {unit.shard_name: unit.about_tokens for unit in units}
        self._n_done = self._n_tokens = 0

    def __enter__(self) -> "_Progress":
        self._started_at = self._told_at = time.monotonic()
        self._redirection = logging_redirect_tqdm()
        self._redirection.__enter__()
        total = sum(self._about.values())
        self._bar = tqdm(total=total, unit=" tokens", unit_scale=True, disable=None)
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()
        self._redirection.__exit__(None, None, None)

    def tell(self, shard: Shard) -> None:
        """One more shard is written."""
        self._n_done += 1
        self._n_tokens += self._about[shard.name]
        self._bar.update(self._about[shard.name])
        now = time.monotonic()
        if self._bar.disable and now - self._told_at >= LOG_SECONDS:
            self._told_at = now
            speed = self._n_tokens / (now - self._started_at)
            left = tqdm.format_interval((sum(self._about.values()) - self._n_tokens) / speed)
            log.info(
                f"{self._n_done:,} of {len(self._about):,} shards, {speed:,.0f} tokens/s, "
                f"{left} left"
            )
