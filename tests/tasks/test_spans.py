"""Labels as spans in every scheme, and their scores."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.tasks.spans import (
    find_breach,
    is_span_label,
    read_spans,
    score_spans,
    write_bioes,
    write_iob2,
)

# The same two sentences' spans in each scheme.
SCHEMES = {
    "iob1": ["I-PER I-PER B-PER O I-LOC", "O I-PER I-LOC"],
    "iob2": ["B-PER I-PER B-PER O B-LOC", "O B-PER B-LOC"],
    "bioes": ["B-PER E-PER S-PER O S-LOC", "O S-PER S-LOC"],
    "bioul": ["B-PER L-PER U-PER O U-LOC", "O U-PER U-LOC"],
}
SPANS = [[(0, 2, "PER"), (2, 3, "PER"), (4, 5, "LOC")], [(1, 2, "PER"), (2, 3, "LOC")]]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_every_scheme_reads_as_the_same_spans(scheme):
    assert [read_spans(labels.split()) for labels in SCHEMES[scheme]] == SPANS


@pytest.mark.parametrize(
    ("labels", "spans"),
    [
        ("I-A I-A", [(0, 2, "A")]),
        ("O I-A I-B", [(1, 2, "A"), (2, 3, "B")]),
        ("B-A I-B I-B", [(0, 1, "A"), (1, 3, "B")]),
        ("B-A O I-A", [(0, 1, "A"), (2, 3, "A")]),
        ("E-A E-A", [(0, 1, "A"), (1, 2, "A")]),
        ("S-A I-A", [(0, 1, "A"), (1, 2, "A")]),
        ("O O", []),
        ("", []),
        ("B-creative-work I-creative-work", [(0, 2, "creative-work")]),
    ],
)
def test_broken_labels_are_read_as_conlls_scorer_reads_them(labels, spans):
    assert read_spans(labels.split()) == spans


@st.composite
def sentences_of_spans(draw):
    spans, place = [], 0
    for _ in range(draw(st.integers(0, 4))):
        start = place + draw(st.integers(0, 2))
        place = start + draw(st.integers(1, 3))
        spans.append((start, place, draw(st.sampled_from("AB"))))
    return spans, place + draw(st.integers(0, 2))


@given(sentences_of_spans())
def test_spans_come_back_from_labels_that_breach_nothing(drawn):
    spans, n_tokens = drawn
    for write, scheme in ((write_iob2, "iob2"), (write_bioes, "bioes")):
        labels = write(spans, n_tokens)
        assert read_spans(labels) == spans
        assert find_breach(labels, scheme) is None


@pytest.mark.parametrize(
    ("labels", "scheme", "place"),
    [
        ("O I-A", "iob2", 1),
        ("B-A I-B", "iob2", 1),
        ("B-A I-A", "iob1", 0),
        ("I-A B-A", "iob1", None),
        ("B-A O", "bioes", 1),
        ("S-A B-A", "bioes", 1),
        ("B-A L-A", "bioes", None),
    ],
)
def test_a_breach_of_a_scheme_is_found_where_it_is(labels, scheme, place):
    assert find_breach(labels.split(), scheme) == place


@pytest.mark.parametrize("label", ["O", "B-A", "U-x-y"])
def test_span_labels_are_known(label):
    assert is_span_label(label)


@pytest.mark.parametrize("label", ["NOUN", "B-", "BI-A", "-A", "o", "X-A"])
def test_other_labels_are_not_span_labels(label):
    assert not is_span_label(label)


def test_scores_are_those_counted_by_hand():
    gold = [[(0, 2, "A"), (3, 4, "B")], [(0, 1, "A")], []]
    found = [[(0, 2, "A"), (3, 4, "A")], [], [(1, 2, "B")]]
    scores = score_spans(gold, found)
    # One of three found is right, one of three that are there is found.
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
