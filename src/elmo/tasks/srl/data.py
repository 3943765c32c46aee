"""PropBank predicates and arguments in the columns of the CoNLL shared tasks of 2005 and 2012.

In: a file (plain, .gz, .xz) with one token per line; after the columns of words and their analyses,
one column per predicate of the sentence with its arguments as `(ARG0*`, `*`, `*)` and the predicate
itself as `(V*)`. Out: a `Proposition` for each predicate, with IOB2 labels.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from elmo.errors import DataError
from elmo.tasks.spans import Span, write_iob2
from elmo.tasks.tagging.data import Row, get_field, read_columns

PREDICATE = "V"

_FIELD = re.compile(r"(?:\((?P<role>[^()*]+))?\*(?P<end>[^()*]*\))?")
_DOCUMENT_LINES = ("#begin", "#end")


@dataclass(frozen=True, slots=True)
class Proposition:
    """An example: a sentence and one of its predicates."""

    tokens: tuple[str, ...]
    predicate: int | None = None  # absent: the model finds the predicates
    labels: tuple[str, ...] | None = None  # absent in raw text
    predicates: tuple[int, ...] = ()  # all known predicates of the sentence


def read_propositions(
    path: Path, word_column: int, first_column: int, n_last_columns: int
) -> Iterator[Proposition]:
    """The propositions of a file; its first and last columns do not belong to predicates."""
    for everything in read_columns(path, "columns"):
        rows = [row for row in everything if row.fields[0] not in _DOCUMENT_LINES]
        if not rows:
            continue
        tokens = tuple(get_field(row, word_column, path) for row in rows)
        labels = _read_labels(rows, first_column, n_last_columns, path)
        predicates = tuple(sorted(column.index(f"B-{PREDICATE}") for column in labels))
        for column in labels:
            predicate = column.index(f"B-{PREDICATE}")
            yield Proposition(tokens, predicate, tuple(column), predicates)


def _read_labels(
    rows: Sequence[Row], first_column: int, n_last_columns: int, path: Path
) -> list[list[str]]:
    """The IOB2 labels of each predicate of a sentence."""
    n_columns = len(rows[0].fields)
    if n_columns < first_column + n_last_columns:
        raise DataError(
            f"{path}:{rows[0].line}: {n_columns} columns, expected {first_column + n_last_columns} "
            "and one for each predicate; see data.first_column"
        )
    for row in rows:
        if len(row.fields) != n_columns:
            raise DataError(
                f"{path}:{row.line}: {len(row.fields)} columns, expected {n_columns} as in the "
                "first line of the sentence"
            )
    return [
        write_iob2(_read_column(rows, column, path), len(rows))
        for column in range(first_column, n_columns - n_last_columns)
    ]


def _read_column(rows: Sequence[Row], column: int, path: Path) -> list[Span]:
    """The spans of one predicate: its arguments and itself."""
    spans: list[Span] = []
    start, role = 0, ""
    for position, row in enumerate(rows):
        field = row.fields[column]
        found = _FIELD.fullmatch(field)
        opens = found is not None and found["role"] is not None
        closes = found is not None and found["end"] is not None
        if found is None or (opens and role) or (closes and not (opens or role)):
            state = f"after an open ({role}" if role else "where nothing is open"
            raise DataError(
                f"{path}:{row.line}: {field!r} in column {column} {state}; expected arguments such "
                "as (ARG0*, * and *), not nested; see data.first_column"
            )
        if opens:
            start, role = position, found["role"]
        if closes:
            spans.append((start, position + 1, role))
            role = ""
    if role or not any(kind == PREDICATE for *_, kind in spans):
        raise DataError(
            f"{path}:{rows[-1].line}: column {column} of the sentence that ends here has "
            f"{f'an open ({role}' if role else f'no ({PREDICATE}*)'}; expected its predicate as "
            f"({PREDICATE}*) and all arguments closed"
        )
    return spans
