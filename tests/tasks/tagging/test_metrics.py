"""Scores of spans, counted by hand."""

import pytest

from elmo.tasks.spans import read_spans
from elmo.tasks.tagging.metrics import score_labels, score_spans


def test_scores_are_those_counted_by_hand():
    gold = [[(0, 2, "A"), (3, 4, "B")], [(0, 1, "A")], []]
    found = [[(0, 2, "A"), (3, 4, "A")], [], [(1, 2, "B")]]
    scores = score_spans(gold, found)
    # One of three predicted spans is correct, and one of three gold spans is found.
    assert scores["precision"] == pytest.approx(100 / 3)
    assert scores["recall"] == pytest.approx(100 / 3)
    assert scores["f1"] == pytest.approx(100 / 3)
    assert scores["f1_A"] == pytest.approx(50)
    assert scores["f1_B"] == 0


def test_nothing_found_scores_zero_and_all_found_a_hundred():
    gold = [[(0, 1, "A")]]
    assert score_spans(gold, [[]])["f1"] == 0
    assert score_spans([[]], [[]])["f1"] == 0
    assert score_spans(gold, gold) == {"f1": 100, "precision": 100, "recall": 100, "f1_A": 100}


def test_a_span_is_right_only_if_both_its_ends_are():
    gold = ["B-NP", "I-NP", "O", "B-VP", "B-NP", "I-NP", "I-NP", "O"]
    found = ["B-NP", "I-NP", "O", "B-VP", "B-NP", "I-NP", "B-NP", "O"]
    scores = score_spans([read_spans(gold)], [read_spans(found)])
    assert (scores["precision"], scores["recall"]) == (50.0, pytest.approx(200 / 3))


def test_accuracy_is_of_all_tokens():
    gold, found = [["NOUN", "VERB"], ["NOUN"]], [["NOUN", "NOUN"], ["NOUN"]]
    assert score_labels(gold, found, has_spans=False) == {"accuracy": pytest.approx(200 / 3)}
    scores = score_labels([["B-A", "O"]], [["B-A", "B-A"]], has_spans=True)
    assert (scores["accuracy"], scores["recall"], scores["precision"]) == (50, 100, 50)
