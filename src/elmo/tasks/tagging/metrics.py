"""Metrics of tagging: F1 of spans as CoNLL's scorer (conlleval) counts, and token accuracy.

In: gold and predicted labels of each sentence, or spans. Out: scores in percent.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from itertools import chain

from elmo.tasks.metrics import accuracy, f1, percent
from elmo.tasks.spans import read_spans

AnySpan = tuple[*tuple[Hashable, ...], str]  # any description of its position, and its kind


def score_labels(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]], *, has_spans: bool
) -> dict[str, float]:
    """Accuracy of all tokens; with spans, also their precision, recall and F1."""
    of_tokens = {"accuracy": accuracy(chain(*gold), chain(*predicted))}
    if not has_spans:
        return of_tokens
    return score_spans(list(map(read_spans, gold)), list(map(read_spans, predicted))) | of_tokens


def score_spans(
    gold: Sequence[Iterable[AnySpan]], predicted: Sequence[Iterable[AnySpan]]
) -> dict[str, float]:
    """Precision, recall and F1 of all spans, and the F1 of each kind."""
    n_gold: Counter[str] = Counter()
    n_predicted: Counter[str] = Counter()
    n_correct: Counter[str] = Counter()
    for right, found in zip(gold, predicted, strict=True):
        n_gold.update(kind for *_, kind in right)
        n_predicted.update(kind for *_, kind in found)
        n_correct.update(kind for *_, kind in set(right) & set(found))
    totals = (n_correct.total(), n_predicted.total(), n_gold.total())
    scores = {
        "f1": f1(*totals),
        "precision": percent(totals[0], totals[1]),
        "recall": percent(totals[0], totals[2]),
    }
    kinds = sorted(n_gold.keys() | n_predicted.keys())
    return scores | {f"f1_{k}": f1(n_correct[k], n_predicted[k], n_gold[k]) for k in kinds}
