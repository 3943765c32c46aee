"""What `score` gives: how expected each word of a text was, in nats, bits and perplexity.

In: the log-probabilities of a sentence's words in each reading. Out: surprisals and totals.
Log-probabilities are natural logarithms; surprisal is in bits. Shapes: T words of a sentence.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from elmo.errors import ConfigError

Array = NDArray[np.float64]
# A word given all before it, all after it, or all others; see `elmo.score.combine` for the last.
Reading = Literal["forward", "backward", "combined"]


@dataclass(frozen=True)
class ScoredSentence:
    """A sentence and how expected it was, in each reading that the model has."""

    tokens: list[str]
    is_known: list[bool]  # a word outside the vocabulary is scored as the unknown word
    log_probabilities: Mapping[Reading, Array]  # (T,) each
    # Forward, that the sentence ends after its last word; backward, that it begins at its first.
    edges: Mapping[Reading, float]
    offsets: list[tuple[int, int]] | None = None  # characters of the raw text; none for token lists

    def surprisal(self, reading: Reading = "combined") -> Array:
        """How surprising each word was, (T,), in bits."""
        return self._words(reading) / -math.log(2)

    def log_probability(self, reading: Reading) -> float:
        """That of the whole sentence: the sum over its words and, in a direction, its edge."""
        return float(self._words(reading).sum()) + self.edges.get(reading, 0.0)

    def n_predicted(self, reading: Reading) -> int:
        """How many log-probabilities that sum has."""
        return len(self._words(reading)) + (reading in self.edges)

    def _words(self, reading: Reading) -> Array:
        if reading not in self.log_probabilities:
            raise ConfigError(
                f"reading {reading!r} is not one of this model's, expected "
                f"{' or '.join(self.log_probabilities)}; name one of these"
            )
        return self.log_probabilities[reading]


@dataclass(frozen=True)
class Scored:
    """A text and how expected it was, sentence by sentence."""

    sentences: list[ScoredSentence]

    def log_probability(self, reading: Reading) -> float:
        """The sum over the sentences."""
        return sum(sentence.log_probability(reading) for sentence in self.sentences)

    def perplexity(self, reading: Reading) -> float:
        """Of all that was predicted; for `combined`, which sees both sides, a pseudo-perplexity."""
        return perplexity(self.sentences, reading)


def perplexity(sentences: Sequence[ScoredSentence], reading: Reading) -> float:
    """The exponential of the mean surprise in nats; not a number where nothing was predicted."""
    n_predicted = sum(sentence.n_predicted(reading) for sentence in sentences)
    total = sum(sentence.log_probability(reading) for sentence in sentences)
    return math.exp(-total / n_predicted) if n_predicted else math.nan


def to_mapping(scored: Scored) -> dict[str, Any]:
    """Plain values, ready for JSON; a perplexity of nothing is None."""
    return {
        "sentences": [_sentence_to_mapping(sentence) for sentence in scored.sentences],
        "perplexity": _perplexities(scored.sentences),
    }


def _sentence_to_mapping(sentence: ScoredSentence) -> dict[str, Any]:
    readings = sentence.log_probabilities
    return {
        "tokens": sentence.tokens,
        "offsets": sentence.offsets,
        "is_known": sentence.is_known,
        "log_probabilities": {reading: words.tolist() for reading, words in readings.items()},
        "surprisals": {reading: sentence.surprisal(reading).tolist() for reading in readings},
        "edge_log_probabilities": dict(sentence.edges),
        "sentence_log_probability": {r: sentence.log_probability(r) for r in readings},
        "perplexity": _perplexities([sentence]),
    }


def _perplexities(sentences: Sequence[ScoredSentence]) -> dict[str, float | None]:
    readings = sentences[0].log_probabilities if sentences else ()
    found = {reading: perplexity(sentences, reading) for reading in readings}
    return {reading: None if math.isnan(value) else value for reading, value in found.items()}
