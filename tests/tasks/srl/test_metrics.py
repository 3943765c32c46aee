"""Arguments against cases counted by hand, as srl-eval.pl counts them."""

import pytest

from elmo.tasks.srl.metrics import read_arguments, score_arguments


def labels(text):
    return text.split()


def test_a_continued_argument_is_one_argument():
    found = read_arguments(labels("B-ARG1 I-ARG1 O B-ARG0 B-V B-C-ARG1 O B-C-ARG1"))
    assert found == [(((0, 2), (5, 6), (7, 8)), "ARG1"), (((3, 4),), "ARG0")]


def test_a_continuation_belongs_to_the_last_argument_of_its_role():
    found = read_arguments(labels("B-ARG1 B-ARG1 B-V B-C-ARG1"))
    assert found == [(((0, 1),), "ARG1"), (((1, 2), (3, 4)), "ARG1")]


def test_a_continuation_of_nothing_is_an_argument_and_can_be_continued():
    found = read_arguments(labels("B-C-ARG2 B-V B-C-ARG2"))
    assert found == [(((0, 1), (2, 3)), "ARG2")]


def test_the_predicate_and_its_pieces_do_not_count():
    assert read_arguments(labels("B-V O B-C-V")) == []


def test_a_reference_is_an_argument_of_its_own():
    found = read_arguments(labels("B-ARG0 B-R-ARG0 B-V"))
    assert found == [(((0, 1),), "ARG0"), (((1, 2),), "R-ARG0")]


@pytest.mark.parametrize(
    ("gold", "predicted", "n_right", "n_predicted", "n_gold"),
    [
        ("B-ARG0 B-V B-ARG1 I-ARG1", "B-ARG0 B-V B-ARG1 I-ARG1", 2, 2, 2),
        ("B-ARG0 B-V B-ARG1 I-ARG1", "B-ARG0 B-V B-ARG1 O", 1, 2, 2),
        ("B-ARG0 B-V B-ARG1 I-ARG1", "B-ARG1 B-V B-ARG1 I-ARG1", 1, 2, 2),
        ("B-ARG0 B-V B-ARG1 I-ARG1", "B-ARG0 O B-ARG1 I-ARG1", 2, 2, 2),
        # Half of a discontinuous argument is one false positive and one false negative.
        ("B-ARG1 O B-V B-C-ARG1", "B-ARG1 O B-V O", 0, 1, 1),
        ("B-ARG1 O B-V B-C-ARG1", "B-ARG1 O B-V B-C-ARG1", 1, 1, 1),
        ("B-ARG1 O B-V B-C-ARG1", "B-ARG1 O B-V B-ARG1", 0, 2, 1),
        ("B-ARG1 O B-V B-C-ARG1 B-C-ARG1", "B-ARG1 O B-V B-C-ARG1 I-C-ARG1", 0, 1, 1),
        # A continuation of nothing counts as an argument of its role.
        ("O B-V B-ARG1", "O B-V B-C-ARG1", 1, 1, 1),
        ("B-ARG0 B-R-ARG0 B-V", "B-ARG0 B-ARG0 B-V", 1, 2, 2),
        ("O B-V O", "O B-V O", 0, 0, 0),
    ],
)
def test_scores_are_those_counted_by_hand(gold, predicted, n_right, n_predicted, n_gold):
    # Scored with another proposition, whose only argument is found.
    scores = score_arguments(
        [labels(gold), ["B-ARG0", "B-V"]], [labels(predicted), ["B-ARG0", "B-V"]]
    )
    assert scores["precision"] == pytest.approx(100 * (n_right + 1) / (n_predicted + 1))
    assert scores["recall"] == pytest.approx(100 * (n_right + 1) / (n_gold + 1))
    assert scores["f1"] == pytest.approx(200 * (n_right + 1) / (n_predicted + n_gold + 2))
