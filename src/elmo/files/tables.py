"""Texts with ids: the rows of .csv, .tsv and .parquet files, and the sequences of FASTA files.

In: the path of a file, and which of its fields are the text and the id. Out: a `Record` for each
row or sequence; for any other text file, one for each line, without an id.
"""

import csv
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, islice
from pathlib import Path
from typing import Any

from elmo.errors import DataError, needs_extra
from elmo.files.remote import StoragePath
from elmo.files.text_files import (
    MAX_LINE_BYTES,
    is_fasta,
    parse_fasta,
    read_lines,
    read_raw_lines,
    suffix_of,
)

SEPARATORS = {".csv": ",", ".tsv": "\t"}
PARQUET = ".parquet"
csv.field_size_limit(MAX_LINE_BYTES)  # of all readers in the process; 131,072 by default


@dataclass(frozen=True, kw_only=True, slots=True)
class Fields:
    """The columns of the text and the id in a table, and the field of the id in a FASTA header."""

    column: str = "text"
    id_column: str | None = None
    id_field: int | None = None  # index of a field separated by |; None: the first word

    def has_ids(self, path: Path) -> bool:
        """Whether the records of a file have ids."""
        is_table = path.suffix == PARQUET or suffix_of(path) in SEPARATORS
        return is_fasta(path) or (is_table and self.id_column is not None)

    def columns(self) -> list[str]:
        """The columns of a table that are read: the text, and the id if there is one."""
        return [self.column, *([] if self.id_column is None else [self.id_column])]


@dataclass(frozen=True, slots=True)
class Record:
    """A text and its id, which is None in files without ids."""

    text: str
    id: str | None = None


def read_records(path: Path, fields: Fields) -> Iterator[Record]:
    """The records of a file."""
    if is_fasta(path):
        lines = ((line, 0) for line in read_raw_lines(path))
        return (record for record, _ in fasta_records(lines, str(path), fields))
    if suffix_of(path) in SEPARATORS:
        return _read_csv(path, fields)
    if path.suffix == PARQUET:
        return (_joined(record) for record in read_parquet(StoragePath.of(path), fields))
    return map(Record, read_lines(path))


def fasta_records(
    lines: Iterable[tuple[str, int]], name: str, fields: Fields
) -> Iterator[tuple[Record, int]]:
    """The sequences of a FASTA file with their ids, each with its size in bytes."""
    for header, sequence, n_bytes in parse_fasta(lines, name):
        word = (header.split() or [""])[0]
        parts, field = word.split("|"), fields.id_field
        key = word if field is None else parts[field] if field < len(parts) else ""
        yield Record(sequence, key), n_bytes


def _read_csv(path: Path, fields: Fields) -> Iterator[Record]:
    is_csv = suffix_of(path) == ".csv"
    rows = csv.DictReader(
        read_raw_lines(path),
        delimiter=SEPARATORS[suffix_of(path)],
        quoting=csv.QUOTE_MINIMAL if is_csv else csv.QUOTE_NONE,  # .tsv: a quote is a character
        strict=True,  # an unclosed quote would swallow all following rows
    )
    try:
        for column in fields.columns():
            _check_column(column, list(rows.fieldnames or ()), str(path))
        for row in rows:
            yield _joined(Record(*(row[column] or "" for column in fields.columns())))
    except csv.Error as error:
        raise DataError(f"{path}:{rows.reader.line_num}: {error}, expected a table") from error


def read_parquet(path: StoragePath, fields: Fields, first_row: int = 0) -> Iterator[Record]:
    """The rows of a Parquet file from `first_row` on; a null text is empty."""
    with needs_extra("parquet"):
        import pyarrow as pa
        from pyarrow import parquet
    try:
        with path.filesystem.open(path.path, "rb") as opened:
            table = parquet.ParquetFile(opened)
            _check_types(table.schema_arrow, fields, path.address)
            groups = [table.metadata.row_group(k).num_rows for k in range(table.num_row_groups)]
            ends = list(accumulate(groups))
            wanted = [k for k, end in enumerate(ends) if end > first_row]
            n_skipped = first_row - (ends[wanted[0]] - groups[wanted[0]]) if wanted else 0
            batches = table.iter_batches(1024, row_groups=wanted, columns=fields.columns())
            rows = (
                row
                for batch in batches
                for row in zip(*(batch[name].to_pylist() for name in fields.columns()), strict=True)
            )
            for text, *key in islice(rows, n_skipped, None):
                yield Record(text or "", *("" if each is None else str(each) for each in key))
    except (OSError, UnicodeDecodeError, pa.ArrowException) as error:
        raise DataError(
            f"{path.address}: cannot be read ({error}); expected a Parquet file"
        ) from error


def _joined(record: Record) -> Record:
    return Record(" ".join(record.text.split()), record.id)


def _check_types(schema: Any, fields: Fields, where: str) -> None:  # noqa: ANN401 - pyarrow's
    kinds = ("string", "large_string", "dictionary<values=string")
    texts = [field.name for field in schema if str(field.type).startswith(kinds)]
    _check_column(fields.column, texts, where, " of text")
    if fields.id_column is not None:
        _check_column(fields.id_column, schema.names, where)


def _check_column(column: str, found: list[str], where: str, kind: str = "") -> None:
    if column not in found:
        expected = f"one of {', '.join(found)}" if found else f"a file with columns{kind}"
        raise DataError(f"{where}: no column {column!r}{kind}, expected {expected}")
