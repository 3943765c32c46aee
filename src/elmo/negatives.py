"""Negatives of the sampled softmax: words drawn by a law that fits words sorted by frequency.

In: the number of words, how many to draw, a generator. Out: distinct numbers, and how often each
number is expected in such a draw, as TensorFlow's log-uniform candidate sampler with `unique`.
"""

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


@dataclass(frozen=True)
class Negatives:
    """Distinct words, and the draw they come from."""

    ids: npt.NDArray[np.int64]  # (S,), rising
    n_tries: int  # draws until there were S distinct ones
    n_words: int

    def log_expected(self, ids: Tensor) -> Tensor:
        """The log of how often each word is expected in the sample, at most zero."""
        number = ids.to(torch.float64)
        probability = ((number + 2) / (number + 1)).log() / np.log(self.n_words + 1)
        expected = -torch.expm1(self.n_tries * torch.log1p(-probability))
        return expected.log().to(torch.float32)


def draw_negatives(n_words: int, n_negatives: int, generator: np.random.Generator) -> Negatives:
    """Draw with P(k) = log((k + 2) / (k + 1)) / log(V + 1) until S distinct words are there."""
    draws = np.empty(0, dtype=np.int64)
    while True:
        uniform = generator.random(2 * n_negatives)
        more = np.exp(uniform * np.log(n_words + 1)).astype(np.int64) - 1
        draws = np.concatenate([draws, np.minimum(more, n_words - 1)])
        distinct, first_draw = np.unique(draws, return_index=True)
        if len(distinct) >= n_negatives:
            n_tries = int(np.sort(first_draw)[n_negatives - 1]) + 1
            return Negatives(distinct[first_draw < n_tries], n_tries, n_words)
