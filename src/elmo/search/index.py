"""An index of all words of a text in their contexts.

In: a folder that `build_index` wrote, and the model that it was built with. Out: the occurrences
nearest to a word in a sentence; and the words nearest to a word without context (layer 0). Search
is exact, except among very many occurrences, where a graph finds the candidates. All files are
mapped into memory and read when needed.
Shapes: N tokens of the text, L+1 layers, D width, P projection.
"""

import json
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from elmo.errors import CheckpointError, ConfigError
from elmo.files.mapped_jsonl import MappedJsonLines
from elmo.inference.occurrence import Occurrence
from elmo.inference.results import Layers, one_mix
from elmo.models.identity import vectors_hash
from elmo.models.model_folder import Model
from elmo.search.graph import WordGraph
from elmo.search.vectors import IndexedVectors
from elmo.search.words import IndexedWords

if TYPE_CHECKING:
    from elmo.api import Elmo

FORMAT_VERSION = 2
SETTINGS, SENTENCES, FIRST_TOKENS = "index.json", "sentences.jsonl", "first_tokens.bin"
# This many best results are sorted first; the others only if these are not enough.
SORTED_FIRST = 256
# Comparing this many numbers takes a few milliseconds; for more, the graph is used.
MAX_COMPARED = 2**22
# How many rows are requested from the graph, in turn, until enough of them match.
GRAPH_CANDIDATES = (128, 1024)

Array = NDArray[Any]
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Neighbor:
    """An occurrence in the text, and its cosine similarity to the query."""

    occurrence: Occurrence
    similarity: float


@dataclass(frozen=True)
class SimilarWord:
    """A word of the text, and the cosine similarity of its context-free vector to the query's."""

    word: str
    similarity: float


class WordIndex:
    """The words of a text, each with its vectors."""

    def __init__(self, folder: Path, elmo: "Elmo", *, max_compared: int = MAX_COMPARED) -> None:
        """Open the index that `build_index` wrote with this model.

        A graph, if there is one, is used instead of comparing more than `max_compared` numbers.
        """
        self._max_compared = max_compared
        try:
            settings = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
        except (OSError, ValueError, RecursionError) as error:
            raise _incomplete(folder, error) from error
        mix = settings.pop("layers", None) if isinstance(settings, dict) else None
        if settings != index_settings(elmo.model):
            raise CheckpointError(
                f"{folder}: the index of another model, or of another version of this package; "
                "build it again with this model"
            )
        try:
            self.sentences: Sequence[list[str]] = MappedJsonLines(folder / SENTENCES, _is_sentence)
            self._first_tokens = np.memmap(folder / FIRST_TOKENS, np.int64, "r").view(np.ndarray)
            self._words = IndexedWords.open(folder)
            self._vectors = IndexedVectors.open(folder, elmo.bilm.config)
            self._graph = None if mix is None else WordGraph(folder, np.array(mix), len(self))
            self._check_lengths()
        except (OSError, ValueError) as error:
            raise _incomplete(folder, error) from error

    def _check_lengths(self) -> None:
        n_vectors, n_rows = len(self._vectors.word_of), len(self._words.rows)
        if len(self._first_tokens) != len(self.sentences) + 1:
            raise ValueError(f"{len(self.sentences)} sentences, {len(self._first_tokens)} starts")
        if not n_vectors == n_rows == len(self):
            raise ValueError(f"{n_vectors} vectors for {len(self)} tokens")
        if len(self._vectors.words) != self.n_words:
            raise ValueError(f"{len(self._vectors.words)} vectors for {self.n_words} words")

    def __len__(self) -> int:
        """The number of indexed tokens."""
        return int(self._first_tokens[-1])

    @property
    def n_words(self) -> int:
        """The number of distinct words of the text."""
        return len(self._words.spellings)

    @property
    def has_graph(self) -> bool:
        """Whether there is a graph for approximate search over all words."""
        return self._graph is not None

    @property
    def projection_dim(self) -> int:
        """Width of a word's vector without context."""
        return int(self._vectors.words.shape[1])

    def count(self, word: str) -> int:
        """How often a word occurs in the text, ignoring case."""
        return self._words.count(self._words.numbers(word))

    def rows(self, words: Iterable[str] = ()) -> Numbers:
        """The rows of some words, ignoring case, or of all words, in the order of the text."""
        ranges = [self._words.numbers(word) for word in {word.casefold() for word in words}]
        found = [self._words.rows_of(numbers) for numbers in ranges]
        return np.sort(np.concatenate(found)) if found else np.arange(len(self))

    def vectors(self, rows: Numbers, mix: Layers = "top") -> NDArray[np.float32]:
        """The vectors of some rows, (n, D): one layer or mix, rounded to float16 as stored."""
        return self._vectors.mixed(one_mix(mix, len(self._vectors.contexts) + 1), rows)

    def mix_weights(self, mix: Layers, *, any_word: bool) -> NDArray[np.float32]:
        """The weights (L+1,) of a mix of layers.

        Raises ConfigError if the search needs the graph and it was built from another mix.
        """
        weights = one_mix(mix, len(self._vectors.contexts) + 1)
        graph = self._graph
        if any_word and graph is not None and self._is_much(len(self)) and not graph.links(weights):
            raise ConfigError(
                f"layer weights {weights.tolist()}; expected {graph.weights.tolist()}, the mix of "
                f"the graph of these {len(self):,} words; search for one word only, or build an "
                "index with --layers"
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
        """The `k` occurrences nearest to one with the given layers (L+1, D), best first.

        `word` restricts them to occurrences of this word, ignoring case; `besides` is a sentence to
        exclude.
        """
        check_k(k)
        weights = self.mix_weights(mix, any_word=word is None)
        vector = weights @ layers.astype(np.float32)  # (D,)
        found: list[Neighbor] = []
        for rows in self._candidates(vector, weights, word, 4 * k):
            cosines = self._vectors.cosines(vector, weights, rows)
            found = [
                Neighbor(occurrence, float(cosines[position]))
                for position, occurrence in self._best(cosines, rows, k, besides)
            ]
            if len(found) == k:
                break
        return found

    def similar_words(self, vector: Array, k: int, *, besides: str = "") -> list[SimilarWord]:
        """The `k` words nearest to a word's layer 0, (P,), distinct when case is ignored."""
        check_k(k)
        cosines = self._vectors.word_cosines(vector.astype(np.float32))
        found: dict[str, SimilarWord] = {}
        for position in _by_decreasing(cosines):
            word = self._words.spellings[position]
            if word.casefold() not in (besides.casefold(), *found):
                found[word.casefold()] = SimilarWord(word, float(cosines[position]))
            if len(found) == k:
                break
        return list(found.values())

    def n_compared(self, word: str | None, mix: Layers) -> int:
        """How many numbers `nearest` for `word` (or any) and `similar_words` compare.

        A search with the graph counts as its most candidates, although few need so many.
        """
        weights = self.mix_weights(mix, any_word=word is None)
        numbers = self._numbers(word)
        n_rows = self._words.count(numbers)
        if self._graph_of(numbers, weights) is not None:
            n_rows = min(n_rows, GRAPH_CANDIDATES[-1])
        # With weights of zero, too, the length of each row is computed and the rows are sorted.
        n_layers = max(1, int(np.count_nonzero(weights)))
        return n_rows * n_layers * self._vectors.dim + self.n_words * self.projection_dim

    def _numbers(self, word: str | None) -> range:
        """The indices of a word, or of all words."""
        return range(self.n_words) if word is None else self._words.numbers(word)

    def _graph_of(self, numbers: range, weights: Array) -> WordGraph | None:
        """The graph, if these words have many rows and it was built from this mix of layers."""
        graph, is_much = self._graph, self._is_much(self._words.count(numbers))
        return graph if graph is not None and is_much and graph.links(weights) else None

    def _candidates(
        self, vector: Array, weights: Array, word: str | None, at_least: int
    ) -> Iterator[Numbers | None]:
        """Rows to compare: if there are many, first those that the graph finds; None means all."""
        numbers = self._numbers(word)
        graph = self._graph_of(numbers, weights)
        if graph is not None:
            for n_candidates in GRAPH_CANDIDATES:
                rows = graph.near(vector, max(n_candidates, at_least))
                words = self._vectors.word_of[rows]
                # Rows of the word among the nearest of all rows are the nearest of the word.
                yield rows[(words >= numbers.start) & (words < numbers.stop)]
        yield None if word is None else self._words.rows_of(numbers)

    def _is_much(self, n_rows: int) -> bool:
        return n_rows * self._vectors.dim > self._max_compared

    def _best(
        self, cosines: Array, rows: Numbers | None, k: int, besides: Sequence[str] | None
    ) -> Iterator[tuple[int, Occurrence]]:
        """The `k` best positions and their occurrences, one per distinct sentence."""
        seen = {tuple(besides or ())}
        for position in _by_decreasing(cosines):
            if k == 0:
                return
            occurrence = self.occurrence(position if rows is None else int(rows[position]))
            # A sentence that occurs twice in the text would be its own best neighbor.
            if tuple(occurrence.tokens) not in seen:
                seen.add(tuple(occurrence.tokens))
                k -= 1
                yield position, occurrence

    def occurrence(self, row: int) -> Occurrence:
        """The occurrence at a row; rows number the tokens of the whole text."""
        sentence = bisect_right(self._first_tokens, row) - 1
        return Occurrence(self.sentences[sentence], row - int(self._first_tokens[sentence]))


def check_k(k: int) -> None:
    """Raise a ConfigError if a number of results is below one."""
    if k < 1:
        raise ConfigError(f"k is {k}, expected at least 1")


def index_settings(model: Model) -> dict[str, Any]:
    """The settings that an index of this model and this version of the package must have."""
    return {"format_version": FORMAT_VERSION, "model": vectors_hash(model)}


def _by_decreasing(cosines: Array) -> Iterator[int]:
    """Positions by descending cosine, sorted lazily, because most callers need few."""
    first = np.arange(0)
    if len(cosines) > SORTED_FIRST:
        first = np.argpartition(-cosines, SORTED_FIRST)[:SORTED_FIRST]
        yield from first[np.argsort(-cosines[first], kind="stable")].tolist()
    others = np.ones(len(cosines), bool)
    others[first] = False
    places = np.flatnonzero(others)
    yield from places[np.argsort(-cosines[places], kind="stable")].tolist()


def _is_sentence(value: object) -> bool:
    return isinstance(value, list) and all(isinstance(token, str) for token in value)


def _incomplete(folder: Path, error: Exception) -> CheckpointError:
    return CheckpointError(
        f"{folder}: not a complete index ({error}); expected a folder that `elmo index` wrote"
    )
