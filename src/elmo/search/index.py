"""An index of words in context: every word of a text where it stands, kept in a folder.

In: a folder that `build_index` made, and the model that made it. Out: the occurrences nearest to a
word in its sentence, and the words nearest to it without one, by their spelling alone (layer 0).
All occurrences that are asked for are compared; if they are very many, those that a graph finds.
Nothing is read before it is needed: all files are mapped into memory.
Shapes: N tokens of the text, L+1 layers, D width, P projection.
"""

import json
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo.api import Elmo
from elmo.errors import CheckpointError, ConfigError
from elmo.files.mapped_jsonl import KeptLines
from elmo.inference.occurrence import Occurrence
from elmo.inference.results import Layers, layer_weights
from elmo.models.identity import model_hash
from elmo.network.bilm import BiLM
from elmo.search.graph import WordGraph
from elmo.search.vectors import IndexedVectors
from elmo.search.words import IndexedWords

FORMAT_VERSION = 2
SETTINGS, SENTENCES, FIRST_TOKENS = "index.json", "sentences.jsonl", "first_tokens.bin"
# So many of the best are sorted first; the others only if these are not enough.
SORTED_FIRST = 256
# So many numbers are compared in some milliseconds; among more the graph looks first.
MOST_COMPARED = 2**22
# How many rows the graph is asked for, one after the other, until there are enough among them.
LOOKS = (128, 1024)

Array = NDArray[Any]
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Neighbor:
    """An occurrence in the text, and the cosine of the angle between it and what was asked for."""

    occurrence: Occurrence
    similarity: float


@dataclass(frozen=True)
class SimilarWord:
    """A word of the text, and the same cosine without any context."""

    word: str
    similarity: float


class WordIndex:
    """The words of a text, each with its vectors."""

    def __init__(self, folder: Path, elmo: Elmo, *, most_compared: int = MOST_COMPARED) -> None:
        """Open the index that `build_index` kept in a folder, if this model made it.

        If there is a graph, it is used where more than `most_compared` numbers were to be compared.
        """
        self._most_compared = most_compared
        try:
            settings = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
        except (OSError, ValueError) as error:
            raise _not_whole(folder, error) from error
        mix = settings.pop("layers", None) if isinstance(settings, dict) else None
        if settings != index_settings(elmo.bilm):
            raise CheckpointError(
                f"{folder}: the index of another model, or of another version of this package; "
                "build it again with this model"
            )
        try:
            self.sentences: Sequence[list[str]] = KeptLines(folder / SENTENCES)
            self._first_tokens = np.memmap(folder / FIRST_TOKENS, np.int64, "r").view(np.ndarray)
            self._words = IndexedWords.open(folder)
            self._vectors = IndexedVectors.open(folder, elmo.bilm.config)
            self._graph = None if mix is None else WordGraph(folder, np.array(mix), len(self))
            self._check_lengths()
        except (OSError, ValueError) as error:
            raise _not_whole(folder, error) from error

    def _check_lengths(self) -> None:
        n_vectors, n_rows = len(self._vectors.word_of), len(self._words.rows)
        if len(self._first_tokens) != len(self.sentences) + 1:
            raise ValueError(f"{len(self.sentences)} sentences, {len(self._first_tokens)} starts")
        if not n_vectors == n_rows == len(self):
            raise ValueError(f"{n_vectors} vectors for {len(self)} tokens")
        if len(self._vectors.words) != self.n_words:
            raise ValueError(f"{len(self._vectors.words)} vectors for {self.n_words} words")

    def __len__(self) -> int:
        """Tokens that are indexed."""
        return int(self._first_tokens[-1])

    @property
    def n_words(self) -> int:
        """Distinct words of the text."""
        return len(self._words.spellings)

    @property
    def has_graph(self) -> bool:
        """Whether there is a graph, by which any word is searched without a look at all."""
        return self._graph is not None

    @property
    def projection_dim(self) -> int:
        """Width of a word's vector without context."""
        return int(self._vectors.words.shape[1])

    def count(self, word: str) -> int:
        """How often the text has a word, capital letters or not."""
        return self._words.count(self._words.numbers(word))

    def mix_weights(self, mix: Layers, *, any_word: bool) -> NDArray[np.float32]:
        """The weights (L+1,) of a mix of layers, if it can be searched by."""
        weights = one_mix(mix, len(self._vectors.contexts) + 1)
        graph = self._graph
        if any_word and graph is not None and self._is_much(len(self)) and not graph.links(weights):
            raise ConfigError(
                f"layer weights {weights.tolist()} are not what the graph of these {len(self):,} "
                f"words links, expected {graph.weights.tolist()}; ask for these, for one word "
                "only, or build another index with --layers"
            )
        return weights

    def nearest(
        self,
        layers: Array,
        k: int,
        *,
        word: str | None = None,
        mix: Layers = "top",
        besides: Sequence[str] | None = None,
    ) -> list[Neighbor]:
        """The `k` occurrences nearest to one whose layers (L+1, D) are given, best first.

        `word`: only occurrences of it, capital letters or not; `besides`: not in this sentence.
        """
        weights = self.mix_weights(mix, any_word=word is None)
        vector = weights @ layers.astype(np.float32)  # (D,)
        found: list[Neighbor] = []
        for rows in self._candidates(vector, weights, word, 4 * k):
            cosines = self._vectors.cosines(vector, weights, rows)
            found = [
                Neighbor(occurrence, float(cosines[place]))
                for place, occurrence in self._best(cosines, rows, k, besides)
            ]
            if len(found) == k:
                break
        return found

    def similar_words(self, vector: Array, k: int, *, besides: str = "") -> list[SimilarWord]:
        """The `k` distinct words nearest to a word's layer 0, (P,), capital letters or not."""
        cosines = self._vectors.word_cosines(vector.astype(np.float32))
        found: dict[str, SimilarWord] = {}
        for place in _by_falling(cosines):
            word = self._words.spellings[place]
            if word.casefold() not in (besides.casefold(), *found):
                found[word.casefold()] = SimilarWord(word, float(cosines[place]))
            if len(found) == k:
                break
        return list(found.values())

    def _candidates(
        self, vector: Array, weights: Array, word: str | None, at_least: int
    ) -> Iterator[Numbers | None]:
        """Rows to compare: what the graph finds, if there are many, and at last all there are."""
        numbers = range(self.n_words) if word is None else self._words.numbers(word)
        graph = self._graph
        is_much = self._is_much(self._words.count(numbers))
        if graph is not None and is_much and graph.links(weights):
            for look in LOOKS:
                rows = graph.near(vector, max(look, at_least))
                words = self._vectors.word_of[rows]
                # As many of the word as there are among the nearest of all: they are its nearest.
                yield rows[(words >= numbers.start) & (words < numbers.stop)]
        yield None if word is None else self._words.rows_of(numbers)

    def _is_much(self, n_rows: int) -> bool:
        return n_rows * int(self._vectors.contexts[0].shape[1]) > self._most_compared

    def _best(
        self, cosines: Array, rows: Numbers | None, k: int, besides: Sequence[str] | None
    ) -> Iterator[tuple[int, Occurrence]]:
        """Places by falling cosine, with their occurrences; one for each different sentence."""
        seen = {tuple(besides or ())}
        for place in _by_falling(cosines):
            if k == 0:
                return
            occurrence = self._occurrence(place if rows is None else int(rows[place]))
            # A sentence that the text holds twice is its own best neighbor, and says nothing.
            if tuple(occurrence.tokens) not in seen:
                seen.add(tuple(occurrence.tokens))
                k -= 1
                yield place, occurrence

    def _occurrence(self, row: int) -> Occurrence:
        sentence = bisect_right(self._first_tokens, row) - 1
        return Occurrence(self.sentences[sentence], row - int(self._first_tokens[sentence]))


def index_settings(bilm: BiLM) -> dict[str, Any]:
    """What tells whether an index is of this model and of this version of the package."""
    return {"format_version": FORMAT_VERSION, "model": model_hash(bilm)}


def one_mix(layers: Layers, n_layers: int) -> NDArray[np.float32]:
    """The weights (L+1,) of one layer or of one mix of them."""
    weights = layer_weights(layers, n_layers)
    if len(weights) != 1:
        raise ConfigError(f"layers {layers!r} are several, expected one layer or one mix; name one")
    mix: NDArray[np.float32] = weights[0]
    return mix


def _by_falling(cosines: Array) -> Iterator[int]:
    """Places by falling cosine; most who ask need few."""
    first = np.arange(0)
    if len(cosines) > SORTED_FIRST:
        first = np.argpartition(-cosines, SORTED_FIRST)[:SORTED_FIRST]
        yield from first[np.argsort(-cosines[first], kind="stable")].tolist()
    others = np.ones(len(cosines), bool)
    others[first] = False
    places = np.flatnonzero(others)
    yield from places[np.argsort(-cosines[places], kind="stable")].tolist()


def _not_whole(folder: Path, error: Exception) -> CheckpointError:
    return CheckpointError(
        f"{folder}: not a whole index ({error}); expected what `elmo index` writes; build it again"
    )
