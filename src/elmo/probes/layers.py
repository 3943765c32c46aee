"""The layers of a model as the features of probes.

In: a model and sentences of tokens. Out: the layers of each sentence, or of all tokens in one
array.
Shapes: L+1 layers, T tokens of a sentence, N tokens of all sentences, D width.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from elmo.api import Elmo, State

Array = NDArray[Any]


def layer_names(elmo: Elmo) -> list[str]:
    """The names of the layers, as rows of a table."""
    return [f"layer {layer}" for layer in range(elmo.n_layers)]


def embed_layers(elmo: Elmo, sentences: Sequence[Sequence[str]], state: State) -> "tqdm[Array]":
    """The layers (L+1, T, D) of each sentence, in order, with progress on standard error."""
    embedded = (result.layers for result in elmo.stream_tokens(sentences, state=state))
    return tqdm(embedded, total=len(sentences), desc="embed", unit=" sentences", disable=None)


def embed_tokens(
    elmo: Elmo, sentences: Sequence[Sequence[str]], state: State
) -> NDArray[np.float16]:
    """The layers of the tokens of all sentences, (L+1, N, D), in half precision."""
    n_tokens = sum(map(len, sentences))
    features = np.empty((elmo.n_layers, n_tokens, elmo.output_dim), dtype=np.float16)
    row = 0
    for layers in embed_layers(elmo, sentences, state):
        features[:, row : row + layers.shape[1]] = layers
        row += layers.shape[1]
    return features


def normalize(vectors: Array, out: Array | None = None) -> Array:
    """Scale vectors (..., D) to unit length, so that dot products are cosines; zeros stay zero."""
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    normalized: Array = np.divide(vectors, np.where(lengths > 0, lengths, 1), out=out)
    return normalized


def target_names(elmo: Elmo) -> list[str]:
    """The names of the rows of `embed_targets`."""
    return [*layer_names(elmo), "average of layers"]


def embed_targets(
    elmo: Elmo, sentences: Sequence[Sequence[str]], positions: Sequence[int], state: State
) -> NDArray[np.float32]:
    """One token of each sentence: its layers and their average, (L+2, N, D)."""
    targets = np.empty((elmo.n_layers + 1, len(sentences), elmo.output_dim), dtype=np.float32)
    embedded = embed_layers(elmo, sentences, state)
    for row, (layers, position) in enumerate(zip(embedded, positions, strict=True)):
        targets[:-1, row] = layers[:, position]
    targets[-1] = targets[:-1].mean(0)
    return targets
