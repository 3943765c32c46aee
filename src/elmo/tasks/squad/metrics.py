"""The metrics of SQuAD 1.1: exact match and F1 as in its script (evaluate-v1.1.py).

In: predicted answers, and the reference answers of each question. Out: scores in percent, of the
best reference of each question. Answers are compared in lower case, without punctuation and
articles.
"""

import re
import string
from collections import Counter
from collections.abc import Callable, Sequence

from elmo.tasks.metrics import f1

_ARTICLES = re.compile(r"\b(a|an|the)\b")
_WITHOUT_PUNCTUATION = str.maketrans("", "", string.punctuation)


def normalize(answer: str) -> list[str]:
    """The words of an answer, in lower case, without punctuation and articles."""
    bare = answer.lower().translate(_WITHOUT_PUNCTUATION)
    return _ARTICLES.sub(" ", bare).split()


def exact_match(answer: str, reference: str) -> float:
    """1 if both have the same words in the same order, else 0."""
    return float(normalize(answer) == normalize(reference))


def word_f1(answer: str, reference: str) -> float:
    """F1 of the words, from 0 to 1; 0 where either has none."""
    found, right = Counter(normalize(answer)), Counter(normalize(reference))
    return f1((found & right).total(), found.total(), right.total()) / 100


def score_answers(answers: Sequence[str], references: Sequence[Sequence[str]]) -> dict[str, float]:
    """Exact match and F1, each of the best reference of a question."""
    pairs = list(zip(answers, references, strict=True))

    def mean(compare: Callable[[str, str], float]) -> float:
        best = (max(compare(answer, one) for one in several) for answer, several in pairs)
        return 100 * sum(best) / max(len(pairs), 1)

    return {"f1": mean(word_f1), "exact_match": mean(exact_match)}
