"""The layers of all tokens of many sentences, embedded once and kept.

In: a model and sentences. Out: one array (L+1, N, D), half as precise as it was made, for which
probes have no use.
Shapes: L+1 layers, N tokens of all sentences, D width.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from elmo.api import Elmo, State

Features = NDArray[np.float16]


def embed_tokens(elmo: Elmo, sentences: Sequence[Sequence[str]], state: State) -> Features:
    """All layers (L+1, N, D) of the tokens, one sentence after the other."""
    n_tokens = sum(map(len, sentences))
    features = np.empty((elmo.n_layers, n_tokens, elmo.output_dim), dtype=np.float16)
    row = 0
    for layers in embedded_layers(elmo, sentences, state):
        features[:, row : row + layers.shape[1]] = layers
        row += layers.shape[1]
    return features


def embedded_layers(
    elmo: Elmo, sentences: Sequence[Sequence[str]], state: State
) -> "tqdm[NDArray[Any]]":
    """The layers of each sentence, in order, with progress on standard error."""
    embedded = (found.layers for found in elmo.stream(sentences, state=state))
    return tqdm(embedded, total=len(sentences), desc="embed", unit=" sentences", disable=None)
