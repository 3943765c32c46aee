"""The results of `embed` and `score`.

`Embedded`: the tokens of a text, their offsets and all layers of each; a choice of layers gives one
vector per token (T, D) or per text (D,). `Scored`: log-probabilities of each word of each sentence,
surprisals in bits and perplexities.
Shapes: L+1 layers, T tokens, D width of a vector, K chosen layers.
"""

import math
import operator
import re
import sys
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from elmo.errors import ConfigError

Array = NDArray[np.floating[Any]]
Layers = str | int | Sequence[float] | Array
Scores = NDArray[np.float64]
# What a word is predicted from: all words before it, all words after it, or both. See `combine` in
# scoring.py for the last.
Context = Literal["forward", "backward", "combined"]
N_SHOWN = 40  # characters of a text in a `repr`


@dataclass(frozen=True, eq=False, repr=False)
class EmbeddedToken:
    """A token of an `Embedded`."""

    text: str
    layers: Array  # (L+1, D)
    offset: tuple[int, int] | None = None  # characters of the raw text; None for token lists

    def vector(self, layers: Layers = "average") -> Array:
        """The vector of a layer or mix, (D,); `layers` as in `Embedded.vectors`."""
        return one_mix(layers, len(self.layers)) @ self.layers

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and equal_fields(self, other)

    def __repr__(self) -> str:
        return f"<EmbeddedToken {self.text!r}: {_shape(self.layers)}>"


@dataclass(frozen=True, eq=False, repr=False)
class Embedded:
    """A text with a vector for each of its tokens; a sequence of `EmbeddedToken`s."""

    tokens: list[str]
    layers: Array  # (L+1, T, D), sentence markers removed
    offsets: list[tuple[int, int]] | None = None  # characters of the raw text; None for token lists
    sentences: list[tuple[int, int]] = field(default_factory=list)  # ranges of tokens
    text: str | None = None  # the raw text; None for token lists

    def __len__(self) -> int:
        return len(self.tokens)

    def __getitem__(self, position: int) -> EmbeddedToken:
        position = operator.index(position)  # no slices
        offset = None if self.offsets is None else self.offsets[position]
        return EmbeddedToken(self.tokens[position], self.layers[:, position], offset)

    def __iter__(self) -> Iterator[EmbeddedToken]:
        return (self[position] for position in range(len(self)))

    def __contains__(self, word: object) -> bool:
        return word in self.tokens

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and equal_fields(self, other)

    def __repr__(self) -> str:
        text = " ".join(self.tokens) if self.text is None else self.text
        shown = text if len(text) <= N_SHOWN else f"{text[:N_SHOWN]}..."
        return f"<Embedded {shown!r}: {len(self)} tokens, {_shape(self.layers)}>"

    def vectors(self, layers: Layers = "average") -> Array:
        """One vector per token, (T, D).

        `layers` is "average", "sum", "top", a layer index (-1 is the last), or layer weights.
        """
        return np.tensordot(one_mix(layers, len(self.layers)), self.layers, axes=1)

    def pooled(self, how: Literal["mean", "max"] = "mean", layers: Layers = "average") -> Array:
        """One vector for the text, (D,): the mean or maximum over its tokens; zeros if none."""
        if how not in ("mean", "max"):
            raise ConfigError(f"pooling {how!r} is unknown; expected 'mean' or 'max'")
        vectors = self.vectors(layers)
        if not len(vectors):
            return np.zeros(vectors.shape[1], vectors.dtype)
        pooled: Array = vectors.mean(0) if how == "mean" else vectors.max(0)
        return pooled


def layer_weights(layers: Layers, n_layers: int) -> NDArray[np.float32]:
    """A choice of layers as weights (K, L+1): each row is one weighted sum of all layers.

    "all", "average", "sum", "top", an index, "0,2" (those layers), or a list of weights (one mix).
    """
    identity = np.eye(n_layers, dtype=np.float32)
    numbers: list[int] | None
    if isinstance(layers, str):
        named = {
            "all": identity,
            "average": np.full((1, n_layers), 1 / n_layers, dtype=np.float32),
            "sum": np.ones((1, n_layers), dtype=np.float32),
            "top": identity[-1:],
        }
        if layers in named:
            return named[layers]
        is_list = re.fullmatch(r"\s*-?\d+\s*(,\s*-?\d+\s*)*", layers, re.ASCII)
        numbers = [int(part) for part in layers.split(",")] if is_list else None
    elif isinstance(layers, int | np.integer):
        numbers = [int(layers)]
    else:
        try:
            mix = np.asarray(layers, dtype=np.float32)
        except (TypeError, ValueError) as error:
            raise ConfigError(f"layer weights {layers!r}, expected numbers") from error
        if mix.shape != (n_layers,):
            raise ConfigError(f"{mix.size} layer weights, expected {n_layers}: one for each layer")
        if not np.isfinite(mix).all():
            raise ConfigError(f"layer weights {mix.tolist()}, expected finite numbers")
        return mix[None]
    if numbers is None or not all(-n_layers <= number < n_layers for number in numbers):
        raise ConfigError(
            f"layers {layers!r} not understood; expected all, average, sum, top, or numbers from "
            f"{-n_layers} to {n_layers - 1} such as '0,2'"
        )
    return identity[numbers]


def one_mix(layers: Layers, n_layers: int) -> NDArray[np.float32]:
    """The weights (L+1,) of one layer or of one mix of them."""
    weights = layer_weights(layers, n_layers)
    if len(weights) != 1:
        raise ConfigError(
            f"layers {layers!r} selects several layers, expected one layer or one weighted sum"
        )
    mix: NDArray[np.float32] = weights[0]
    return mix


def equal_fields(one: object, other: object) -> bool:
    """Whether two values of one class have equal fields; arrays are compared as a whole."""
    return all(_equal(value, getattr(other, name)) for name, value in vars(one).items())


def _equal(one: Any, other: Any) -> bool:  # noqa: ANN401 - fields of any type
    if isinstance(one, Mapping):
        return one.keys() == other.keys() and all(_equal(one[key], other[key]) for key in one)
    if isinstance(one, np.ndarray):
        return np.array_equal(one, other)
    return bool(one == other)


def _shape(layers: Array) -> str:
    return f"{layers.shape[0]} layers of {layers.shape[-1]} dimensions"


@dataclass(frozen=True, eq=False)
class ScoredSentence:
    """A sentence and the log-probabilities of its words, by context."""

    tokens: list[str]
    is_known: list[bool]  # a word outside the vocabulary is scored as the unknown word
    log_probs: Mapping[Context, Scores]  # (T,) each
    # Forward: of the end marker after the last word. Backward: of the begin marker.
    boundary_log_probs: Mapping[Context, float]
    offsets: list[tuple[int, int]] | None = None  # characters of the raw text; None for token lists

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and equal_fields(self, other)

    def surprisal(self, context: Context = "combined") -> Scores:
        """The surprisal of each word, (T,), in bits."""
        return -self._words(context) / math.log(2)

    def log_prob(self, context: Context) -> float:
        """The log-probability of all words and, for a single direction, the boundary."""
        return float(self._words(context).sum()) + self.boundary_log_probs.get(context, 0.0)

    def n_predicted(self, context: Context) -> int:
        """The number of terms of `log_prob`."""
        return len(self._words(context)) + (context in self.boundary_log_probs)

    def to_mapping(self) -> dict[str, Any]:
        contexts = self.log_probs
        return {
            "tokens": self.tokens,
            "offsets": self.offsets,
            "is_known": self.is_known,
            "log_probs": {context: words.tolist() for context, words in contexts.items()},
            "surprisals": {context: self.surprisal(context).tolist() for context in contexts},
            "boundary_log_probs": dict(self.boundary_log_probs),
            "sentence_log_prob": {r: self.log_prob(r) for r in contexts},
            "perplexity": Tally([self]).perplexities(),
        }

    def _words(self, context: Context) -> Scores:
        if context not in self.log_probs:
            raise ConfigError(
                f"context {context!r}, expected {' or '.join(self.log_probs)} for this model"
            )
        return self.log_probs[context]


class Tally:
    """Perplexity over any number of sentences."""

    def __init__(self, sentences: Iterable[ScoredSentence] = ()) -> None:
        self._nats: dict[Context, float] = defaultdict(float)
        self._n_predicted: dict[Context, int] = defaultdict(int)
        self.n_words = self._n_unknown = 0
        for sentence in sentences:
            self.add(sentence)

    def add(self, sentence: ScoredSentence) -> None:
        self.n_words += len(sentence.tokens)
        self._n_unknown += sentence.is_known.count(False)
        for context in sentence.log_probs:
            self._nats[context] -= sentence.log_prob(context)
            self._n_predicted[context] += sentence.n_predicted(context)

    @property
    def unknown_rate(self) -> float:
        """The share of words that are not in the vocabulary."""
        return self._n_unknown / self.n_words if self.n_words else 0.0

    def perplexities(self) -> dict[Context, float | None]:
        """The exponential of the mean surprisal, by context.

        None if nothing was predicted or on overflow. For `combined`, which sees both sides of a
        word, it is a pseudo-perplexity.
        """
        return {
            context: _exponential(nats / n_predicted) if n_predicted else None
            for (context, nats), n_predicted in zip(
                self._nats.items(), self._n_predicted.values(), strict=True
            )
        }


@dataclass(frozen=True)
class Scored:
    """A scored text, sentence by sentence."""

    sentences: list[ScoredSentence]

    def log_prob(self, context: Context) -> float:
        """The log-probability of all sentences."""
        return sum(sentence.log_prob(context) for sentence in self.sentences)

    def perplexity(self, context: Context) -> float:
        """The perplexity over all words and boundaries; NaN if there are none or on overflow."""
        self.log_prob(context)  # raises if the model does not have this context
        found = Tally(self.sentences).perplexities().get(context)
        return math.nan if found is None else found

    @property
    def unknown_rate(self) -> float:
        """The share of words that are not in the vocabulary; many make perplexities useless."""
        return Tally(self.sentences).unknown_rate

    def to_mapping(self) -> dict[str, Any]:
        return {
            "sentences": [sentence.to_mapping() for sentence in self.sentences],
            "perplexity": Tally(self.sentences).perplexities(),
        }


def as_table(sentence: ScoredSentence) -> str:
    """A table of surprisals in bits: one line per word, then the boundary and the total.

    A word outside the vocabulary is marked with a question mark.
    """
    contexts = tuple(sentence.log_probs)
    known = zip(sentence.tokens, sentence.is_known, strict=True)
    names = ["bits", *(word if is_known else f"{word} ?" for word, is_known in known)]
    words = np.array([sentence.surprisal(context) for context in contexts]).T
    boundaries = (sentence.boundary_log_probs.get(context) for context in contexts)
    rows: list[list[str]] = [
        list(contexts),
        *([f"{bits:.2f}" for bits in row] for row in words),
        ["" if each is None else f"{_bits(each):.2f}" for each in boundaries],
        [f"{_bits(sentence.log_prob(context)):.2f}" for context in contexts],
    ]
    names += ["(boundary)", "total"]
    width = max(map(len, names))
    lines = zip(names, rows, strict=True)
    return "\n".join(f"{name:{width}}" + "".join(f"{c:>10}" for c in row) for name, row in lines)


def _bits(log_prob: float) -> float:
    return -log_prob / math.log(2)


def _exponential(nats: float) -> float | None:
    """exp(nats), or None on overflow."""
    return math.exp(nats) if nats < math.log(sys.float_info.max) else None
