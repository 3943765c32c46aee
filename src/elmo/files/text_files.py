"""Text files, plain or compressed, as lines and as blocks of complete documents.

In: the paths of UTF-8 text files (plain, .gz, .xz, or `-` for standard input). Out: lines; or lists
of lines of about a megabyte, which end at a blank line, the end of a document. Errors name the file
and the line. Each sequence of a FASTA file is one line and one document.
"""

import codecs
import glob
import gzip
import lzma
import sys
import zlib
from collections.abc import Callable, Iterable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any, BinaryIO, cast

from elmo.errors import DataError

# A block is the unit of work of one process. Longer documents are cut: blocks bound the memory of
# the first pass, and shuffling needs documents that are not a large part of the corpus.
BLOCK_CHARACTERS = 1_000_000
FASTA_SUFFIXES = (".fasta", ".fa", ".faa", ".fas")
SUFFIXES = (".txt", ".gz", ".xz", *FASTA_SUFFIXES)  # of the files that are read from a folder
STANDARD_INPUT = Path("-")
MAX_LINE_BYTES = 64_000_000  # a longer line is not a paragraph


def find_text_files(*patterns: str | Path) -> list[Path]:
    """Find files by paths, glob patterns or folders of text files; the files of each are sorted.

    `**` in a pattern matches folders of any depth. Hidden files of a folder are left out.
    """
    return [path for pattern in patterns for path in _matches(str(pattern))]


def _matches(pattern: str) -> list[Path]:
    is_plain = Path(pattern).exists() or Path(pattern) == STANDARD_INPUT
    if is_plain and not Path(pattern).is_dir():  # its name may contain glob characters
        return [Path(pattern)]
    if is_plain:
        paths = [path for path in Path(pattern).iterdir() if _is_text_of_folder(path)]
    else:
        paths = [Path(path) for path in glob.glob(pattern, recursive=True)]
    paths = sorted(path for path in paths if path.is_file())
    if not paths and not is_plain and not glob.has_magic(pattern):
        raise DataError(f"{pattern}: no such file")
    if not paths:
        raise DataError(f"no file matches {pattern!r}; expected text files")
    return paths


def _is_text_of_folder(path: Path) -> bool:
    return path.suffix in SUFFIXES and not path.name.startswith(".")


def read_blocks(paths: list[Path]) -> Iterator[list[str]]:
    """The lines of files in blocks that end where a document ends, or when they are too long."""
    for path in paths:
        block: list[str] = []
        n_characters = 0
        for line in read_lines(path):
            block.append(line)
            n_characters += len(line) + 1
            is_over = n_characters >= BLOCK_CHARACTERS and not line
            if is_over or n_characters >= 2 * BLOCK_CHARACTERS:
                yield block
                block, n_characters = [], 0
        if block:
            yield block


def read_lines(path: Path) -> Iterator[str]:
    """The lines of a file, stripped; blank ones are empty."""
    if is_fasta(path):
        lines = ((line, 0) for line in read_raw_lines(path))
        return (line for _, text, _ in parse_fasta(lines, str(path)) for line in (text, ""))
    return map(str.strip, read_raw_lines(path))


def read_raw_lines(path: Path) -> Iterator[str]:
    """The lines of a file with all white space and line ends: a word may be a Unicode space."""
    return (line for line, _ in lines_with_sizes(lambda: _open_path(path), str(path)))


def suffix_of(path: Path) -> str:
    """The suffix of a file name in lower case, without that of its compression."""
    name = path.with_suffix("") if path.suffix in (".gz", ".xz") else path
    return name.suffix.lower()


def is_fasta(path: Path) -> bool:
    """Whether a file is a FASTA file, by its name."""
    return suffix_of(path) in FASTA_SUFFIXES


def parse_fasta(lines: Iterable[tuple[str, int]], name: str) -> Iterator[tuple[str, str, int]]:
    """Header, sequence as written, and size in bytes of each record, from lines with sizes."""
    header: str | None = None
    parts: list[str] = []
    n_bytes = 0
    for number, (raw, n_line_bytes) in enumerate(lines, start=1):
        line = raw.strip()
        if line.startswith(">"):
            if header is not None:
                yield header, "".join(parts), n_bytes
                n_bytes = 0
            header, parts = line[1:], []
        elif header is not None:
            parts.append(line)
        elif line and not line.startswith(";"):
            raise DataError(f"{name}:{number}: {line[:40]!r}, expected a header that starts with >")
        n_bytes += n_line_bytes
    if header is not None:
        yield header, "".join(parts), n_bytes


def lines_with_sizes(
    open_file: Callable[[], AbstractContextManager[BinaryIO]], name: str, n_before: int = 0
) -> Iterator[tuple[str, int]]:
    """The raw lines of a file with their sizes in bytes; line numbers start after `n_before`."""
    number = n_before
    try:
        with open_file() as file:
            while line := file.readline(MAX_LINE_BYTES):
                number += 1
                if len(line) == MAX_LINE_BYTES:
                    raise DataError(
                        f"{name}:{number}: a line of over {MAX_LINE_BYTES // 10**6} MB; expected "
                        "one paragraph per line"
                    )
                start = line.removeprefix(codecs.BOM_UTF8) if number == 1 else line
                yield _decode(start, name, number), len(line)
    except FileNotFoundError as error:
        raise DataError(f"{name}: no such file") from error
    except (OSError, EOFError, lzma.LZMAError, zlib.error) as error:
        where = f"{name}:{number}" if number else name
        raise DataError(
            f"{where}: cannot be read ({error}); expected plain, .gz or .xz text"
        ) from error


@contextmanager
def decompressed(opened: AbstractContextManager[BinaryIO], name: str) -> Iterator[BinaryIO]:
    """The content of an open binary file, decompressed if its name ends in .gz or .xz."""
    decompress: Any = {".gz": gzip.open, ".xz": lzma.open}.get(Path(name).suffix)
    with opened as file:
        yield file if decompress is None else cast(BinaryIO, decompress(file))


def _open_path(path: Path) -> AbstractContextManager[BinaryIO]:
    if path == STANDARD_INPUT:
        return nullcontext(sys.stdin.buffer)  # not ours to close
    return decompressed(path.open("rb"), path.name)


def _decode(line: bytes, name: str, number: int) -> str:
    if number == 1 and line.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
        raise DataError(
            f"{name}: UTF-16, expected UTF-8; convert it with: iconv -f UTF-16 -t UTF-8"
        )
    if b"\0" in line:
        raise DataError(f"{name}:{number}: a zero byte; expected text, not a binary file")
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{name}:{number}: not UTF-8 ({error.reason} at byte {error.start}); expected UTF-8 "
            "text; convert the file with iconv"
        ) from error
