"""Percentages that the metrics of several tasks use.

In: counts, or gold and predicted labels. Out: percent, 0 if nothing was counted.
"""

from collections.abc import Iterable


def percent(part: float, whole: float) -> float:
    """100 * part / whole; 0 where the whole is 0."""
    return 100 * part / whole if whole else 0.0


def f1(n_correct: int, n_predicted: int, n_gold: int) -> float:
    """The harmonic mean of precision and recall."""
    return percent(2 * n_correct, n_predicted + n_gold)


def accuracy(gold: Iterable[str | None], predicted: Iterable[str]) -> float:
    """The percentage of predicted labels that are equal to the gold ones."""
    is_correct = [right == found for right, found in zip(gold, predicted, strict=True)]
    return percent(sum(is_correct), len(is_correct))
