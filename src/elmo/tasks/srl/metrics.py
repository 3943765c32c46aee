"""The arguments of a predicate as CoNLL's scorer of roles (srl-eval) counts them.

In: IOB2 labels. Out: arguments, each a role and its pieces, and precision, recall and F1 of many.
A piece that is labelled C-X goes on with the last X before it, and is X itself where there is none:
an argument of several pieces is right if all of them are, and is one argument. R-X, a pronoun that
stands for X, is an argument of its own. The predicate, V with its pieces, does not count.
"""

from collections.abc import Sequence

from elmo.tasks.spans import read_spans, score_spans
from elmo.tasks.srl.data import PREDICATE

Pieces = tuple[tuple[int, int], ...]  # of each its first token and the one after its last
Argument = tuple[Pieces, str]

CONTINUED = "C-"


def read_arguments(labels: Sequence[str]) -> list[Argument]:
    """The arguments of a predicate, in the order of their starts."""
    arguments: list[Argument] = []
    last: dict[str, int] = {}  # of each role the number of its last argument
    for start, stop, kind in read_spans(labels):
        role = kind.removeprefix(CONTINUED)
        if kind != role and role in last:
            pieces, _ = arguments[last[role]]
            arguments[last[role]] = ((*pieces, (start, stop)), role)
            continue
        last[role] = len(arguments)
        arguments.append((((start, stop),), role))
    return [argument for argument in arguments if argument[1] != PREDICATE]


def score_arguments(
    gold: Sequence[Sequence[str]], predicted: Sequence[Sequence[str]]
) -> dict[str, float]:
    """Precision, recall and F1 in percent of propositions' labels, and the F1 of each role."""
    return score_spans(
        [read_arguments(labels) for labels in gold],
        [read_arguments(labels) for labels in predicted],
    )
