"""Scores of answers, compared with hand-computed results of evaluate-v1.1.py."""

import pytest

from elmo.tasks.squad.metrics import normalize, score_answers


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        ("The  Cat.", ["cat"]),
        ("an apple, a day", ["apple", "day"]),
        ("A's theory", ["as", "theory"]),  # punctuation goes first, so this is no article
        ("the-end", ["theend"]),
        ("$3,000.50", ["300050"]),
        ("„Zürich“", ["„zürich“"]),  # only ASCII's punctuation
        ("The", []),
    ],
)
def test_small_letters_punctuation_articles(answer, words):
    assert normalize(answer) == words


@pytest.mark.parametrize(
    ("answer", "references", "exact_match", "f1"),
    [
        ("the Denver Broncos", ["Denver Broncos"], 100, 100),
        ("Denver", ["Denver Broncos"], 0, 200 / 3),
        # Two of its three words are among four: precision 2/3, recall 1/2.
        ("red green blue", ["red green one two"], 0, 400 / 7),
        # A repeated word counts as often as both contain it.
        ("no no no", ["no no way"], 0, 200 / 3),
        ("Denver", ["Carolina", "Denver Broncos", "the Denver."], 100, 100),
        ("Denver", ["Carolina"], 0, 0),
        ("the", ["a"], 100, 0),  # as in the script: no words equal no words, but share none
        ("", ["Denver"], 0, 0),
    ],
)
def test_scores_are_those_of_the_script(answer, references, exact_match, f1):
    scores = score_answers([answer], [references])
    assert scores == {"f1": pytest.approx(f1), "exact_match": exact_match}


def test_scores_are_means_over_questions():
    scores = score_answers(["Denver", "Rome"], [["Denver Broncos"], ["Rome", "in Rome"]])
    assert scores == {"f1": pytest.approx((200 / 3 + 100) / 2), "exact_match": 50}
