"""A graph of an indexed text's tokens, by which near ones are found without a look at all (HNSW).

In: one vector for each token, in the order of the text. Out: files of usearch, which are mapped
into memory, and the rows (tokens) that are probably nearest to a vector. A graph is made in memory,
so a long text gets several of bounded size, and each of them is searched.
Shapes: n rows, D width.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from elmo.errors import needs_extra

# int8, since what is found is compared again with the vectors themselves: as good as float16 in
# two thirds of the room. docs/decisions.md tells what other numbers give.
NUMBER_TYPE = "i8"
CONNECTIVITY = 16
EXPANSION_WHILE_BUILDING = 64
EXPANSION = 128
# Of one graph while it is made; a row takes its numbers and some 150 bytes of links.
GRAPH_BYTES = 2**30
LINK_BYTES = 150

Array = NDArray[Any]
Numbers = NDArray[np.int64]


def require_usearch() -> None:
    """Say how to install the library if it is missing."""
    with needs_extra("index"):
        import usearch.index  # noqa: F401


def write_graphs(folder: Path, parts: Iterable[Array], n_rows_at_most: int | None = None) -> None:
    """Link vectors that come in parts (n, D); when a graph is full the next one is begun."""
    from usearch.index import Index

    graph = None
    n_rows = n_graphs = 0
    for vectors in parts:
        if graph is None:
            graph = Index(
                ndim=vectors.shape[1],
                metric="cos",
                dtype=NUMBER_TYPE,
                connectivity=CONNECTIVITY,
                expansion_add=EXPANSION_WHILE_BUILDING,
                enable_key_lookups=False,
            )
        graph.add(
            np.arange(n_rows, n_rows + len(vectors)), vectors, threads=torch.get_num_threads()
        )
        n_rows += len(vectors)
        if len(graph) >= (n_rows_at_most or GRAPH_BYTES // (vectors.shape[1] + LINK_BYTES)):
            graph.save(_graph_path(folder, n_graphs))
            graph, n_graphs = None, n_graphs + 1
    if graph is not None:
        graph.save(_graph_path(folder, n_graphs))


class WordGraph:
    """The graphs of a folder, which link one mix of the layers of each token."""

    def __init__(self, folder: Path, weights: Array, n_rows: int) -> None:
        """Map the graphs; raises OSError or ValueError if they are not all there."""
        require_usearch()
        from usearch.index import Index

        self.weights = weights
        self._graphs: list[Any] = []
        try:
            while sum(map(len, self._graphs)) < n_rows:
                path = _graph_path(folder, len(self._graphs))
                graph = Index.restore(path, view=True, enable_key_lookups=False)
                if graph is None:
                    raise FileNotFoundError(f"{path.name} is missing")
                self._graphs.append(graph)
        except RuntimeError as error:  # of usearch, for files that are cut off
            raise ValueError(str(error)) from error

    def links(self, weights: Array) -> bool:
        """Whether it is of this mix; a longer or shorter vector has the same cosines."""
        lengths = np.linalg.norm(self.weights) * np.linalg.norm(weights)
        return bool(self.weights @ weights > (1 - 1e-6) * lengths)

    def near(self, vector: Array, n: int) -> Numbers:
        """About the `n` rows whose mixes are nearest to a vector (D,), in no order."""
        found = []
        for graph in self._graphs:
            graph.expansion_search = max(n, EXPANSION)
            found.append(graph.search(vector, n, threads=1))
        rows = np.concatenate([matches.keys for matches in found]).astype(np.int64)
        distances = np.concatenate([matches.distances for matches in found])
        if len(rows) > n:
            rows = rows[np.argpartition(distances, n)[:n]]
        return rows


def _graph_path(folder: Path, number: int) -> Path:
    return folder / f"graph-{number}.usearch"
