"""Sentences with a label for each token: CoNLL columns and CoNLL-U.

In: a file (plain, .gz, .xz) with one token per line, columns separated by tabs or spaces, and a
blank line after each sentence; or CoNLL-U. Out: sentences of rows, each with its line number for
error messages; or `TaggedSentence`s.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from elmo.errors import DataError
from elmo.files.text_files import read_raw_lines
from elmo.settings import NonNegativeInt, checked
from elmo.tasks.spans import Scheme, find_violation, is_span_label, read_spans, write_iob2

ColumnFormat = Literal["columns", "conllu"]

DOCUMENT_START = "-DOCSTART-"

# Columns of CoNLL-U (universaldependencies.org/format.html).
CONLLU_WORD, CONLLU_UPOS, CONLLU_XPOS, CONLLU_HEAD = 1, 3, 4, 6
N_CONLLU_COLUMNS = 10
_WORD_ID = re.compile(r"[1-9][0-9]*")
_OTHER_ID = re.compile(r"[0-9]+[-.][0-9]+")  # multiword tokens (1-2) and empty nodes (8.1)


@dataclass(frozen=True, kw_only=True, slots=True)
@checked
class TaggingDataConfig:
    """The format of the data files."""

    format: Annotated[ColumnFormat | None, "file format; none: by the file's extension"] = None
    word_column: Annotated[
        NonNegativeInt | None, "column of the word, from 0; none: the first, in CoNLL-U the second"
    ] = None
    label_column: Annotated[
        NonNegativeInt | None, "column of the label, from 0; none: the last, in CoNLL-U UPOS"
    ] = None
    has_spans: Annotated[bool, "labels are spans: B-PER, I-PER, O"] = True
    scheme: Annotated[Scheme | None, "tag scheme that the file must follow; none: any"] = None


@dataclass(frozen=True, slots=True)
class TaggedSentence:
    """An example; labels of spans are in IOB2, and absent in raw text."""

    tokens: tuple[str, ...]
    labels: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class Row:
    """The columns of one token."""

    fields: list[str]
    line: int


def read_tagged(path: Path, config: TaggingDataConfig) -> list[TaggedSentence]:
    """The sentences of a file with their labels."""
    word, label = config.word_column, config.label_column
    if _is_conllu(path, config.format):
        word = CONLLU_WORD if word is None else word
        label = CONLLU_UPOS if label is None else label
    sentences = []
    for rows in read_columns(path, config.format):
        tokens = tuple(get_field(row, word or 0, path) for row in rows)
        labels = tuple(get_field(row, label, path) for row in rows)
        if config.has_spans:
            labels = _to_iob2(labels, rows, config.scheme, path)
        sentences.append(TaggedSentence(tokens, labels))
    if not sentences:
        raise DataError(f"{path}: no sentence, expected one token per line")
    return sentences


def read_columns(path: Path, file_format: ColumnFormat | None = None) -> Iterator[list[Row]]:
    """The sentences of a file; without a format, CoNLL-U is recognized by the file name."""
    is_conllu = _is_conllu(path, file_format)
    sentence: list[Row] = []
    for number, raw_line in enumerate(read_raw_lines(path), start=1):
        # Other white space, such as a no-break space, may be part of a word.
        line = raw_line.strip(" \t\r\n")
        if not line:
            if sentence:
                yield sentence
            sentence = []
        elif is_conllu:
            row = _conllu_row(line, number, path)
            sentence.extend([] if row is None else [row])
        elif not line.startswith(DOCUMENT_START):
            fields = line.split("\t") if "\t" in line else re.split(" +", line)
            sentence.append(Row(fields, number))
    if sentence:
        yield sentence


def get_field(row: Row, column: int | None, path: Path) -> str:
    """The value of a row in a column, counted from 0; None: the last column."""
    n_fields = len(row.fields)
    if column is None and n_fields < 2:
        raise DataError(f"{path}:{row.line}: 1 column, expected at least a word and its label")
    if column is not None and column >= n_fields:
        raise DataError(
            f"{path}:{row.line}: {n_fields} columns, expected at least {column + 1}, as column "
            f"{column} (counted from 0) is read"
        )
    number = n_fields - 1 if column is None else column
    field = row.fields[number].strip(" ")
    if not field:
        raise DataError(f"{path}:{row.line}: column {number} is empty, expected a word or label")
    return field


def _is_conllu(path: Path, file_format: ColumnFormat | None) -> bool:
    return file_format == "conllu" or (file_format is None and ".conllu" in path.suffixes)


def _conllu_row(line: str, number: int, path: Path) -> Row | None:
    """The row of a word; None for comments, multiword tokens and empty nodes."""
    if line.startswith("#"):
        return None
    fields = line.split("\t")
    if len(fields) != N_CONLLU_COLUMNS:
        raise DataError(
            f"{path}:{number}: {len(fields)} columns, expected the {N_CONLLU_COLUMNS} of CoNLL-U, "
            "separated by tabs"
        )
    if _WORD_ID.fullmatch(fields[0]):
        return Row(fields, number)
    if not _OTHER_ID.fullmatch(fields[0]):
        raise DataError(
            f"{path}:{number}: the word id {fields[0]!r}, expected one such as 3, 3-4 or 3.1"
        )
    return None


def _to_iob2(
    labels: Sequence[str], rows: Sequence[Row], scheme: Scheme | None, path: Path
) -> tuple[str, ...]:
    """Span labels of any scheme as IOB2."""
    for label, row in zip(labels, rows, strict=True):
        if not is_span_label(label):
            raise DataError(
                f"{path}:{row.line}: the label {label!r}, expected O or one such as B-PER; set "
                "data.label_column, or use `elmo train pos` for labels that are not of spans"
            )
    violation = None if scheme is None else find_violation(labels, scheme)
    if violation is not None:
        raise DataError(
            f"{path}:{rows[violation].line}: the label {labels[violation]!r} is not valid here, "
            f"expected spans in the scheme {scheme}"
        )
    return tuple(write_iob2(read_spans(labels), len(labels)))
