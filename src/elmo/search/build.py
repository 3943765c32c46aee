"""Build an index of words in context from a stream of sentences.

In: a model and any number of sentences. Out: a folder for `WordIndex`, written atomically. Only the
distinct words of the text are kept in memory.
"""

import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from elmo.errors import DataError
from elmo.files.atomic import atomic_folder, why_not_replaceable, write_json
from elmo.files.mapped_jsonl import mapped_jsonl_writer
from elmo.inference.results import Layers, one_mix
from elmo.search.graph import GRAPHS, require_usearch, write_graphs
from elmo.search.index import FIRST_TOKENS, SENTENCES, SETTINGS, WordIndex, index_settings
from elmo.search.vectors import (
    LAYERS,
    PRODUCTS,
    ROWS_AT_ONCE,
    WORD_LENGTHS,
    WORD_OF,
    WORDS,
    IndexedVectors,
    new_vectors,
)
from elmo.search.words import FIRST_ROWS, ROWS, SPELLINGS, write_words
from elmo.text.batches import number_words

if TYPE_CHECKING:
    from elmo.api import Elmo

# Exhaustive search of a smaller text takes a few milliseconds.
GRAPH_FROM = 20_000
# All files that an index may contain, as names and globs.
FILES = (
    *(SETTINGS, SENTENCES, "sentences.starts", FIRST_TOKENS),
    *(SPELLINGS, "words.starts", ROWS, FIRST_ROWS),
    *(LAYERS, PRODUCTS, WORD_OF, WORDS, WORD_LENGTHS, GRAPHS),
)

Array = NDArray[Any]
Tokens = Sequence[str]


def build_index(
    elmo: "Elmo",
    sentences: Iterable[Tokens],
    folder: Path,
    *,
    layers: Layers = "top",
    graph_from: int | None = GRAPH_FROM,
) -> WordIndex:
    """Embed all sentences and write an index of their words; an older index is replaced.

    A text of `graph_from` words or more gets a search graph over one mix of the layers.
    """
    elmo.model.refuse_alignment("index", 0)  # it stores layer 0 once per word, not aligned
    weights = one_mix(layers, elmo.n_layers)
    # index.json is not the marker, because other programs also use that file name.
    reason = why_not_replaceable(folder, FIRST_TOKENS, FILES)
    if reason is not None:
        raise DataError(f"{folder}: {reason}; expected a new folder, or an index to be replaced")
    with atomic_folder(folder) as temporary:
        words = _write_tokens(elmo, sentences, temporary, graph_from)
        write_words(temporary, words, elmo.embedder)
        has_graph = _write_graph(temporary, elmo, weights, graph_from)
        settings = index_settings(elmo.model) | {"layers": weights.tolist() if has_graph else None}
        write_json(temporary / SETTINGS, settings)
    return WordIndex(folder, elmo)


def temporary_index(
    elmo: "Elmo",
    sentences: Iterable[Tokens],
    *,
    layers: Layers = "top",
    graph_from: int | None = None,
) -> WordIndex:
    """An index in a temporary folder, which is removed when the index is garbage-collected.

    It has no graph by default: building one takes longer than a few searches without it.
    """
    folder = tempfile.TemporaryDirectory(prefix="elmo-index-", ignore_cleanup_errors=True)
    path = Path(folder.name) / "index"
    index = build_index(elmo, sentences, path, layers=layers, graph_from=graph_from)
    weakref.finalize(index, folder.cleanup)
    return index


def _write_tokens(
    elmo: "Elmo", sentences: Iterable[Tokens], folder: Path, graph_from: int | None
) -> Iterable[str]:
    """Write sentences and token vectors; returns the distinct words by first occurrence."""
    numbers: dict[str, int] = {}
    n_tokens = 0
    with (
        mapped_jsonl_writer(folder / SENTENCES) as append,
        new_vectors(folder, elmo.n_layers - 1) as put,
        (folder / FIRST_TOKENS).open("wb") as first_tokens,
        tqdm(desc="embedding", unit=" words", unit_scale=True, disable=None) as bar,
    ):
        for embedded in elmo.stream_tokens(tokens for tokens in sentences if tokens):
            tokens = embedded.tokens
            append(tokens)
            first_tokens.write(n_tokens.to_bytes(8, "little"))
            put(embedded.layers, np.array(number_words(tokens, numbers), np.int64))
            n_tokens += len(tokens)
            bar.update(len(tokens))
            if graph_from is not None and n_tokens >= graph_from:
                require_usearch()  # fail before the rest of the text is embedded
        first_tokens.write(n_tokens.to_bytes(8, "little"))
    if not n_tokens:
        raise DataError("no words to index; expected text")
    return numbers


def _write_graph(folder: Path, elmo: "Elmo", weights: Array, graph_from: int | None) -> bool:
    """Write a graph if the text is long enough; returns whether it is.

    The memory maps are closed on return, so that the folder can be renamed on Windows.
    """
    vectors = IndexedVectors.open(folder, elmo.bilm.config)
    has_graph = graph_from is not None and len(vectors.word_of) >= graph_from
    if has_graph:
        write_graphs(folder, _mixes(vectors, weights))
    return has_graph


def _mixes(vectors: IndexedVectors, weights: Array) -> Iterator[Array]:
    """The mixed layers of all tokens, in batches: (n, D)."""
    n_tokens = len(vectors.word_of)
    with tqdm(desc="linking", total=n_tokens, unit=" words", unit_scale=True, disable=None) as bar:
        for first in range(0, n_tokens, ROWS_AT_ONCE):
            mixed = vectors.mixed(weights, slice(first, first + ROWS_AT_ONCE))
            yield mixed
            bar.update(len(mixed))
