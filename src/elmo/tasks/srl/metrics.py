"""The metric of SRL: F1 of arguments as CoNLL's scorer (srl-eval) counts them.

In: IOB2 labels. Out: arguments (a role and its spans), and precision, recall and F1. A span labeled
C-X continues the last X before it, and is an X itself where there is none. An argument of several
spans is one argument, and correct if all its spans are. R-X, a reference to X, is an argument of
its own. The predicate, V with its continuations, is not counted.
"""

from collections.abc import Mapping, Sequence

from elmo.tasks.metrics import f1
from elmo.tasks.spans import read_spans
from elmo.tasks.srl.data import PREDICATE
from elmo.tasks.tagging.metrics import score_spans

Argument = tuple[tuple[tuple[int, int], ...], str]  # its spans and its role

CONTINUATION = "C-"


def read_arguments(labels: Sequence[str]) -> list[Argument]:
    """The arguments of a predicate, ordered by start."""
    arguments: list[Argument] = []
    last: dict[str, int] = {}  # role -> index of its last argument
    for start, stop, kind in read_spans(labels):
        role = kind.removeprefix(CONTINUATION)
        if kind != role and role in last:
            spans, _ = arguments[last[role]]
            arguments[last[role]] = ((*spans, (start, stop)), role)
            continue
        last[role] = len(arguments)
        arguments.append((((start, stop),), role))
    return [argument for argument in arguments if argument[1] != PREDICATE]


def score_arguments(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Precision, recall and F1 of the arguments of propositions, and the F1 of each role."""
    return score_spans(
        [read_arguments(labels) for labels in gold],
        [read_arguments(labels) for labels in predicted],
    )


def score_predicates(
    gold: Mapping[tuple[str, ...], set[int]], predicted: Mapping[tuple[str, ...], set[int]]
) -> float:
    """F1 of predicates, given as the positions in each distinct sentence."""
    return f1(
        sum(len(gold[tokens] & predicted[tokens]) for tokens in gold),
        sum(map(len, predicted.values())),
        sum(map(len, gold.values())),
    )
