"""Text to an index of its words in context, in one stream.

In: a model and any number of sentences. Out: a folder for `WordIndex`. Memory does not grow with
the text but for its distinct words; a build that ends early leaves no folder.
"""

import json
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from elmo.api import Elmo
from elmo.errors import DataError
from elmo.files.atomic import atomic_folder
from elmo.files.mapped_jsonl import new_lines
from elmo.inference.results import Layers
from elmo.search.graph import require_usearch, write_graphs
from elmo.search.index import FIRST_TOKENS, SENTENCES, SETTINGS, WordIndex, index_settings, one_mix
from elmo.search.vectors import ROWS_AT_ONCE, IndexedVectors, new_vectors
from elmo.search.words import write_words
from elmo.text.batches import number_words

# A smaller text is compared as a whole in some milliseconds.
GRAPH_FROM = 20_000

Array = NDArray[Any]
Tokens = Sequence[str]


def build_index(
    elmo: Elmo,
    sentences: Iterable[Tokens],
    folder: Path,
    *,
    layers: Layers = "top",
    graph_from: int | None = GRAPH_FROM,
) -> WordIndex:
    """Embed all sentences and keep their words in a folder, in place of an index that is there.

    A text of `graph_from` words or more gets a graph that links one mix of their layers.
    """
    weights = one_mix(layers, elmo.n_layers)
    if folder.exists() and not (folder / SETTINGS).exists() and not _is_empty(folder):
        raise DataError(
            f"{folder}: holds something else, expected a new folder or an old index; "
            "name another one"
        )
    with atomic_folder(folder) as temporary:
        words = _write_tokens(elmo, sentences, temporary, graph_from)
        write_words(temporary, words, elmo.embedder)
        vectors = IndexedVectors.open(temporary, elmo.bilm.config)
        has_graph = graph_from is not None and len(vectors.word_of) >= graph_from
        if has_graph:
            write_graphs(temporary, _mixes(vectors, weights))
        settings = index_settings(elmo.bilm) | {"layers": weights.tolist() if has_graph else None}
        (temporary / SETTINGS).write_text(json.dumps(settings, indent=2) + "\n")
    return WordIndex(folder, elmo)


def passing_index(elmo: Elmo, sentences: Iterable[Tokens]) -> WordIndex:
    """An index in a folder of its own, which is removed when the index is no longer used."""
    folder = tempfile.TemporaryDirectory(prefix="elmo-index-", ignore_cleanup_errors=True)
    # Without a graph: it would take longer to make than a few searches without it.
    index = build_index(elmo, sentences, Path(folder.name) / "index", graph_from=None)
    weakref.finalize(index, folder.cleanup)
    return index


def _write_tokens(
    elmo: Elmo, sentences: Iterable[Tokens], folder: Path, graph_from: int | None
) -> Iterable[str]:
    """Write sentences and the vectors of their tokens; give the distinct words as they came."""
    numbers: dict[str, int] = {}
    n_tokens = 0
    with (
        new_lines(folder / SENTENCES) as append,
        new_vectors(folder, elmo.n_layers - 1) as put,
        (folder / FIRST_TOKENS).open("wb") as first_tokens,
        tqdm(desc="embedding", unit=" words", unit_scale=True, disable=None) as bar,
    ):
        for embedded in elmo.stream(tokens for tokens in sentences if tokens):
            tokens = embedded.tokens
            append(tokens)
            first_tokens.write(n_tokens.to_bytes(8, "little"))
            put(embedded.layers, np.array(number_words(tokens, numbers), np.int64))
            n_tokens += len(tokens)
            bar.update(len(tokens))
            if graph_from is not None and n_tokens >= graph_from:
                require_usearch()  # now, not when all of the text has been read
        first_tokens.write(n_tokens.to_bytes(8, "little"))
    if not n_tokens:
        raise DataError("no words to index, expected text; name a file that holds some")
    return numbers


def _mixes(vectors: IndexedVectors, weights: Array) -> Iterator[Array]:
    """The mix of layers of all tokens, some at a time: (n, D)."""
    n_tokens = len(vectors.word_of)
    with tqdm(desc="linking", total=n_tokens, unit=" words", unit_scale=True, disable=None) as bar:
        for first in range(0, n_tokens, ROWS_AT_ONCE):
            mixed = vectors.mixed(weights, slice(first, first + ROWS_AT_ONCE))
            yield mixed
            bar.update(len(mixed))


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and next(folder.iterdir(), None) is None
