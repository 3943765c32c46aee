"""Labels of tokens as spans, in every scheme there is, and how spans are scored.

In: labels such as B-PER, I-PER, O. Out: spans (start, stop, kind), and back. Labels are read as
CoNLL's scorer reads them, so that IOB1, IOB2, BIOES and BIOUL need not be told apart: a span starts
where a label says so, or where nothing of its kind was going on.
"""

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from typing import Literal

Span = tuple[int, int, str]  # first token, the one after the last, kind
AnySpan = tuple[*tuple[Hashable, ...], str]  # wherever it is, and its kind
Scheme = Literal["iob1", "iob2", "bioes"]

OUTSIDE = "O"
STARTS, SINGLES, ENDS = "B", "SU", "EL"  # BIOUL has U and L where BIOES has S and E
PREFIXES = "BIESUL"


def split_label(label: str) -> tuple[str, str]:
    """A label's prefix and kind: ("B", "PER"); ("O", "") outside."""
    prefix, _, kind = label.partition("-")
    return prefix, kind


def is_span_label(label: str) -> bool:
    """Whether a label can be read as part of a span, or outside of any."""
    prefix, kind = split_label(label)
    return label == OUTSIDE or (prefix in PREFIXES and len(prefix) == 1 and kind != "")


def read_spans(labels: Sequence[str]) -> list[Span]:
    """The spans of a sentence."""
    spans: list[Span] = []
    start, open_kind = 0, ""
    for place, label in enumerate(labels):
        prefix, kind = split_label(label)
        if open_kind and (kind != open_kind or prefix in STARTS + SINGLES):
            spans.append((start, place, open_kind))
            open_kind = ""
        if kind and not open_kind:
            start, open_kind = place, kind
        if open_kind and prefix in SINGLES + ENDS:
            spans.append((start, place + 1, open_kind))
            open_kind = ""
    return [*spans, (start, len(labels), open_kind)] if open_kind else spans


def find_breach(labels: Sequence[str], scheme: Scheme) -> int | None:
    """The first place whose label the scheme does not allow there."""
    may_follow = MAY_FOLLOW[scheme]
    for place, (before, after) in enumerate(zip([None, *labels], [*labels, None], strict=True)):
        if not may_follow(before, after):
            return min(place, len(labels) - 1)
    return None


def write_iob2(spans: Iterable[Span], n_tokens: int) -> list[str]:
    """B at the start of every span, I in the rest of it."""
    labels = [OUTSIDE] * n_tokens
    for start, stop, kind in spans:
        labels[start:stop] = [f"B-{kind}"] + [f"I-{kind}"] * (stop - start - 1)
    return labels


def write_bioes(spans: Iterable[Span], n_tokens: int) -> list[str]:
    """The labels that say most: S alone, else B, I, ..., E."""
    labels = [OUTSIDE] * n_tokens
    for start, stop, kind in spans:
        inner = [f"I-{kind}"] * (stop - start - 2)
        is_single = stop - start == 1
        labels[start:stop] = [f"S-{kind}"] if is_single else [f"B-{kind}", *inner, f"E-{kind}"]
    return labels


def may_follow_bioes(before: str | None, after: str | None) -> bool:
    """Whether a label may come after another in BIOES; None is what is before and after all."""
    prefix_before, kind_before = split_label(before or OUTSIDE)
    prefix_after, kind_after = split_label(after or OUTSIDE)
    if prefix_before in "BI":  # something is open: it goes on
        return prefix_after in "IEL" and kind_before == kind_after
    return prefix_after in "OBSU"


def may_follow_iob2(before: str | None, after: str | None) -> bool:
    """The same for IOB2: I goes on with its own kind."""
    prefix, kind = split_label(after or OUTSIDE)
    return prefix in "OB" or (prefix == "I" and kind == split_label(before or OUTSIDE)[1])


def may_follow_iob1(before: str | None, after: str | None) -> bool:
    """The same for IOB1: B is only where a span of the same kind ends."""
    prefix, kind = split_label(after or OUTSIDE)
    return prefix in "OI" or (prefix == "B" and kind == split_label(before or OUTSIDE)[1])


MAY_FOLLOW = {"iob1": may_follow_iob1, "iob2": may_follow_iob2, "bioes": may_follow_bioes}


def score_spans(
    gold: Sequence[Iterable[AnySpan]], predicted: Sequence[Iterable[AnySpan]]
) -> dict[str, float]:
    """Precision, recall and F1 in percent, of all spans and the F1 of each kind."""
    n_gold: Counter[str] = Counter()
    n_predicted: Counter[str] = Counter()
    n_right: Counter[str] = Counter()
    for right, found in zip(gold, predicted, strict=True):
        n_gold.update(kind for *_, kind in right)
        n_predicted.update(kind for *_, kind in found)
        n_right.update(kind for *_, kind in set(right) & set(found))
    totals = (n_right.total(), n_predicted.total(), n_gold.total())
    scores = {
        "f1": f1(*totals),
        "precision": percent(totals[0], totals[1]),
        "recall": percent(totals[0], totals[2]),
    }
    kinds = sorted(n_gold.keys() | n_predicted.keys())
    return scores | {f"f1_{k}": f1(n_right[k], n_predicted[k], n_gold[k]) for k in kinds}


def f1(n_right: int, n_predicted: int, n_gold: int) -> float:
    """The harmonic mean of precision and recall, in percent; zero where nothing is right."""
    return percent(2 * n_right, n_predicted + n_gold)


def percent(part: float, whole: float) -> float:
    """A share in percent; zero of nothing."""
    return 100 * part / whole if whole else 0.0
