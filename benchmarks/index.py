"""Build time, search time and recall of an index of a million words in context.

usage: python -m benchmarks.index MODEL [--text GLOB] [--heldout FILE] [--words 1000000]
           [--queries 300] [--folder DIR] [--json FILE]
Queries are words of held-out sentences, so that none of them is in the index. Recall is the share
of the ten nearest neighbors of an exact search (the same index, all words compared) that are found.
Memory is what the process allocates (Linux: RssAnon); mapped files use free memory in addition.
"""

import argparse
import json
import os
import tempfile
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from elmo import Elmo
from elmo.files.text_files import find_text_files
from elmo.inference.occurrence import Occurrence
from elmo.search.build import build_index
from elmo.search.index import MAX_COMPARED, Neighbor, WordIndex
from elmo.search.neighbors import search
from elmo.text.lines import read_sentences

WIKI = Path(__file__).parent.parent.parent / "shared" / "data" / "wiki"
K = 10
N_WARM_UP = 20
Array = np.ndarray[Any, Any]


class Memory:
    """The peak memory that this process allocates within the context."""

    def __enter__(self) -> "Memory":
        self.most_megabytes = 0.0
        self._is_over = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()
        return self

    def __exit__(self, *error: object) -> None:
        self._is_over.set()
        self._thread.join()

    def _watch(self) -> None:
        while not self._is_over.wait(0.05):
            status = Path("/proc/self/status").read_text()
            kilobytes = int(status.partition("RssAnon:")[2].split()[0])
            self.most_megabytes = max(self.most_megabytes, kilobytes / 1024)


class Text:
    """Sentences with a total of `n_words` words, and the time when the last one was read."""

    def __init__(self, sentences: Iterable[Sequence[str]], n_words: int) -> None:
        self._sentences, self._n_words = sentences, n_words
        self.taken_at = 0.0

    def __iter__(self) -> Iterator[Sequence[str]]:
        n_words = 0
        for tokens in self._sentences:
            yield tokens
            n_words += len(tokens)
            if n_words >= self._n_words:
                break
        self.taken_at = time.perf_counter()


@dataclass(frozen=True)
class Query:
    """A word in a held-out sentence, with all layers of that sentence (L+1, T, D)."""

    occurrence: Occurrence
    layers: Array

    def nearest(self, index: WordIndex, *, any_word: bool) -> list[Neighbor]:
        """The nearest occurrences of any word, or of the same word."""
        occurrence = self.occurrence
        return index.nearest(
            self.layers[:, occurrence.position],
            K,
            word=None if any_word else occurrence.word,
            besides=occurrence.tokens,
        )


def read_queries(elmo: Elmo, heldout: Path, n_sentences: int = 1000) -> list[Query]:
    """All alphabetic words of some held-out sentences, in random order."""
    sentences = list(Text(read_sentences([heldout]), 25 * n_sentences))
    queries = [
        Query(Occurrence(embedded.tokens, place), embedded.layers)
        for embedded in elmo.stream_tokens(sentences)
        for place, word in enumerate(embedded.tokens)
        if word.isalpha()
    ]
    order = np.random.default_rng(0).permutation(len(queries))
    return [queries[place] for place in order]


def by_frequency(queries: Sequence[Query], index: WordIndex, n: int) -> dict[str, list[Query]]:
    """Queries by the frequency of their words; `frequent` ones are too many to compare all."""
    width = queries[0].layers.shape[-1]
    limits = {
        "rare": (K, 1000),
        "often": (1000, MAX_COMPARED // width),
        "frequent": (MAX_COMPARED // width, 10**12),
    }
    found: dict[str, list[Query]] = {name: [] for name in limits}
    counts = {word: index.count(word) for word in {query.occurrence.word for query in queries}}
    for query in queries:
        count = counts[query.occurrence.word]
        for name, (least, most) in limits.items():
            if least < count <= most and len(found[name]) < n:
                found[name].append(query)
    return found


def milliseconds(ask: Callable[[Query], object], queries: Sequence[Query]) -> dict[str, float]:
    """Median and 99th percentile of the time of a query."""
    spent = []
    for query in queries:
        started_at = time.perf_counter()
        ask(query)
        spent.append(1000 * (time.perf_counter() - started_at))
    return {"p50_ms": float(np.median(spent)), "p99_ms": float(np.quantile(spent, 0.99))}


def recall(
    queries: Sequence[Query], index: WordIndex, exact: WordIndex, *, any_word: bool
) -> float:
    """The share of the neighbors of an exact search that are found."""
    n_found = n_expected = 0
    for query in queries:
        expected = places(query.nearest(exact, any_word=any_word))
        n_found += len(expected & places(query.nearest(index, any_word=any_word)))
        n_expected += len(expected)
    return n_found / n_expected


def places(neighbors: Sequence[Neighbor]) -> set[tuple[object, ...]]:
    """The sentences and positions of neighbors."""
    return {(*n.occurrence.tokens, n.occurrence.position) for n in neighbors}


def forget_files(folder: Path) -> None:
    """Drop the files from the page cache, as after a reboot."""
    for path in folder.iterdir():
        with path.open("rb") as file:
            os.fsync(file.fileno())
            os.posix_fadvise(file.fileno(), 0, 0, os.POSIX_FADV_DONTNEED)


def measure_build(elmo: Elmo, text: Text, folder: Path) -> dict[str, Any]:
    """Build the index; return seconds, memory and megabytes on disk."""
    started_at = time.perf_counter()
    with Memory() as memory:
        index = build_index(elmo, text, folder)
    ended_at = time.perf_counter()
    del index
    forget_files(folder)
    opened_at = time.perf_counter()
    index = WordIndex(folder, elmo)
    open_seconds = time.perf_counter() - opened_at
    sizes = {path.name: path.stat().st_size / 2**20 for path in sorted(folder.iterdir())}
    return {
        "n_tokens": len(index),
        "n_words": index.n_words,
        "embedding_seconds": text.taken_at - started_at,
        "sorting_and_linking_seconds": ended_at - text.taken_at,
        "milliseconds_to_open": 1000 * open_seconds,
        "most_megabytes": memory.most_megabytes,
        "megabytes_on_disk": sum(sizes.values()),
        "megabytes_of_graph": sum(n for name, n in sizes.items() if name.startswith("graph-")),
    }


def measure_search(
    elmo: Elmo, folder: Path, all_queries: Sequence[Query], n: int
) -> Iterator[tuple[str, dict[str, float]]]:
    """Time and recall of each kind of query."""
    forget_files(folder)
    index = WordIndex(folder, elmo)
    queries = list(all_queries[N_WARM_UP : N_WARM_UP + n])
    any_word = lambda query: query.nearest(index, any_word=True)  # noqa: E731
    yield "any word, files not yet in memory", milliseconds(any_word, all_queries[:N_WARM_UP])
    exact = WordIndex(folder, elmo, max_compared=2**60)
    found = recall(queries, index, exact, any_word=True)  # which also warms up
    yield "any word", {**milliseconds(any_word, queries), "recall": found}
    compared = milliseconds(lambda query: query.nearest(exact, any_word=True), queries[:50])
    yield "any word, all compared", compared
    for name, some in by_frequency(all_queries, index, n).items():
        if some:
            found = recall(some, index, exact, any_word=False)
            times = milliseconds(lambda query: query.nearest(index, any_word=False), some)
            yield f"same word, {name} ({len(some)})", {**times, "recall": found}
    yield "words spelt alike", milliseconds(lambda query: _spelt_alike(index, query), queries)
    yield (
        "all of `elmo neighbors`, sentence embedded",
        milliseconds(lambda query: _everything(elmo, index, query), queries),
    )


def _spelt_alike(index: WordIndex, query: Query) -> object:
    layer_0 = query.layers[0, query.occurrence.position, : index.projection_dim]
    return index.similar_words(layer_0, K, besides=query.occurrence.word)


def _everything(elmo: Elmo, index: WordIndex, query: Query) -> object:
    layers = elmo.embed_tokens([query.occurrence.tokens])[0].layers
    return search(index, query.occurrence, layers, K, any_word=True)


def main() -> None:
    """Measure the build and the searches, and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("model", type=Path)
    parser.add_argument("--text", default=str(WIKI / "train-*.txt.xz"))
    parser.add_argument("--heldout", type=Path, default=WIKI / "heldout.txt.xz")
    parser.add_argument("--words", type=int, default=1_000_000)
    parser.add_argument("--queries", type=int, default=300)
    parser.add_argument("--folder", type=Path, help="keep the index here")
    parser.add_argument("--json", type=Path)
    settings = parser.parse_args()
    elmo = Elmo.load(settings.model)
    with tempfile.TemporaryDirectory() as name:
        folder = settings.folder or Path(name) / "index"
        text = Text(read_sentences(find_text_files(settings.text)), settings.words)
        build = measure_build(elmo, text, folder)
        for key, value in build.items():
            print(f"{key.replace('_', ' '):30} {value:12,.0f}")
        queries = read_queries(elmo, settings.heldout)
        searches = {}
        print("\n| question | p50 ms | p99 ms | recall@10 |\n|---|---|---|---|")
        for question, measured in measure_search(elmo, folder, queries, settings.queries):
            searches[question] = measured
            share = f"{measured['recall']:.3f}" if "recall" in measured else ""
            print(f"| {question} | {measured['p50_ms']:.2f} | {measured['p99_ms']:.2f} | {share} |")
    if settings.json:
        result = {"build": build, "searches": searches}
        settings.json.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
