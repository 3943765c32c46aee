"""Span labels: IOB1, IOB2, BIOES and BIOUL.

In: labels such as B-PER, I-PER, O. Out: spans (start, stop, kind), and back. Reading follows
CoNLL's scorer (conlleval), so the scheme need not be known: a span starts at a label that says so,
or where no span of its kind is open.
"""

from collections.abc import Iterable, Sequence
from typing import Literal

Span = tuple[int, int, str]  # first token, the one after the last, kind
Scheme = Literal["iob1", "iob2", "bioes"]

OUTSIDE = "O"
STARTS, SINGLES, ENDS = "B", "SU", "EL"  # BIOUL has U and L where BIOES has S and E
PREFIXES = "BIESUL"


def split_label(label: str) -> tuple[str, str]:
    """A label's prefix and kind: ("B", "PER"); ("O", "") outside."""
    prefix, _, kind = label.partition("-")
    return prefix, kind


def is_span_label(label: str) -> bool:
    """Whether a label is O or a known prefix and a kind."""
    prefix, kind = split_label(label)
    return label == OUTSIDE or (prefix in PREFIXES and len(prefix) == 1 and kind != "")


def read_spans(labels: Sequence[str]) -> list[Span]:
    """The spans of a sentence."""
    spans: list[Span] = []
    start, open_kind = 0, ""
    for position, label in enumerate(labels):
        prefix, kind = split_label(label)
        if open_kind and (kind != open_kind or prefix in STARTS + SINGLES):
            spans.append((start, position, open_kind))
            open_kind = ""
        if kind and not open_kind:
            start, open_kind = position, kind
        if open_kind and prefix in SINGLES + ENDS:
            spans.append((start, position + 1, open_kind))
            open_kind = ""
    return [*spans, (start, len(labels), open_kind)] if open_kind else spans


def write_iob2(spans: Iterable[Span], n_tokens: int) -> list[str]:
    """B at the start of each span, I in the rest of it."""
    labels = [OUTSIDE] * n_tokens
    for start, stop, kind in spans:
        labels[start:stop] = [f"B-{kind}"] + [f"I-{kind}"] * (stop - start - 1)
    return labels


def write_bioes(spans: Iterable[Span], n_tokens: int) -> list[str]:
    """S for a span of one token, else B, I, ..., E."""
    labels = [OUTSIDE] * n_tokens
    for start, stop, kind in spans:
        inner = [f"I-{kind}"] * (stop - start - 2)
        is_single = stop - start == 1
        labels[start:stop] = [f"S-{kind}"] if is_single else [f"B-{kind}", *inner, f"E-{kind}"]
    return labels


def may_follow_bioes(before: str | None, after: str | None) -> bool:
    """Whether BIOES allows two labels in sequence; None is the start or end of a sentence."""
    prefix_before, kind_before = split_label(before or OUTSIDE)
    prefix_after, kind_after = split_label(after or OUTSIDE)
    if prefix_before in "BI":  # a span is open
        return prefix_after in "IEL" and kind_before == kind_after
    return prefix_after in "OBSU"


def may_follow_iob2(before: str | None, after: str | None) -> bool:
    """Whether IOB2 allows two labels in sequence: I only inside a span of its kind."""
    prefix, kind = split_label(after or OUTSIDE)
    return prefix in "OB" or (prefix == "I" and kind == split_label(before or OUTSIDE)[1])


def may_follow_iob1(before: str | None, after: str | None) -> bool:
    """Whether IOB1 allows two labels in sequence: B only directly after a span of its kind."""
    prefix, kind = split_label(after or OUTSIDE)
    return prefix in "OI" or (prefix == "B" and kind == split_label(before or OUTSIDE)[1])


MAY_FOLLOW = {"iob1": may_follow_iob1, "iob2": may_follow_iob2, "bioes": may_follow_bioes}


def find_violation(labels: Sequence[str], scheme: Scheme) -> int | None:
    """The position of the first label that the scheme does not allow, or None."""
    may_follow = MAY_FOLLOW[scheme]
    for position, (before, after) in enumerate(zip([None, *labels], [*labels, None], strict=True)):
        if not may_follow(before, after):
            return min(position, len(labels) - 1)
    return None
