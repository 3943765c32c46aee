"""Word frequencies for baselines, estimated from the order of a model's vocabulary.

In: a model whose vocabulary is ordered by frequency. Out: log-probabilities of words, by the
log-uniform distribution of ranks, which approximates Zipf's law.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from elmo.api import Elmo
from elmo.errors import CheckpointError
from elmo.text.vocabulary import UNKNOWN


def log_frequencies(elmo: Elmo, words: Sequence[str]) -> NDArray[np.float64]:
    """The log-probability of each word by its rank; unknown words are as frequent as the last."""
    vocabulary = elmo.model.vocabulary
    if vocabulary is None:
        raise CheckpointError("this model has no vocabulary, expected words ordered by frequency")
    ids = vocabulary.ids(words)
    ranks = np.where(ids == UNKNOWN, len(vocabulary) - 1, ids)
    log_probs: NDArray[np.float64] = np.log(np.log1p(1 / (ranks + 1)) / np.log(len(vocabulary) + 1))
    return log_probs
