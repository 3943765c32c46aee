"""What the model's thread does: many pieces of any requests in, an answer for each out.

Each operation gives for a piece what it gives for that piece alone, whatever runs beside it.
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
from elmo.search.neighbors import Index, Neighbors, search
from elmo.serve.batching import Operation
from elmo.serve.tasks import TaskModel

Array = NDArray[Any]
Tokens = Sequence[str]


@dataclass(frozen=True)
class Embedding:
    """A sentence, and the wanted weighted sums of its layers (K, L+1)."""

    tokens: Tokens
    weights: NDArray[np.float32]


@dataclass(frozen=True)
class Neighborhood:
    """A word in its sentence, and how many neighbours of what kind it is asked for."""

    occurrence: Occurrence
    k: int
    layers: Layers
    any_word: bool


@dataclass(frozen=True)
class Expectation:
    """A place in a sentence, and how many words are wanted that could stand there."""

    occurrence: Occurrence
    k: int


@dataclass(frozen=True)
class Service:
    """A model, and what was loaded beside it."""

    elmo: Elmo
    name: str
    index: Index | None = None
    tasks: Mapping[str, TaskModel] | None = None

    @property
    def has_head(self) -> bool:
        """Whether the model can predict words."""
        return self.elmo.model.head is not None

    def operations(self) -> dict[str, Operation]:
        """All that this service can do, by name."""
        found: dict[str, Operation] = {"embed": self.embed}
        if self.has_head:
            found |= {"score": self.score, "substitutes": self.substitutes}
        if self.index is not None:
            found["neighbors"] = self.neighbors
        return found | {f"predict/{name}": task.label for name, task in (self.tasks or {}).items()}

    def embed(self, pieces: Sequence[Embedding]) -> list[Array]:
        """(K, T, D) for each sentence."""
        layers = self.elmo.embedder.embed([piece.tokens for piece in pieces])
        return [
            np.tensordot(piece.weights, found, axes=1)
            for piece, found in zip(pieces, layers, strict=True)
        ]

    def score(self, pieces: Sequence[Tokens]) -> list[ScoredSentence]:
        """The log-probabilities of each sentence's words."""
        return self.elmo.scorer.score(pieces)

    def substitutes(self, pieces: Sequence[Expectation]) -> list[list[Substitute]]:
        """The words expected at each place."""
        most = max(piece.k for piece in pieces)
        found = self.elmo.scorer.substitutes([piece.occurrence for piece in pieces], most)
        return [words[: piece.k] for piece, words in zip(pieces, found, strict=True)]

    def neighbors(self, pieces: Sequence[Neighborhood]) -> list[Neighbors]:
        """What is near each word."""
        assert self.index is not None
        layers = self.elmo.embedder.embed([piece.occurrence.tokens for piece in pieces])
        return [
            search(
                self.index,
                piece.occurrence,
                found,
                piece.k,
                layers=piece.layers,
                any_word=piece.any_word,
            )
            for piece, found in zip(pieces, layers, strict=True)
        ]
