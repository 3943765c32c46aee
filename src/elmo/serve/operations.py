"""The operations that the model's thread runs: items of any requests in, one result per item out.

The result of an item does not depend on the other items of the batch.
Shapes: K chosen layers or mixes, L+1 layers, T tokens, D width.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo.api import Elmo
from elmo.inference.occurrence import Occurrence
from elmo.inference.results import Layers, ScoredSentence
from elmo.inference.scoring import Substitute
from elmo.search.examples import ExampleIndex
from elmo.search.neighbors import Index, Neighbors, search
from elmo.serve.predictions import Predictor
from elmo.serve.scheduler import Operation

Array = NDArray[Any]
Tokens = Sequence[str]
# A search uses each number that it reads from memory only once. One million tokens of 320
# dimensions are compared in 113 ms and embedded in 68 s (docs/benchmarks/index.json): a search for
# any word takes 1,670 times as long as embedding a token, with 87 times its multiplications.
SEARCH_SLOWDOWN = 20


@dataclass(frozen=True)
class EmbedItem:
    """A sentence, and the weights of K weighted sums of its layers, (K, L+1)."""

    tokens: Tokens
    weights: NDArray[np.float32]


@dataclass(frozen=True)
class NeighborsItem:
    """A word in its sentence, and the number and kind of neighbors to find."""

    occurrence: Occurrence
    k: int
    layers: Layers
    any_word: bool


@dataclass(frozen=True)
class SubstitutesItem:
    """A position in a sentence, and the number of substitutes to find for it."""

    occurrence: Occurrence
    k: int


@dataclass(frozen=True)
class Service:
    """A model with everything that was loaded for it: an index, task models."""

    elmo: Elmo
    name: str
    index: Index | None = None
    tasks: Mapping[str, Predictor] | None = None

    @property
    def has_head(self) -> bool:
        """Whether the model has a softmax and can predict words."""
        return self.elmo.model.head is not None

    def operations(self) -> dict[str, Operation]:
        """All available operations by name."""
        found = {"embed": Operation(self.embed)}
        if self.has_head:
            softmax = self._softmax_cost()
            found["score"] = Operation(self.score, lambda _, length: length * (1 + softmax))
            found["substitutes"] = Operation(self.substitutes, lambda _, length: length + softmax)
        if self.index is not None:
            found["neighbors"] = Operation(self.neighbors, self._search_cost)
        tasks = self.tasks or {}
        return found | {f"predict/{name}": Operation(task.predict) for name, task in tasks.items()}

    def _multiplications(self) -> int:
        """Multiplications of the LSTM layers for a token, per output dimension."""
        lstm = self.elmo.bilm.config.lstm
        # 9 * dim * projection_dim in each direction of each layer.
        return 9 * lstm.dim * max(1, lstm.n_layers)

    def _softmax_cost(self) -> float:
        """Multiplications of the softmax for a token, relative to those of the LSTM layers."""
        vocabulary = self.elmo.model.vocabulary
        assert vocabulary is not None
        return len(vocabulary) / self._multiplications()  # words * projection_dim per direction

    def _search_cost(self, item: NeighborsItem, length: int) -> float:
        """The cost of embedding the sentence, and of embedding or comparing words of the index."""
        word = None if item.any_word else item.occurrence.word
        if isinstance(self.index, ExampleIndex):
            return length + self.index.search_tokens(word)
        assert self.index is not None
        n_compared = self.index.n_compared(word, item.layers)
        n_multiplications = self._multiplications() * self.elmo.output_dim
        return length + SEARCH_SLOWDOWN * n_compared / n_multiplications

    def embed(self, items: Sequence[EmbedItem]) -> list[Array]:
        """(K, T, D) for each sentence."""
        layers = self.elmo.embedder.embed([item.tokens for item in items])
        return [
            np.tensordot(item.weights, found, axes=1)
            for item, found in zip(items, layers, strict=True)
        ]

    def score(self, items: Sequence[Tokens]) -> list[ScoredSentence]:
        """The log-probabilities of each sentence's words."""
        return self.elmo.scorer.score(items)

    def substitutes(self, items: Sequence[SubstitutesItem]) -> list[list[Substitute]]:
        """The most probable words at each position."""
        most = max(item.k for item in items)
        found = self.elmo.scorer.substitutes([item.occurrence for item in items], most)
        return [words[: item.k] for item, words in zip(items, found, strict=True)]

    def neighbors(self, items: Sequence[NeighborsItem]) -> list[Neighbors]:
        """The nearest occurrences and words of each word."""
        assert self.index is not None
        layers = self.elmo.embedder.embed([item.occurrence.tokens for item in items])
        return [
            search(
                self.index,
                item.occurrence,
                found,
                item.k,
                layers=item.layers,
                any_word=item.any_word,
            )
            for item, found in zip(items, layers, strict=True)
        ]
