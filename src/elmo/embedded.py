"""What `embed` gives: the tokens of a text, where they stand, and all layers of each.

In: a choice of layers. Out: one vector per token (T, D), or one per text (D,).
Shapes: L+1 layers, T tokens, D width of a vector, K chosen layers.
"""

from collections.abc import Sequence
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
