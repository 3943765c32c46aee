"""GAP: whether a pronoun refers to the one of two names, to the other, or to neither.

In: the table of Webster et al. (2018), a passage a line; the clusters that a model found in it.
Out: passages as documents; scores as GAP's own scorer counts them.
"""

import csv
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from elmo.errors import DataError
from elmo.files.text_files import read_whole_lines
from elmo.tasks.coref.data import Clusters, Document, Pronoun, Span
from elmo.tasks.spans import percent
from elmo.text.tokenizer import split_text

GAP_COLUMNS = (
    *("ID", "Text", "Pronoun", "Pronoun-offset", "A", "A-offset", "A-coref"),
    *("B", "B-offset", "B-coref", "URL"),
)
MASCULINE = ("he", "him", "his")
POSSESSIVES = ("'s", "\u2019s", "'", "\u2019")


@dataclass(frozen=True)
class Answer:
    """A name of GAP: whether the pronoun refers to it, and whether that was found."""

    is_right: bool
    is_found: bool
    is_masculine: bool


def read_gap(path: Path) -> list[Document]:
    """The passages of a GAP file, each with its pronoun and two names."""
    lines = (line.rstrip("\r\n") for line in read_whole_lines(path))
    rows = list(csv.reader(lines, delimiter="\t", quoting=csv.QUOTE_NONE))
    if not rows or tuple(rows[0]) != GAP_COLUMNS:
        found = "nothing" if not rows else "\t".join(rows[0])[:60]
        raise DataError(
            f"{path}:1: {found!r}, expected GAP's header ({' '.join(GAP_COLUMNS)}); add it, or "
            "name another file"
        )
    if len(rows) == 1:
        raise DataError(f"{path}: no passage after the header; name another file")
    return [_read_passage(row, f"{path}:{line}") for line, row in enumerate(rows[1:], start=2)]


def _read_passage(row: Sequence[str], where: str) -> Document:
    if len(row) != len(GAP_COLUMNS):
        raise DataError(
            f"{where}: {len(row)} columns, expected {len(GAP_COLUMNS)} with tabs between them; "
            "mend the line"
        )
    fields = dict(zip(GAP_COLUMNS, row, strict=True))
    sentences = split_text(fields["Text"])
    offsets = [offset for sentence in sentences for offset in sentence.offsets]
    spans = [_find(fields, name, offsets, where) for name in ("Pronoun", "A", "B")]
    refers = [fields[name].upper() for name in ("A-coref", "B-coref")]
    if not set(refers) <= {"TRUE", "FALSE"}:
        raise DataError(f"{where}: {refers}, expected TRUE or FALSE for each; mend the line")
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
    """The tokens of a piece of the text."""
    given, piece = fields[f"{name}-offset"], fields[name]
    start = int(given) if given.isdecimal() else -1
    if start < 0 or not piece.strip() or fields["Text"][start : start + len(piece)] != piece:
        raise DataError(
            f"{where}: {name} is {piece!r} at {given}, where the text has something else; "
            "expected the place of its first character; mend the line"
        )
    end = start + len(piece)
    places = [k for k, (left, right) in enumerate(offsets) if left < end and right > start]
    return places[0], places[-1] + 1


def answer(example: Document, found: Clusters) -> Iterator[Answer]:
    """What clusters say of a pronoun's two names."""
    if example.pronoun is None:
        return
    pronoun, tokens = example.pronoun, example.tokens
    cluster = next((spans for spans in found if pronoun.span in spans), [])
    others = [span for span in cluster if span != pronoun.span]
    for name, is_right in zip(pronoun.names, pronoun.refers, strict=True):
        is_found = any(_is_name(span, name, tokens) for span in others)
        yield Answer(is_right, is_found, pronoun.is_masculine)


def _is_name(mention: Span, name: Span, tokens: Sequence[str]) -> bool:
    """Whether a mention is a name, with or without a title before it and a possessive after it."""
    start, stop = mention
    if tokens[stop - 1] in POSSESSIVES:
        stop -= 1
    return stop == name[1] and start <= name[0]


def score_answers(answers: Sequence[Answer]) -> dict[str, float]:
    """F1 over all names, by gender, and their ratio, as GAP's scorer counts; share of right ones.

    Each name is a question of its own: saying yes to what is a no lowers precision.
    """
    feminine = _gap_f1([answer for answer in answers if not answer.is_masculine])
    masculine = _gap_f1([answer for answer in answers if answer.is_masculine])
    n_yes = sum(answer.is_found for answer in answers)
    n_hits = sum(answer.is_found and answer.is_right for answer in answers)
    return {
        "f1": _gap_f1(answers),
        "precision": percent(n_hits, n_yes),
        "recall": percent(n_hits, sum(answer.is_right for answer in answers)),
        "accuracy": percent(sum(a.is_found == a.is_right for a in answers), len(answers)),
        "f1_masculine": masculine,
        "f1_feminine": feminine,
        "bias": feminine / masculine if masculine else 0.0,
    }


def _gap_f1(answers: Sequence[Answer]) -> float:
    n_hits = sum(answer.is_found and answer.is_right for answer in answers)
    n_yes = sum(answer.is_found for answer in answers)
    return percent(2 * n_hits, n_yes + sum(answer.is_right for answer in answers))
