"""What `embed` gives: the tokens of a text, where they stand, and all layers of each.

In: a choice of layers. Out: one vector per token (T, D), or one per text (D,).
Shapes: L+1 layers, T tokens, D width of a vector, K chosen layers.
"""

import math
import sys
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from elmo.errors import ConfigError

Array = NDArray[np.floating[Any]]
Layers = str | int | Sequence[float]


@dataclass(frozen=True)
class Embedded:
    """A text with a vector for each of its tokens."""

    tokens: list[str]
    layers: Array  # (L+1, T, D), sentence markers removed
    offsets: list[tuple[int, int]] | None = None  # characters of the raw text; none for token lists
    sentences: list[tuple[int, int]] = field(default_factory=list)  # ranges of tokens

    def vectors(self, layers: Layers = "average") -> Array:
        """One vector per token, (T, D): "average", "top", a layer's number, or layer weights."""
        weights = layer_weights(layers, len(self.layers))
        if len(weights) != 1:
            raise ConfigError(f"layers {layers!r} are several; expected one layer or one mix")
        return np.tensordot(weights[0], self.layers, axes=1)

    def pooled(self, how: Literal["mean", "max"] = "mean", layers: Layers = "average") -> Array:
        """One vector for the text, (D,): the mean or the maximum over its tokens; zero if none."""
        if how not in ("mean", "max"):
            raise ConfigError(f"pooling {how!r} is unknown; expected 'mean' or 'max'")
        vectors = self.vectors(layers)
        if not len(vectors):
            return np.zeros(vectors.shape[1], vectors.dtype)
        pooled: Array = vectors.mean(0) if how == "mean" else vectors.max(0)
        return pooled


def layer_weights(layers: Layers, n_layers: int) -> NDArray[np.float32]:
    """A choice of layers as weights (K, L+1): each row is one weighted sum of all layers.

    "all", "average", "top", a number, "0,2" (those layers), or a list of weights (one mix).
    """
    identity = np.eye(n_layers, dtype=np.float32)
    if layers == "all":
        return identity
    if layers == "average":
        return np.full((1, n_layers), 1 / n_layers, dtype=np.float32)
    if layers == "top":
        return identity[-1:]
    if isinstance(layers, str):
        numbers = [int(part) if part.strip().isdecimal() else -1 for part in layers.split(",")]
    elif isinstance(layers, int | np.integer):
        numbers = [int(layers)]
    else:
        mix = np.asarray(layers, dtype=np.float32)
        if mix.shape != (n_layers,):
            raise ConfigError(f"{mix.size} layer weights, expected {n_layers}: one for each layer")
        return mix[None]
    if not all(0 <= number < n_layers for number in numbers):
        raise ConfigError(
            f"layers {layers!r} not understood; expected all, average, top, or numbers from 0 to "
            f"{n_layers - 1} such as '0,2'"
        )
    return identity[numbers]


Scores = NDArray[np.float64]
# A word given all before it, all after it, or all others; see `elmo.score.combine` for the last.
Reading = Literal["forward", "backward", "combined"]


@dataclass(frozen=True)
class ScoredSentence:
    """A sentence and how expected it was, in each reading that the model has."""

    tokens: list[str]
    is_known: list[bool]  # a word outside the vocabulary is scored as the unknown word
    log_probabilities: Mapping[Reading, Scores]  # (T,) each
    # Forward, that the sentence ends after its last word; backward, that it begins at its first.
    edges: Mapping[Reading, float]
    offsets: list[tuple[int, int]] | None = None  # characters of the raw text; none for token lists

    def surprisal(self, reading: Reading = "combined") -> Scores:
        """How surprising each word was, (T,), in bits."""
        return -self._words(reading) / math.log(2)

    def log_probability(self, reading: Reading) -> float:
        """That of the whole sentence: the sum over its words and, in a direction, its edge."""
        return float(self._words(reading).sum()) + self.edges.get(reading, 0.0)

    def n_predicted(self, reading: Reading) -> int:
        """How many log-probabilities that sum has."""
        return len(self._words(reading)) + (reading in self.edges)

    def to_mapping(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        readings = self.log_probabilities
        return {
            "tokens": self.tokens,
            "offsets": self.offsets,
            "is_known": self.is_known,
            "log_probabilities": {reading: words.tolist() for reading, words in readings.items()},
            "surprisals": {reading: self.surprisal(reading).tolist() for reading in readings},
            "edge_log_probabilities": dict(self.edges),
            "sentence_log_probability": {r: self.log_probability(r) for r in readings},
            "perplexity": Tally([self]).perplexities(),
        }

    def _words(self, reading: Reading) -> Scores:
        if reading not in self.log_probabilities:
            raise ConfigError(
                f"reading {reading!r} is not one of this model's, expected "
                f"{' or '.join(self.log_probabilities)}; name one of these"
            )
        return self.log_probabilities[reading]


class Tally:
    """The surprise of any number of sentences added up."""

    def __init__(self, sentences: Iterable[ScoredSentence] = ()) -> None:
        self._nats: dict[Reading, float] = defaultdict(float)
        self._n_predicted: dict[Reading, int] = defaultdict(int)
        for sentence in sentences:
            self.add(sentence)

    def add(self, sentence: ScoredSentence) -> None:
        """Count one more sentence."""
        for reading in sentence.log_probabilities:
            self._nats[reading] -= sentence.log_probability(reading)
            self._n_predicted[reading] += sentence.n_predicted(reading)

    def perplexities(self) -> dict[Reading, float | None]:
        """The exponential of the mean surprise, by reading; None where nothing was predicted.

        For `combined`, which sees both sides of a word, it is a pseudo-perplexity.
        """
        return {
            reading: _exponential(nats / n_predicted) if n_predicted else None
            for (reading, nats), n_predicted in zip(
                self._nats.items(), self._n_predicted.values(), strict=True
            )
        }


@dataclass(frozen=True)
class Scored:
    """A text and how expected it was, sentence by sentence."""

    sentences: list[ScoredSentence]

    def log_probability(self, reading: Reading) -> float:
        """The sum over the sentences."""
        return sum(sentence.log_probability(reading) for sentence in self.sentences)

    def perplexity(self, reading: Reading) -> float:
        """Of all that was predicted, as `Tally` has it; not a number if that is nothing."""
        found = Tally(self.sentences).perplexities().get(reading)
        return math.nan if found is None else found

    def to_mapping(self) -> dict[str, Any]:
        """Plain values, ready for JSON."""
        return {
            "sentences": [sentence.to_mapping() for sentence in self.sentences],
            "perplexity": Tally(self.sentences).perplexities(),
        }


def as_table(sentence: ScoredSentence) -> str:
    """A line a word, then the sentence's edge and its sum: bits in each reading.

    A word that the model cannot predict has a question mark.
    """
    readings = tuple(sentence.log_probabilities)
    known = zip(sentence.tokens, sentence.is_known, strict=True)
    names = ["bits", *(word if is_known else f"{word} ?" for word, is_known in known)]
    words = np.array([sentence.surprisal(reading) for reading in readings]).T
    edges = (sentence.edges.get(reading) for reading in readings)
    rows: list[list[str]] = [
        list(readings),
        *([f"{bits:.2f}" for bits in row] for row in words),
        ["" if edge is None else f"{_bits(edge):.2f}" for edge in edges],
        [f"{_bits(sentence.log_probability(reading)):.2f}" for reading in readings],
    ]
    names += ["(its edge)", "(in all)"]
    width = max(map(len, names))
    lines = zip(names, rows, strict=True)
    return "\n".join(f"{name:{width}}" + "".join(f"{c:>10}" for c in row) for name, row in lines)


def _bits(log_probability: float) -> float:
    return -log_probability / math.log(2)


def _exponential(nats: float) -> float | None:
    """A model that is sure of the wrong can surprise by more than a float holds."""
    return math.exp(nats) if nats < math.log(sys.float_info.max) else None
