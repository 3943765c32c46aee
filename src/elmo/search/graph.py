"""Approximate nearest neighbor search over the tokens of an indexed text (HNSW, by usearch).

In: one vector for each token, in the order of the text. Out: graph files that are mapped into
memory, and the rows (tokens) that are probably nearest to a vector. A graph is built in memory, so
a long text gets several graphs of bounded size, and each of them is searched.
Shapes: n rows, D width.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from elmo.errors import needs_extra

GRAPHS = "graph-*.usearch"  # the asterisk is the number of the graph
# int8, because candidates are reranked by the exact vectors: as good as float16 in less than two
# thirds of the space. Measurements of other values are in docs/decisions.md.
NUMBER_TYPE = "i8"
CONNECTIVITY = 16
EXPANSION_WHILE_BUILDING = 64
EXPANSION = 128
# Size of one graph in memory; a row takes its vector and about 150 bytes of links.
GRAPH_BYTES = 2**30
LINK_BYTES = 150

Array = NDArray[Any]
Numbers = NDArray[np.int64]


def require_usearch() -> None:
    """Raise MissingExtraError if usearch is not installed."""
    with needs_extra("index"):
        import usearch.index  # noqa: F401


def write_graphs(folder: Path, batches: Iterable[Array], max_rows: int | None = None) -> None:
    """Add vectors, given in batches (n, D), to graphs; a full graph is followed by a new one."""
    from usearch.index import Index

    graph = None
    n_rows = n_graphs = 0
    for vectors in batches:
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
        if len(graph) >= (max_rows or GRAPH_BYTES // (vectors.shape[1] + LINK_BYTES)):
            graph.save(_graph_path(folder, n_graphs))
            graph, n_graphs = None, n_graphs + 1
    if graph is not None:
        graph.save(_graph_path(folder, n_graphs))


class WordGraph:
    """The graphs of a folder, over one mix of the layers of each token."""

    def __init__(self, folder: Path, weights: Array, n_rows: int) -> None:
        """Map the graphs; raises OSError or ValueError if they are incomplete."""
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
        except RuntimeError as error:  # raised by usearch for truncated files
            raise ValueError(str(error)) from error

    def links(self, weights: Array) -> bool:
        """Whether the graphs were built from this mix of layers, or from a multiple of it."""
        lengths = np.linalg.norm(self.weights) * np.linalg.norm(weights)
        return bool(self.weights @ weights > (1 - 1e-6) * lengths)

    def near(self, vector: Array, n: int) -> Numbers:
        """Approximately the `n` rows that are nearest to a vector (D,), unordered."""
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
    return folder / GRAPHS.replace("*", str(number))
