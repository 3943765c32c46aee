"""A corpus cut into units of work: each is so many whole lines of one file, and becomes one shard.

In: a folder or a file, of text (.txt, .gz, .xz) or Parquet. Out: `Unit`s, found again by
their place and known by the hash of their text. The same text is always cut alike, whoever reads it
and by how many workers.
"""

import gzip
import hashlib
import lzma
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import accumulate, chain, islice
from typing import Any, BinaryIO, cast

from elmo.errors import DataError, needs_extra
from elmo.files.remote import Place, find_place
from elmo.files.text_files import BLOCK_CHARACTERS, measured_lines
from elmo.pretraining.corpus import map_in_order
from elmo.text.lines import LineFormat, split_line

TEXT_ENDINGS = (".txt", ".gz", ".xz")
TABLE_ENDING = ".parquet"
# Of each unit one line in so many is cut into tokens to know about how many it has.
SAMPLED_LINE = 16


NamedFile = tuple[str, Place]  # the name in its corpus


@dataclass(frozen=True, kw_only=True, slots=True)
class Unit:
    """Lines of one file, or rows of a table, which become one shard."""

    address: str  # of the file
    name: str  # of the file in its corpus
    number: int  # among the units of the file
    first_line: int
    n_lines: int
    first_byte: int  # in the unpacked text
    n_bytes: int
    first_sentence: int
    n_sentences: int
    about_tokens: int
    sha256: str

    @property
    def shard_name(self) -> str:
        """What the shard is called; a file that is added to a corpus changes no other's shards."""
        return f"{self.name}-{self.number:05d}.parquet"


Cut = Callable[[tuple[str, str]], list[Unit]]  # what `cut_file` does with a name and an address
Run = Callable[[Cut, Sequence[NamedFile]], Iterable[list[Unit]]]


def cut_corpus(
    corpus: Place, lines: LineFormat, column: str, unit_bytes: int, run: Run | None = None
) -> list[Unit]:
    """All units, in the order of the files' names; reads the whole corpus, so finds what is wrong.

    A unit has about `unit_bytes` of text, unless a line alone has more. `run` has others work.
    """
    files = find_files(corpus)
    cut = partial(cut_file, lines=lines, column=column, unit_bytes=unit_bytes)
    found = (run or cut_here)(cut, list(files.items()))
    units = sorted(chain.from_iterable(found), key=lambda unit: (unit.name, unit.number))
    if not units:
        raise DataError(f"{corpus.address}: no line of text, expected some; name another corpus")
    return units


def cut_here(cut: Cut, files: Sequence[NamedFile]) -> Iterator[list[Unit]]:
    """Cut files with the cores of this machine."""
    n_bytes = sum(place.system.size(place.path) or 0 for _, place in files)
    n_workers = min(os.cpu_count() or 1, len(files), 1 + n_bytes // (16 * BLOCK_CHARACTERS))
    is_local = all(place.is_local for _, place in files)
    named = [(name, place.address) for name, place in files]
    # Clients of what fsspec reaches do not outlive a fork.
    return map_in_order(cut, named, n_workers if is_local else 1)


def find_files(corpus: Place) -> dict[str, Place]:
    """The files of a corpus by their names in it."""
    if corpus.system.isfile(corpus.path):
        return {corpus.name: corpus}
    endings = (*TEXT_ENDINGS, TABLE_ENDING)
    found = corpus.files() if corpus.system.isdir(corpus.path) else {}
    files = {name: place for name, place in found.items() if name.endswith(endings)}
    if not files:
        raise DataError(
            f"{corpus.address}: no file that ends in {', '.join(endings)} (of {len(found)} files); "
            "expected a folder of text; correct the path"
        )
    return files


def cut_file(
    named: tuple[str, str], *, lines: LineFormat, column: str, unit_bytes: int
) -> list[Unit]:
    """The units of one file, given by its name in the corpus and its address."""
    units: list[Unit] = []
    waiting: list[str] = []
    n_bytes = 0

    def close_unit() -> None:
        units.append(_unit(named, waiting, n_bytes, units[-1] if units else None, lines))
        waiting.clear()

    for line, n_line_bytes in _read(find_place(named[1]), column):
        waiting.append(line)
        n_bytes += n_line_bytes
        if n_bytes >= unit_bytes:
            close_unit()
            n_bytes = 0
    if waiting:
        close_unit()
    return units


def read_unit(unit: Unit, column: str) -> list[str]:
    """The lines of a unit, which must be those that it was cut from."""
    place = find_place(unit.address)
    found = _read(place, column, unit.first_line, unit.first_byte)
    lines = [line for line, _ in islice(found, unit.n_lines)]
    if _sha256(lines) != unit.sha256:
        raise DataError(
            f"{unit.address}: lines {unit.first_line} to {unit.first_line + unit.n_lines} have "
            "changed since the corpus was read; expected the same text; start again"
        )
    return lines


def _unit(
    named: tuple[str, str],
    lines: list[str],
    n_bytes: int,
    before: Unit | None,
    line_format: LineFormat,
) -> Unit:
    n_sentences, about_tokens = _count(lines, line_format)
    return Unit(
        name=named[0],
        address=named[1],
        number=before.number + 1 if before else 0,
        first_line=before.first_line + before.n_lines if before else 0,
        n_lines=len(lines),
        first_byte=before.first_byte + before.n_bytes if before else 0,
        n_bytes=n_bytes,
        first_sentence=before.first_sentence + before.n_sentences if before else 0,
        n_sentences=n_sentences,
        about_tokens=about_tokens,
        sha256=_sha256(lines),
    )


def _count(lines: Sequence[str], line_format: LineFormat) -> tuple[int, int]:
    """Sentences, and about how many tokens."""
    # Only splitting says how many sentences a paragraph has; that is a fiftieth of embedding it.
    some = lines if line_format == "paragraphs" else lines[::SAMPLED_LINE]
    sentences = [sentence for line in some for sentence in split_line(line, line_format)]
    n_characters, n_sampled = sum(map(len, lines)), sum(map(len, some))
    n_tokens = sum(len(sentence.tokens) for sentence in sentences)
    is_counted = line_format == "paragraphs"
    n_sentences = len(sentences) if is_counted else sum(bool(line.strip()) for line in lines)
    return n_sentences, round(n_tokens * n_characters / n_sampled) if n_sampled else 0


def _sha256(lines: Sequence[str]) -> str:
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


def _read(
    place: Place, column: str, first_line: int = 0, first_byte: int = 0
) -> Iterator[tuple[str, int]]:
    """Lines with the bytes each takes, from a line on."""
    if place.name.endswith(TABLE_ENDING):
        return _read_rows(place, column, first_line)
    lines = measured_lines(lambda: _open_text(place, first_byte), place.address, first_line)
    return ((line.strip(), n_bytes) for line, n_bytes in lines)


@contextmanager
def _open_text(place: Place, first_byte: int) -> Iterator[BinaryIO]:
    """Unpacked text from a byte on; packed text is unpacked up to there."""
    with place.system.open(place.path, "rb") as packed:
        unpack: Any = {".gz": gzip.open, ".xz": lzma.open}.get(place.path[-3:])
        file = cast(BinaryIO, packed if unpack is None else unpack(packed))
        file.seek(first_byte)
        yield file


def _read_rows(place: Place, column: str, first_row: int) -> Iterator[tuple[str, int]]:
    """The texts of a column from a row on; nothing is an empty text."""
    with needs_extra("parquet"):
        import pyarrow as pa
        from pyarrow import parquet
    try:
        with place.system.open(place.path, "rb") as opened:
            table = parquet.ParquetFile(opened)
            _check_column(table.schema_arrow, column, place.address)
            groups = [table.metadata.row_group(k).num_rows for k in range(table.num_row_groups)]
            ends = list(accumulate(groups))
            wanted = [k for k, end in enumerate(ends) if end > first_row]
            n_skipped = first_row - (ends[wanted[0]] - groups[wanted[0]]) if wanted else 0
            batches = table.iter_batches(1024, row_groups=wanted, columns=[column])
            texts = (text or "" for batch in batches for text in batch.column(0).to_pylist())
            for text in islice(texts, n_skipped, None):
                yield text, len(text.encode()) + 1
    except (OSError, pa.ArrowException) as error:
        raise DataError(
            f"{place.address}: cannot be read ({error}); expected a Parquet file; make it again or "
            "leave it out"
        ) from error


def _check_column(schema: Any, column: str, where: str) -> None:  # noqa: ANN401 - pyarrow's
    kinds = ("string", "large_string", "dictionary<values=string")
    texts = [field.name for field in schema if str(field.type).startswith(kinds)]
    if column not in texts:
        raise DataError(
            f"{where}: no column {column!r} of text, expected one of "
            f"{', '.join(texts) or 'its columns to be text'}; name it with --column"
        )
