"""Files with a token a line and its annotations in columns, as the CoNLL shared tasks have them.

In: a file (plain, .gz, .xz) with tabs or spaces between columns and a blank line after a sentence;
or CoNLL-U. Out: sentences of rows, each with its line number for whoever finds it wrong.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from elmo.errors import DataError
from elmo.files.text_files import read_lines

Format = Literal["columns", "conllu"]

DOCUMENT_START = "-DOCSTART-"


@dataclass(frozen=True, slots=True)
class Row:
    """A token with its annotations."""

    fields: list[str]
    line: int


def read_columns(path: Path, file_format: Format | None = None) -> Iterator[list[Row]]:
    """The sentences of a file; without a format, the file's name says whether it is CoNLL-U."""
    is_conllu = file_format == "conllu" or (file_format is None and ".conllu" in path.suffixes)
    sentence: list[Row] = []
    for number, line in enumerate(read_lines(path), start=1):
        if not line:
            if sentence:
                yield sentence
            sentence = []
        elif is_conllu:
            row = _conllu_row(line, number, path)
            sentence.extend([] if row is None else [row])
        elif not line.startswith(DOCUMENT_START):
            sentence.append(Row(line.split("\t") if "\t" in line else line.split(), number))
    if sentence:
        yield sentence


def take(row: Row, column: int | None, path: Path) -> str:
    """The field of a row in a column, counted from 0; the last without a number."""
    n_fields = len(row.fields)
    if column is None and n_fields < 2:
        raise DataError(
            f"{path}:{row.line}: 1 column, expected at least a word and its label; mend the line"
        )
    if column is not None and column >= n_fields:
        raise DataError(
            f"{path}:{row.line}: {n_fields} columns, expected at least {column + 1}, to read "
            f"column {column}; mend the line, or say which column (counted from 0)"
        )
    field = row.fields[n_fields - 1 if column is None else column].strip()
    if not field:
        raise DataError(
            f"{path}:{row.line}: column {n_fields - 1 if column is None else column} is empty, "
            "expected a word or label; mend the line"
        )
    return field


def _conllu_row(line: str, number: int, path: Path) -> Row | None:
    """A word's row; nothing for comments, the surface of several words, and empty nodes."""
    if line.startswith("#"):
        return None
    fields = line.split("\t")
    if len(fields) != 10:
        raise DataError(
            f"{path}:{number}: {len(fields)} columns, expected the 10 of CoNLL-U, with tabs "
            "between them; mend the line"
        )
    return Row(fields, number) if fields[0].isdecimal() else None
