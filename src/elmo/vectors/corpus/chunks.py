"""Split a corpus into chunks of complete lines of one file, each of which becomes one shard.

In: a folder or a file, of text (.txt, .gz, .xz), FASTA or Parquet. Out: `Chunk`s, which can be read
again and are identified by the hash of their text. The same text is always split in the same way,
by any number of workers.
"""

import hashlib
import os
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from itertools import chain, islice
from pathlib import Path
from typing import BinaryIO

from elmo.errors import DataError
from elmo.files.parallel import map_in_order
from elmo.files.remote import StoragePath
from elmo.files.tables import PARQUET, SEPARATORS, Fields, Record, fasta_records, read_parquet
from elmo.files.text_files import (
    BLOCK_CHARACTERS,
    SUFFIXES,
    decompressed,
    is_fasta,
    lines_with_sizes,
    suffix_of,
)
from elmo.text.lines import LineFormat, line_format_of, split_line

# One in this many lines is tokenized to estimate the number of tokens of a chunk.
SAMPLED_LINE = 16

NamedFile = tuple[str, StoragePath]  # the name in the corpus, and the path


@dataclass(frozen=True, kw_only=True, slots=True)
class Chunk:
    """Lines of one text file, or rows of one table, which become one shard."""

    address: str  # of the file
    name: str  # of the file in its corpus
    number: int  # among the chunks of the file
    first_line: int
    n_lines: int
    first_byte: int  # in the decompressed text
    n_bytes: int
    first_sentence: int
    n_sentences: int
    estimated_tokens: int
    sha256: str

    @property
    def shard_name(self) -> str:
        """The name of the shard; adding a file to a corpus changes no other file's shards."""
        return f"{self.name}-{self.number:05d}.parquet"


SplitFile = Callable[[tuple[str, str]], list[Chunk]]  # `split_file` of a name and an address
SplitFiles = Callable[[SplitFile, Sequence[NamedFile]], Iterable[list[Chunk]]]


def split_corpus(
    corpus: StoragePath,
    lines: LineFormat,
    fields: Fields,
    chunk_bytes: int,
    split_files: SplitFiles | None = None,
) -> list[Chunk]:
    """All chunks, sorted by file name; reads the whole corpus, so unreadable files are found early.

    A chunk has about `chunk_bytes` of text, unless a single line has more. `split_files` lets other
    workers split the files.
    """
    files = find_files(corpus)
    split = partial(split_file, lines=lines, fields=fields, chunk_bytes=chunk_bytes)
    found = (split_files or split_locally)(split, list(files.items()))
    chunks = sorted(chain.from_iterable(found), key=lambda chunk: (chunk.name, chunk.number))
    if not chunks:
        raise DataError(f"{corpus.address}: no line of text in {len(files)} files")
    return chunks


def split_locally(split: SplitFile, files: Sequence[NamedFile]) -> Iterator[list[Chunk]]:
    """Split files in parallel on this machine."""
    n_bytes = sum(path.filesystem.size(path.path) or 0 for _, path in files)
    n_workers = min(os.cpu_count() or 1, len(files), 1 + n_bytes // (16 * BLOCK_CHARACTERS))
    is_local = all(path.is_local for _, path in files)
    named = [(name, path.address) for name, path in files]
    # The clients of remote storage do not work in a forked process.
    return map_in_order(split, named, n_workers if is_local else 1)


def find_files(corpus: StoragePath) -> dict[str, StoragePath]:
    """The files of a corpus by their names in it; .csv and .tsv are read by `embed_file` only."""
    if corpus.filesystem.isfile(corpus.path):
        if _is_table(corpus.name):
            raise DataError(
                f"{corpus.address}: a table, expected text, FASTA or {PARQUET}; a table is "
                "embedded into one file, without --format"
            )
        return {corpus.name: corpus}
    suffixes = (*SUFFIXES, PARQUET)
    found = corpus.files() if corpus.filesystem.isdir(corpus.path) else {}
    files = {
        name: path
        for name, path in found.items()
        if name.endswith(suffixes) and not _is_table(name)
    }
    if not files:
        raise DataError(
            f"{corpus.address}: none of {len(found)} files is text; expected files that end in "
            f"{', '.join(suffixes)}"
        )
    return files


def _is_table(name: str) -> bool:
    """Whether a file is a .csv or .tsv, compressed or not."""
    return suffix_of(Path(name)) in SEPARATORS


def split_file(
    named: tuple[str, str], *, lines: LineFormat, fields: Fields, chunk_bytes: int
) -> list[Chunk]:
    """The chunks of one file, given by its name in the corpus and its address."""
    chunks: list[Chunk] = []
    pending: list[Record] = []
    n_bytes = 0
    lines = line_format_of([Path(named[0])], lines)

    def close_chunk() -> None:
        chunks.append(_chunk(named, pending, n_bytes, chunks[-1] if chunks else None, lines))
        pending.clear()

    for record, n_record_bytes in _read(StoragePath.of(named[1]), fields):
        pending.append(record)
        n_bytes += n_record_bytes
        if n_bytes >= chunk_bytes:
            close_chunk()
            n_bytes = 0
    if pending:
        close_chunk()
    return chunks


def read_chunk(chunk: Chunk, fields: Fields) -> list[Record]:
    """The lines of a chunk; raises DataError if the file has changed since it was split."""
    found = _read(StoragePath.of(chunk.address), fields, chunk.first_line, chunk.first_byte)
    records = [record for record, _ in islice(found, chunk.n_lines)]
    if _sha256(records) != chunk.sha256:
        last = chunk.first_line + chunk.n_lines
        raise DataError(
            f"{chunk.address}: lines {chunk.first_line + 1} to {last} have changed since the "
            "corpus was read; run the same command again"
        )
    return records


def _chunk(
    named: tuple[str, str],
    records: list[Record],
    n_bytes: int,
    before: Chunk | None,
    line_format: LineFormat,
) -> Chunk:
    n_sentences, estimated_tokens = _count([record.text for record in records], line_format)
    return Chunk(
        name=named[0],
        address=named[1],
        number=before.number + 1 if before else 0,
        first_line=before.first_line + before.n_lines if before else 0,
        n_lines=len(records),
        first_byte=before.first_byte + before.n_bytes if before else 0,
        n_bytes=n_bytes,
        first_sentence=before.first_sentence + before.n_sentences if before else 0,
        n_sentences=n_sentences,
        estimated_tokens=estimated_tokens,
        sha256=_sha256(records),
    )


def _count(lines: Sequence[str], line_format: LineFormat) -> tuple[int, int]:
    """The number of sentences, and an estimate of the number of tokens."""
    written = [line for line in lines if line.strip()]  # in many texts every second line is blank
    # Paragraphs must be split to count sentences, which takes a fiftieth of the time to embed them.
    is_counted = line_format == "paragraphs"
    some = written if is_counted else written[::SAMPLED_LINE]
    sentences = [sentence for line in some for sentence in split_line(line, line_format)]
    n_characters, n_sampled = sum(map(len, written)), sum(map(len, some))
    n_tokens = sum(len(sentence.tokens) for sentence in sentences)
    n_sentences = len(sentences) if is_counted else len(written)
    return n_sentences, round(n_tokens * n_characters / n_sampled) if n_sampled else 0


def _sha256(records: Sequence[Record]) -> str:
    lines = (r.text if r.id is None else f"{r.id}\t{r.text}" for r in records)
    return hashlib.sha256("\n".join(lines).encode("utf-8", "surrogatepass")).hexdigest()


def _read(
    path: StoragePath, fields: Fields, first_line: int = 0, first_byte: int = 0
) -> Iterator[tuple[Record, int]]:
    """Lines, rows or sequences and their sizes in bytes, starting at `first_line`."""
    if path.name.endswith(PARQUET):
        rows = read_parquet(path, fields, first_line)
        return ((record, len(record.text.encode()) + 1) for record in rows)
    lines = lines_with_sizes(lambda: _open_text(path, first_byte), path.address, first_line)
    if is_fasta(Path(path.name)):
        return fasta_records(lines, path.address, fields)
    return ((Record(line.strip()), n_bytes) for line, n_bytes in lines)


@contextmanager
def _open_text(path: StoragePath, first_byte: int) -> Iterator[BinaryIO]:
    """Open decompressed text at a byte offset; compressed text is read from its start."""
    with decompressed(path.filesystem.open(path.path, "rb"), path.name) as file:
        file.seek(first_byte)
        yield file
