"""Predicates and their arguments in columns, as the CoNLL shared tasks of 2005 and 2012 have them.

In: a token a line; after the columns of words and their analyses, one column for each predicate of
the sentence, in which its arguments stand as `(ARG0*`, `*`, `*)`, and itself as `(V*)`. Out: a
`Proposition` for each predicate, with IOB2 labels. A file is plain, .gz or .xz.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from elmo.errors import DataError
from elmo.tasks.spans import Span, write_iob2
from elmo.tasks.tagging.data import Row, read_columns, take

PREDICATE = "V"

_FIELD = re.compile(r"(?:\((?P<role>[^()*]+))?\*(?P<end>[^()*]*\))?")
_DOCUMENT_LINES = ("#begin", "#end")


@dataclass(frozen=True, slots=True)
class Proposition:
    """A sentence and one of its predicates."""

    tokens: tuple[str, ...]
    predicate: int | None = None  # absent: whatever the model takes for predicates
    labels: tuple[str, ...] | None = None  # absent where nobody gave them
    predicates: tuple[int, ...] = ()  # all that are known in the sentence


def read_propositions(
    path: Path, word_column: int, first_column: int, n_last_columns: int
) -> Iterator[Proposition]:
    """The propositions of a file; its first and last columns say other things."""
    for everything in read_columns(path, "columns"):
        rows = [row for row in everything if row.fields[0] not in _DOCUMENT_LINES]
        if not rows:
            continue
        tokens = tuple(take(row, word_column, path) for row in rows)
        labels = _read_labels(rows, first_column, n_last_columns, path)
        predicates = tuple(sorted(column.index(f"B-{PREDICATE}") for column in labels))
        for column in labels:
            predicate = column.index(f"B-{PREDICATE}")
            yield Proposition(tokens, predicate, tuple(column), predicates)


def _read_labels(
    rows: Sequence[Row], first_column: int, n_last_columns: int, path: Path
) -> list[list[str]]:
    """The labels of each predicate of a sentence."""
    n_columns = len(rows[0].fields)
    if n_columns < first_column + n_last_columns:
        raise DataError(
            f"{path}:{rows[0].line}: {n_columns} columns, expected {first_column + n_last_columns} "
            "and one for each predicate; mend the line, or set data.first_column"
        )
    for row in rows:
        if len(row.fields) != n_columns:
            raise DataError(
                f"{path}:{row.line}: {len(row.fields)} columns, expected {n_columns} as in the "
                "sentence's first line; mend the line"
            )
    return [
        write_iob2(_read_column(rows, column, path), len(rows))
        for column in range(first_column, n_columns - n_last_columns)
    ]


def _read_column(rows: Sequence[Row], column: int, path: Path) -> list[Span]:
    """The arguments of one predicate, and itself."""
    spans: list[Span] = []
    start, role = 0, ""
    for place, row in enumerate(rows):
        field = row.fields[column]
        found = _FIELD.fullmatch(field)
        opens = found is not None and found["role"] is not None
        closes = found is not None and found["end"] is not None
        if found is None or (opens and role) or (closes and not (opens or role)):
            state = f"after an open ({role}" if role else "where nothing is open"
            raise DataError(
                f"{path}:{row.line}: {field!r} in column {column} {state}; expected arguments such "
                "as (ARG0*, * and *), none inside another; mend the line, or set data.first_column"
            )
        if opens:
            start, role = place, found["role"]
        if closes:
            spans.append((start, place + 1, role))
            role = ""
    if role or not any(kind == PREDICATE for *_, kind in spans):
        raise DataError(
            f"{path}:{rows[-1].line}: column {column} of the sentence that ends here has "
            f"{f'an open ({role}' if role else f'no ({PREDICATE}*)'}; expected its predicate as "
            f"({PREDICATE}*) and all arguments closed; mend the column"
        )
    return spans
