"""The metric of sentence classification: accuracy of whole sentences.

In: examples and predicted labels. Out: scores in percent.
"""

from collections.abc import Sequence

from elmo.tasks.metrics import accuracy
from elmo.tasks.sentiment.data import LabeledText


def score_texts(examples: Sequence[LabeledText], predicted: Sequence[str]) -> dict[str, float]:
    """Accuracy."""
    return {"accuracy": accuracy((example.label for example in examples), predicted)}
