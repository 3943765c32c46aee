"""The metric of natural language inference: accuracy.

In: examples and predicted labels. Out: scores in percent.
"""

from collections.abc import Sequence

from elmo.tasks.metrics import accuracy
from elmo.tasks.nli.data import SentencePair


def score_pairs(examples: Sequence[SentencePair], predicted: Sequence[str]) -> dict[str, float]:
    """Accuracy."""
    return {"accuracy": accuracy((example.label for example in examples), predicted)}
