"""Answers in words, compared as SQuAD 1.1's own script (evaluate-v1.1.py) compares them.

In: the text of an answer and those that people gave. Out: whether it is one of them, and how many
words it shares with the nearest (F1), both after small letters, without punctuation and articles.
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

from elmo.tasks.spans import f1

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalise(answer: str) -> list[str]:
    """The words of an answer that count."""
    bare = answer.lower().translate(_WITHOUT_PUNCTUATION)
    return _ARTICLES.sub(" ", bare).split()


def is_same(answer: str, reference: str) -> float:
    """One if both have the same words in the same order, else zero."""
    return float(normalise(answer) == normalise(reference))


def share_words(answer: str, reference: str) -> float:
    """F1 of the words, from zero to one; zero where either has none."""
    found, right = Counter(normalise(answer)), Counter(normalise(reference))
    return f1((found & right).total(), found.total(), right.total()) / 100


def score_answers(answers: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Exact match and F1 in percent: of each question the best over its references."""
    pairs = list(zip(answers, references, strict=True))

    def mean(compare: Callable[[str, str], float]) -> float:
        best = (max(compare(answer, one) for one in several) for answer, several in pairs)
        return 100 * sum(best) / max(len(pairs), 1)

    return {"f1": mean(share_words), "exact_match": mean(is_same)}
