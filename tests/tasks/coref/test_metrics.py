"""Coreference scores, compared with published and hand-computed values."""

import numpy as np
import pytest

from elmo.tasks.coref.metrics import (
    b_cubed,
    ceaf_phi4,
    mentions,
    muc,
    precision_recall_f1,
    score_clusters,
)


def clusters(text):
    """Read words as clusters and their letters as mentions."""
    return [frozenset(word) for word in text.split()]


def measured(measure, right, found):
    precision, recall, _ = precision_recall_f1(measure, [(clusters(right), clusters(found))])
    return recall / 100, precision / 100


# (recall, precision) of each measure.
CASES = [
    # Pradhan et al. (2014), "Scoring coreference partitions of predicted mentions", its example.
    (
        "abc defg",
        "ab cd fghi",
        (2 / 5, 2 / 5),
        ((4 / 3 + 1 / 3 + 1 / 4 + 1) / 7, 4 / 8),
        (1.3 / 2, 1.3 / 3),
    ),
    # Test cases A1 to A3 of the reference scorer.
    ("a bc def", "a bc def", (1, 1), (1, 1), (1, 1)),
    ("a bc def", "a de", (1 / 3, 1), ((7 / 3) / 6, 1), (0.6, 0.9)),
    (
        "a bc def",
        "a bcx defy z",
        (1, 3 / 5),
        (1, (4 + 7 / 12) / 9),
        (0.885714, 0.664286),
    ),
    # Bagga & Baldwin (1998): joining two large entities is worse than a large and a small one,
    # which MUC cannot tell.
    ("abcde fg hijkl", "abcde fghijkl", (1, 9 / 10), (1, 0.761905), (11 / 18, 11 / 12)),
    ("abcde fg hijkl", "abcdehijkl fg", (1, 9 / 10), (1, 7 / 12), (5 / 9, 5 / 6)),
    # Nothing in common, and nothing found.
    ("ab", "cd", (0, 0), (0, 0), (0, 0)),
    ("ab", "", (0, 0), (0, 0), (0, 0)),
]


@pytest.mark.parametrize(("right", "found", "by_muc", "by_b3", "by_ceaf"), CASES)
def test_published_and_hand_computed_scores(right, found, by_muc, by_b3, by_ceaf):
    assert measured(muc, right, found) == pytest.approx(by_muc, abs=1e-5)
    assert measured(b_cubed, right, found) == pytest.approx(by_b3, abs=1e-5)
    assert measured(ceaf_phi4, right, found) == pytest.approx(by_ceaf, abs=1e-5)


def test_documents_are_summed_before_dividing():
    documents = [(clusters("abcd"), clusters("ab")), (clusters("ab"), clusters("ab"))]
    precision, recall, f1 = precision_recall_f1(muc, documents)
    assert (precision, recall) == (100, pytest.approx(100 * 2 / 4))
    assert f1 == pytest.approx(200 / 3)


def test_the_score_is_the_mean_of_the_three_f1():
    scores = score_clusters([(clusters("abc defg"), clusters("ab cd fghi"))])
    names = ("muc_f1", "b3_f1", "ceaf_f1")
    assert scores["f1"] == pytest.approx(sum(scores[name] for name in names) / 3)
    assert scores["muc_f1"] == pytest.approx(40)
    assert scores["ceaf_f1"] == pytest.approx(52)
    assert scores["mention_f1"] == pytest.approx(100 * 2 * 6 / (7 + 8))


@pytest.mark.parametrize("seed", range(5))
def test_precision_is_recall_the_other_way_round_and_alike_is_perfect(seed):
    random = np.random.default_rng(seed)
    partitions = []
    for _ in range(2):
        numbers = random.integers(0, 4, 12)
        groups = [frozenset(np.flatnonzero(numbers == k).tolist()) for k in range(4)]
        partitions.append([group for group in groups if group])
    one, other = partitions
    for measure in (muc, b_cubed, ceaf_phi4, mentions):
        precision, recall, f1 = precision_recall_f1(measure, [(one, other)])
        assert precision_recall_f1(measure, [(other, one)]) == pytest.approx(
            (recall, precision, f1)
        )
        assert 0 <= f1 <= 100 + 1e-9
        assert precision_recall_f1(measure, [(one, list(reversed(one)))])[2] == pytest.approx(100)
