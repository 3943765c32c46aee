"""GAP, gendered ambiguous pronouns (Webster et al. 2018): its data and its metrics.

In: GAP's table, one passage per line, with a pronoun and two names that it may refer to; predicted
clusters. Out: passages as documents; scores equal to those of GAP's own scorer.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from elmo.errors import DataError
from elmo.files.text_files import read_raw_lines
from elmo.tasks.coref.data import Clusters, Document, Pronoun, Span
from elmo.tasks.metrics import f1, percent
from elmo.text.tokenizer import split_text

GAP_COLUMNS = (
    *("ID", "Text", "Pronoun", "Pronoun-offset", "A", "A-offset", "A-coref"),
    *("B", "B-offset", "B-coref", "URL"),
)
MASCULINE = ("he", "him", "his")
POSSESSIVES = ("'s", "\u2019s", "'", "\u2019")
# Words that may precede a name in a mention of the same person.
TITLE = re.compile(
    r"(mrs?|ms|miss|dr|doctor|prof|professor|sir|dame|lord|lady|count|countess|duke|duchess|king"
    r"|queen|prince|princess|emperor|empress|saint|st|pope|bishop|archbishop|cardinal|reverend|rev"
    r"|father|mother|brother|sister|aunt|uncle|president|chancellor|minister|senator|governor|mayor"
    r"|judge|justice|general|colonel|major|captain|lieutenant|sergeant|admiral|commander)\.?",
    re.IGNORECASE,
)


@dataclass(frozen=True)
class Decision:
    """Whether a pronoun refers to a name, by annotation and by prediction."""

    is_coreferent: bool
    is_predicted: bool
    is_masculine: bool


def read_gap(path: Path) -> list[Document]:
    """The passages of a GAP file, each with its pronoun and two names."""
    rows = [line.rstrip("\r\n").split("\t") for line in read_raw_lines(path)]
    if not rows or tuple(rows[0]) != GAP_COLUMNS:
        found = "nothing" if not rows else "\t".join(rows[0])[:60]
        raise DataError(f"{path}:1: {found!r}, expected GAP's header ({' '.join(GAP_COLUMNS)})")
    if len(rows) == 1:
        raise DataError(f"{path}: no passage after the header")
    return [_read_passage(row, f"{path}:{line}") for line, row in enumerate(rows[1:], start=2)]


def _read_passage(row: Sequence[str], where: str) -> Document:
    if len(row) != len(GAP_COLUMNS):
        raise DataError(
            f"{where}: {len(row)} columns, expected {len(GAP_COLUMNS)} separated by tabs"
        )
    fields = dict(zip(GAP_COLUMNS, row, strict=True))
    sentences = split_text(fields["Text"])
    offsets = [offset for sentence in sentences for offset in sentence.offsets]
    spans = [_find(fields, name, offsets, where) for name in ("Pronoun", "A", "B")]
    refers = [fields[name].upper() for name in ("A-coref", "B-coref")]
    if not set(refers) <= {"TRUE", "FALSE"}:
        raise DataError(f"{where}: {refers}, expected TRUE or FALSE for each")
    pronoun = Pronoun(
        spans[0],
        (spans[1], spans[2]),
        (refers[0] == "TRUE", refers[1] == "TRUE"),
        fields["Pronoun"].lower() in MASCULINE,
    )
    tokens = tuple(tuple(sentence.tokens) for sentence in sentences)
    return Document(fields["ID"], tokens, pronoun=pronoun)


def _find(
    fields: dict[str, str], name: str, offsets: Sequence[tuple[int, int]], where: str
) -> Span:
    """The token span of a name or pronoun."""
    offset, text = fields[f"{name}-offset"], fields[name]
    start = int(offset) if offset.isdecimal() else -1
    if start < 0 or not text.strip() or fields["Text"][start : start + len(text)] != text:
        raise DataError(
            f"{where}: {name} is {text!r} at {offset}, where the text has something else; "
            "expected the offset of its first character"
        )
    end = start + len(text)
    positions = [k for k, (left, right) in enumerate(offsets) if left < end and right > start]
    return positions[0], positions[-1] + 1


def decide(example: Document, predicted: Clusters) -> Iterator[Decision]:
    """The decisions of predicted clusters for the two names of a passage; none for other data."""
    if example.pronoun is None:
        return
    pronoun, tokens = example.pronoun, example.tokens
    cluster = next((spans for spans in predicted if pronoun.span in spans), [])
    others = [span for span in cluster if span != pronoun.span]
    for name, is_coreferent in zip(pronoun.names, pronoun.refers, strict=True):
        is_predicted = any(is_mention_of(span, name, tokens) for span in others)
        yield Decision(is_coreferent, is_predicted, pronoun.is_masculine)


def is_mention_of(mention: Span, name: Span, tokens: Sequence[str]) -> bool:
    """Whether a mention is a name, with or without titles before it and a possessive after it.

    Other words before the name make it another mention: "the father of Ann Lee" is not Ann Lee.
    """
    start, stop = mention
    if tokens[stop - 1] in POSSESSIVES:
        stop -= 1
    has_only_titles = all(TITLE.fullmatch(token) for token in tokens[start : name[0]])
    return stop == name[1] and start <= name[0] and has_only_titles


def score_decisions(decisions: Sequence[Decision]) -> dict[str, float]:
    """F1 over all names and by gender, and the feminine/masculine ratio (bias), as in GAP's scorer.

    Each name is a separate decision, so a false positive lowers precision.
    """
    n_correct, n_predicted, n_gold = _count(decisions)
    feminine = f1(*_count([decision for decision in decisions if not decision.is_masculine]))
    masculine = f1(*_count([decision for decision in decisions if decision.is_masculine]))
    n_equal = sum(decision.is_predicted == decision.is_coreferent for decision in decisions)
    return {
        "f1": f1(n_correct, n_predicted, n_gold),
        "precision": percent(n_correct, n_predicted),
        "recall": percent(n_correct, n_gold),
        "accuracy": percent(n_equal, len(decisions)),
        "f1_masculine": masculine,
        "f1_feminine": feminine,
        "bias": feminine / masculine if masculine else 0.0,
    }


def _count(decisions: Sequence[Decision]) -> tuple[int, int, int]:
    """Names that are predicted and coreferent, predicted, and coreferent."""
    return (
        sum(decision.is_predicted and decision.is_coreferent for decision in decisions),
        sum(decision.is_predicted for decision in decisions),
        sum(decision.is_coreferent for decision in decisions),
    )
