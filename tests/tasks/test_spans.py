"""Span labels in every scheme."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.tasks.spans import (
    find_violation,
    is_span_label,
    read_spans,
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
def test_spans_survive_a_round_trip_through_valid_labels(drawn):
    spans, n_tokens = drawn
    for write, scheme in ((write_iob2, "iob2"), (write_bioes, "bioes")):
        labels = write(spans, n_tokens)
        assert read_spans(labels) == spans
        assert find_violation(labels, scheme) is None


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
def test_a_violation_of_a_scheme_is_found_at_its_position(labels, scheme, place):
    assert find_violation(labels.split(), scheme) == place


@pytest.mark.parametrize("label", ["O", "B-A", "U-x-y"])
def test_span_labels_are_known(label):
    assert is_span_label(label)


@pytest.mark.parametrize("label", ["NOUN", "B-", "BI-A", "-A", "o", "X-A"])
def test_other_labels_are_not_span_labels(label):
    assert not is_span_label(label)
