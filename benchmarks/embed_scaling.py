"""Speed of embedding a corpus by number of workers: local processes, and Ray actors.

usage: python -m benchmarks.embed_scaling [--text FILE] [--tokens 200000] [--size small]
           [--rounds 2] [--json docs/benchmarks/scaling.json]
Embeds the same text (default: the held-out Wikipedia of ../shared) with random weights of a
released size into Parquet shards of float16, in turns, and keeps the best round of each. "all" is
from reading the corpus to the last shard; "writing" starts when the first shard is done, so it
excludes the startup of processes and of Ray. Needs an idle machine.
"""

import argparse
import json
import tempfile
import time
from collections.abc import Generator, Iterator, Sequence
from dataclasses import asdict, dataclass
from itertools import accumulate, takewhile
from pathlib import Path

import ray
import torch

from benchmarks.embed import TEXT
from benchmarks.measured import conditions
from elmo.files.text_files import read_lines
from elmo.models.model_folder import Model, save
from elmo.network.bilm import BiLM
from elmo.network.config import preset
from elmo.text.tokenizer import tokenize
from elmo.vectors.corpus.chunks import Chunk, NamedFile, SplitFile
from elmo.vectors.corpus.embed import embed_corpus
from elmo.vectors.corpus.shards import EmbedJob, Shard
from elmo.vectors.corpus.workers import LocalWorkers, RayWorkers, Workers

N_SHARDS = 24  # enough that two workers finish at about the same time


@dataclass
class Measured:
    """The best speeds of one kind and number of workers."""

    way: str
    tokens_per_second: float  # of the whole call
    writing_tokens_per_second: float  # after the first shard


class Timed:
    """Workers that record when each shard was done."""

    def __init__(self, workers: Workers) -> None:
        self._workers = workers
        self.done: list[tuple[float, int]] = []

    def split(self, split: SplitFile, files: Sequence[NamedFile]) -> Iterator[list[Chunk]]:
        """Let the workers split the files."""
        return self._workers.split(split, files)

    def write(self, job: EmbedJob, chunks: Sequence[Chunk]) -> Generator[Shard, None, None]:
        """Let the workers write the shards."""
        for shard in self._workers.write(job, chunks):
            self.done.append((time.perf_counter(), shard.n_tokens))
            yield shard

    @property
    def writing_speed(self) -> float:
        """Tokens per second between the first shard and the last."""
        seconds = self.done[-1][0] - self.done[0][0]
        return sum(n_tokens for _, n_tokens in self.done[1:]) / seconds


def prepare(folder: Path, text: Path, size: str, n_tokens: int) -> int:
    """Write a model of random weights and a corpus of one file; return the bytes per shard."""
    torch.manual_seed(0)
    model = Model(BiLM(preset(size)).eval())
    save(folder / "model", model)
    lines = [line for line in read_lines(text) if line]
    counts = accumulate(len(tokenize(line).tokens) for line in lines)
    n_lines = len(list(takewhile(lambda count: count < n_tokens, counts)))
    (folder / "corpus").mkdir()
    (folder / "corpus" / "text.txt").write_text("\n".join(lines[:n_lines]), encoding="utf-8")
    return n_tokens * model.bilm.config.output_dim * 2 // N_SHARDS


def measure(folder: Path, shard_bytes: int, way: str, workers: Workers, n_threads: int) -> Measured:
    """Embed the corpus once and return the speeds."""
    torch.set_num_threads(n_threads)
    timed = Timed(workers)
    with tempfile.TemporaryDirectory(dir=folder) as out:
        started_at = time.perf_counter()
        counts = embed_corpus(
            folder / "corpus",
            out,
            folder / "model",
            dtype="float16",
            workers=timed,
            shard_bytes=shard_bytes,
        )
        seconds = time.perf_counter() - started_at
    ray.shutdown()  # the next cluster has another number of workers
    return Measured(way, counts.n_tokens / seconds, timed.writing_speed)


def main() -> None:
    """Measure all kinds and numbers of workers in turns."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--text", type=Path, default=TEXT)
    parser.add_argument("--tokens", type=int, default=200_000)
    parser.add_argument("--size", default="small")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    ways: dict[str, tuple[Workers, int]] = {
        "1 process of 1 thread": (LocalWorkers(1), 1),
        "1 process of 2 threads": (LocalWorkers(1), 2),
        "2 processes of 1 thread": (LocalWorkers(2), 2),
        "Ray, 1 worker": (RayWorkers(n_workers=1), 1),
        "Ray, 2 workers": (RayWorkers(n_workers=2), 1),
    }
    best: dict[str, Measured] = {}
    before = conditions()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        shard_bytes = prepare(folder, given.text, given.size, given.tokens)
        for _ in range(given.rounds):
            for way, (workers, n_threads) in ways.items():
                found = measure(folder, shard_bytes, way, workers, n_threads)
                known = best.setdefault(way, found)
                known.tokens_per_second = max(known.tokens_per_second, found.tokens_per_second)
                known.writing_tokens_per_second = max(
                    known.writing_tokens_per_second, found.writing_tokens_per_second
                )
    base = best["1 process of 1 thread"].writing_tokens_per_second
    print(f"{given.size}, {given.tokens:,} tokens, {before['cpu']}")
    print(f"{'':26}{'all':>12}{'writing':>12}  tokens/s")
    for measured in best.values():
        print(
            f"{measured.way:26}{measured.tokens_per_second:12,.0f}"
            f"{measured.writing_tokens_per_second:12,.0f}"
            f"  {measured.writing_tokens_per_second / base:.2f}x"
        )
    if given.json:
        rows = [asdict(measured) for measured in best.values()]
        found_all = {
            "environment": before,
            "size": given.size,
            "tokens": given.tokens,
            "rows": rows,
        }
        given.json.write_text(json.dumps(found_all, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
