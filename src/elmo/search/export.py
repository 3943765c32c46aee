"""Export words of an index to visualization tools: embedding-atlas and TensorBoard's projector.

In: a `WordIndex`, a choice of layers and of words. Out: a Parquet file with the t-SNE
coordinates and the nearest neighbors of each row; or a folder with vectors and metadata as TSV.
Shapes: n rows (words in context), D width, K neighbors.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo.errors import ConfigError, DataError, needs_extra
from elmo.files.atomic import atomic_folder, atomic_write, why_not_replaceable, write_text
from elmo.inference.occurrence import Occurrence
from elmo.inference.results import Layers
from elmo.search.index import WordIndex

MAX_ROWS = 5_000  # t-SNE takes a minute or two for this many
N_NEIGHBORS = 15  # as many as embedding-atlas computes itself
PERPLEXITY = 30.0  # scikit-learn's default
MIN_ROWS = 5
VECTORS, METADATA, PROJECTOR = "vectors.tsv", "metadata.tsv", "projector_config.pbtxt"

Array = NDArray[Any]


@dataclass(frozen=True)
class Chosen:
    """Words in context and their vectors."""

    occurrences: list[Occurrence]
    vectors: NDArray[np.float32]  # (n, D)

    def columns(self) -> dict[str, list[Any]]:
        """The metadata of each row; the word is between asterisks in its sentence."""
        return {
            "word": [_one_line(occurrence.word) for occurrence in self.occurrences],
            "sentence": [_one_line(_mark(occurrence)) for occurrence in self.occurrences],
            "position": [occurrence.position for occurrence in self.occurrences],
        }


def write_map(
    index: WordIndex,
    path: Path,
    *,
    layers: Layers = "top",
    words: Iterable[str] = (),
    max_rows: int = MAX_ROWS,
) -> int:
    """Write a Parquet file for embedding-atlas; returns the number of rows.

    Its columns are word, sentence, position, x, y, and neighbors: `ids` of rows and `distances`
    (1 - cosine), the row itself first. `words` selects words, ignoring case. If there are
    more than `max_rows` occurrences, that many are taken, evenly spread over the text.
    """
    check_map()
    import pyarrow
    from pyarrow import parquet

    with atomic_write(path) as temporary:  # fails first if the path cannot be written
        chosen = choose(index, layers, words, max_rows)
        x, y = _map(chosen.vectors).T
        ids, distances = _nearest(chosen.vectors)
        neighbors = [
            {"ids": row, "distances": far}
            for row, far in zip(ids.tolist(), distances.tolist(), strict=True)
        ]
        columns = {**chosen.columns(), "x": x, "y": y, "neighbors": neighbors}
        parquet.write_table(pyarrow.table(columns), temporary)
    return len(neighbors)


def write_projector(
    index: WordIndex,
    folder: Path,
    *,
    layers: Layers = "top",
    words: Iterable[str] = (),
    max_rows: int = MAX_ROWS,
) -> int:
    """Write a log folder for TensorBoard's projector; returns the number of rows.

    `vectors.tsv` and `metadata.tsv` can also be loaded by projector.tensorflow.org. `words` and
    `max_rows` are as in `write_map`.
    """
    check_projector(folder)
    with atomic_folder(folder) as temporary:
        chosen = choose(index, layers, words, max_rows)
        columns = chosen.columns()
        rows = zip(*columns.values(), strict=True)
        write_text(temporary / VECTORS, _tsv([f"{x:.6g}" for x in v] for v in chosen.vectors))
        write_text(temporary / METADATA, _tsv([[*columns], *rows]))
        write_text(
            temporary / PROJECTOR,
            f'embeddings {{\n  tensor_name: "words"\n  tensor_path: "{VECTORS}"\n'
            f'  metadata_path: "{METADATA}"\n}}\n',
        )
    return len(chosen.occurrences)


def check_map() -> None:
    """Raise a ConfigError if the packages that `write_map` needs are not installed."""
    with needs_extra("atlas"):
        import pyarrow  # noqa: F401
        import sklearn  # noqa: F401


def check_projector(folder: Path) -> None:
    """Raise a DataError if `write_projector` must not replace the folder."""
    reason = why_not_replaceable(folder, PROJECTOR, (VECTORS, METADATA, PROJECTOR))
    if reason is not None:
        raise DataError(f"{folder}: {reason}; expected a new folder, or one of the projector")


def choose(index: WordIndex, layers: Layers, words: Iterable[str], max_rows: int) -> Chosen:
    """Choose occurrences of some words, or of all words, and read their vectors."""
    if max_rows < MIN_ROWS:
        raise ConfigError(f"at most {max_rows} rows, expected at least {MIN_ROWS}")
    rows = index.rows(words)
    if len(rows) < MIN_ROWS:
        raise DataError(f"{len(rows)} occurrences of these words, expected at least {MIN_ROWS}")
    if len(rows) > max_rows:
        rows = rows[np.linspace(0, len(rows) - 1, max_rows).round().astype(np.int64)]
    return Chosen([index.occurrence(row) for row in rows.tolist()], index.vectors(rows, layers))


def _map(vectors: Array) -> Array:
    """The t-SNE coordinates (n, 2) of vectors."""
    from sklearn.manifold import TSNE

    perplexity = min(PERPLEXITY, (len(vectors) - 1) / 3)
    tsne = TSNE(init="pca", metric="cosine", perplexity=perplexity, random_state=0)
    return np.asarray(tsne.fit_transform(vectors))


def _nearest(vectors: Array) -> tuple[Array, Array]:
    """Each row and its nearest neighbors by cosine, (n, K), and their distances, 1 - cosine."""
    from sklearn.neighbors import NearestNeighbors

    n_others = min(N_NEIGHBORS, len(vectors)) - 1
    search = NearestNeighbors(n_neighbors=n_others, metric="cosine").fit(vectors)
    # If rows are equal, a search for one of them may find the others and not the row itself.
    distances, others = search.kneighbors()  # excludes the row itself
    ids = np.column_stack([np.arange(len(vectors)), others])
    return ids, np.column_stack([np.zeros(len(vectors)), distances])


def _mark(occurrence: Occurrence) -> str:
    tokens = list(occurrence.tokens)
    tokens[occurrence.position] = f"*{occurrence.word}*"
    return " ".join(tokens)


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _tsv(rows: Iterable[Iterable[object]]) -> str:
    lines: Iterator[str] = ("\t".join(map(str, row)) for row in rows)
    return "".join(f"{line}\n" for line in lines)
