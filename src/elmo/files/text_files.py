"""Text shards: the files of a corpus, plain or compressed, as blocks of whole documents.

In: a glob of files with one paragraph (or tokenized sentence) a line; a blank line ends a document.
Out: lists of lines, about a megabyte each, in the order of the files' names. A broken file is
reported by its name and line.
"""

import glob
import gzip
import lzma
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import BinaryIO, cast

from elmo.errors import DataError

# A block is what one process splits at a time. A document that is longer is cut: blocks bound the
# memory of the first pass, and shuffling needs documents that are not a large part of the corpus.
BLOCK_CHARACTERS = 1_000_000
SUFFIXES = (".txt", ".gz", ".xz")  # what is read of a folder
STANDARD_INPUT = Path("-")
LONGEST_LINE = 64_000_000  # bytes; a longer line is no paragraph


def find_shards(pattern: str) -> list[Path]:
    """The files that a glob or a plain path names, or a folder's texts, sorted by name."""
    if Path(pattern).is_file():  # a plain path may hold glob's own characters
        return [Path(pattern)]
    if Path(pattern).is_dir():
        shards = sorted(path for path in Path(pattern).iterdir() if path.suffix in SUFFIXES)
    else:
        shards = sorted(path for path in map(Path, glob.glob(pattern)) if path.is_file())
    if not shards:
        raise DataError(f"no file matches {pattern!r}; expected text files; correct the path")
    return shards


def read_blocks(shards: list[Path]) -> Iterator[list[str]]:
    """Lines of the shards in blocks that end where a document ends, or when they are too long."""
    for shard in shards:
        block: list[str] = []
        n_characters = 0
        for line in read_lines(shard):
            block.append(line)
            n_characters += len(line) + 1
            is_over = n_characters >= BLOCK_CHARACTERS and not line
            if is_over or n_characters >= 2 * BLOCK_CHARACTERS:
                yield block
                block, n_characters = [], 0
        if block:
            yield block


def read_lines(shard: Path) -> Iterator[str]:
    """The lines of one file (`-`: of standard input), stripped; blank ones are empty."""
    return map(str.strip, read_whole_lines(shard))


def read_whole_lines(shard: Path) -> Iterator[str]:
    """The same lines with all their spaces, the line end too: a word may be one of Unicode's."""
    return (line for line, _ in measured_lines(lambda: _open(shard), str(shard)))


def measured_lines(
    open_file: Callable[[], AbstractContextManager[BinaryIO]], name: str, n_before: int = 0
) -> Iterator[tuple[str, int]]:
    """Whole lines, each with the bytes it took; messages count `n_before` lines before them."""
    number = n_before
    try:
        with open_file() as file:
            while line := file.readline(LONGEST_LINE):
                number += 1
                if len(line) == LONGEST_LINE:
                    raise DataError(
                        f"{name}:{number}: a line of over {LONGEST_LINE // 10**6} MB; expected "
                        "one paragraph a line; break the text into lines"
                    )
                yield _decode(line, name, number), len(line)
    except (OSError, EOFError, lzma.LZMAError) as error:
        where = f"{name}:{number}" if number else name
        raise DataError(
            f"{where}: cannot be read ({error}); expected plain, .gz or .xz text; "
            "make the file again or leave it out"
        ) from error


def _open(shard: Path) -> AbstractContextManager[BinaryIO]:
    if shard == STANDARD_INPUT:
        return nullcontext(sys.stdin.buffer)  # not ours to close
    if shard.suffix == ".gz":
        return cast(BinaryIO, gzip.open(shard, "rb"))
    if shard.suffix == ".xz":
        return cast(BinaryIO, lzma.open(shard, "rb"))
    return shard.open("rb")


def _decode(line: bytes, shard: str, number: int) -> str:
    if b"\0" in line:
        raise DataError(
            f"{shard}:{number}: a zero byte; expected text; is this a binary file? Leave it out"
        )
    try:
        return line.decode("utf-8")
    except UnicodeDecodeError as error:
        raise DataError(
            f"{shard}:{number}: not UTF-8 ({error.reason} at byte {error.start}); expected UTF-8 "
            "text; convert the file with iconv, or leave it out"
        ) from error
