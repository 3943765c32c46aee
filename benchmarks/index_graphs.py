"""Recall and time of nearest-neighbor graphs by number type, connectivity and expansion.

usage: python -m benchmarks.index_graphs INDEX MODEL [--queries 300]
INDEX is a folder of `elmo index`. Builds graphs of its top layer, searches for some of its own
words, and prints CPU seconds (so it can run on a busy machine) and recall@10, before and after the
results are re-ranked by the exact vectors. Finally prints how many of the nearest words are the
same word form, by its frequency.
"""

import argparse
import time
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import torch
from usearch.index import Index

from elmo import Elmo
from elmo.search.vectors import IndexedVectors

WAYS = (  # number type, links, expansion while building
    ("i8", 16, 64),
    ("i8", 16, 128),
    ("i8", 12, 64),
    ("f16", 16, 64),
)
EXPANSIONS = (64, 128, 256)
K = 10
N_NEAREST = 128
OFTEN = (5, 50, 500, 2000, 10**9)

Array = np.ndarray[Any, Any]


def nearest(vectors: Array, rows: Array, n: int) -> Array:
    """The `n` nearest other rows of each of `rows`, by exact search: (Q, n)."""
    table = torch.from_numpy(vectors)
    return torch.topk(table[rows] @ table.T, n + 1).indices[:, 1:].numpy()


def measure(graph: Index, vectors: Array, rows: Array, expected: Array, expansion: int) -> str:
    """Recall and milliseconds of a search with one expansion."""
    graph.expansion_search = expansion
    n_said = n_compared = 0
    spent = []
    for row, best in zip(rows, expected, strict=True):
        started_at = time.thread_time()
        found = graph.search(vectors[row], expansion, threads=1).keys.astype(np.int64)
        found = found[found != row]
        ordered = found[np.argsort(-(vectors[found] @ vectors[row]))]
        spent.append(1000 * (time.thread_time() - started_at))
        n_said += len(np.intersect1d(found[:K], best))
        n_compared += len(np.intersect1d(ordered[:K], best))
    n_expected = expected.size
    return (
        f"  expansion {expansion}: recall {n_said / n_expected:.4f}, compared again "
        f"{n_compared / n_expected:.4f}; {np.median(spent):.2f} ms, p99 "
        f"{np.quantile(spent, 0.99):.2f} ms"
    )


def show_same_words(vectors: Array, word_of: Array, n_queries: int) -> None:
    """Print how many of a word's nearest neighbors are the same word, by frequency."""
    draw = np.random.default_rng(1)
    counts = np.bincount(word_of)[word_of]
    for least, most in pairwise(OFTEN):
        candidates = np.flatnonzero((counts >= least) & (counts < most))
        if len(candidates):
            rows = draw.choice(candidates, n_queries)
            same = word_of[nearest(vectors, rows, N_NEAREST)] == word_of[rows][:, None]
            print(
                f"of the {N_NEAREST} nearest of a word that comes {least} times: {same.mean():.1%}"
            )


def main() -> None:
    """Measure all graphs and print the results."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("index", type=Path)
    parser.add_argument("model", type=Path)
    parser.add_argument("--queries", type=int, default=300)
    settings = parser.parse_args()
    elmo = Elmo.load(settings.model)
    indexed = IndexedVectors.open(settings.index, elmo.bilm.config)
    vectors = indexed.contexts[-1].astype(np.float32)
    vectors /= np.maximum(np.linalg.norm(vectors, axis=1, keepdims=True), 1e-12)
    rows = np.random.default_rng(0).choice(len(vectors), settings.queries, replace=False)
    expected = nearest(vectors, rows, K)
    for dtype, connectivity, expansion_add in WAYS:
        graph = Index(
            ndim=vectors.shape[1],
            metric="cos",
            dtype=dtype,
            connectivity=connectivity,
            expansion_add=expansion_add,
            enable_key_lookups=False,
        )
        started_at = time.process_time()
        graph.add(np.arange(len(vectors)), vectors, threads=1)
        seconds = time.process_time() - started_at
        n_bytes = graph.serialized_length / len(vectors)
        print(
            f"{dtype}, {connectivity} links, {expansion_add}: {seconds:.0f} s, {n_bytes:.0f} bytes"
        )
        for expansion in EXPANSIONS:
            print(measure(graph, vectors, rows, expected, expansion), flush=True)
    show_same_words(vectors, indexed.word_of, settings.queries)


if __name__ == "__main__":
    main()
