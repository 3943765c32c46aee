"""The output vocabulary of the language models.

In: words by descending frequency, or a `vocab.txt` with one word per line, as in the released
models. Out: a `Vocabulary` that maps words to ids. The first three words are the sentence markers
and the unknown word; a token that is spelled like one of them is an unknown word, never a marker.
"""

from collections.abc import Iterable, Sequence
from functools import cached_property
from pathlib import Path

import numpy as np
import numpy.typing as npt

from elmo.errors import DataError

BEGIN = 0  # predicted by the backward language model after a sentence's first word
END = 1  # predicted by the forward one after its last
UNKNOWN = 2
RESERVED = ("<S>", "</S>", "<UNK>")


class Vocabulary:
    """Words and their ids."""

    def __init__(self, words: Sequence[str]) -> None:
        """Create it from words that start with the three reserved ones."""
        if tuple(words[: len(RESERVED)]) != RESERVED:
            raise DataError(
                f"the vocabulary starts with {list(words[: len(RESERVED)])}, expected "
                f"{list(RESERVED)}"
            )
        self.words = tuple(words)

    @staticmethod
    def of_words(words: Iterable[str]) -> "Vocabulary":
        """Create a vocabulary of the reserved words, then the given ones."""
        return Vocabulary([*RESERVED, *(word for word in words if word not in RESERVED)])

    @staticmethod
    def read(path: Path) -> "Vocabulary":
        """Read a file with one word per line; only reserved words may occur twice."""
        words = read_list(path)
        check_words(path, words[len(RESERVED) :], 1 + len(RESERVED))
        try:
            return Vocabulary(words)
        except DataError as error:
            raise DataError(f"{path}: {error}") from error

    def write(self, path: Path) -> None:
        """Write the words, one per line."""
        write_list(path, self.words)

    def ids(self, words: Sequence[str]) -> npt.NDArray[np.int64]:
        """The id of each word; UNKNOWN for words outside the vocabulary."""
        find = self._numbers.get
        return np.fromiter(
            (find(word, UNKNOWN) for word in words), dtype=np.int64, count=len(words)
        )

    def __len__(self) -> int:
        return len(self.words)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Vocabulary) and self.words == other.words

    def __hash__(self) -> int:
        return hash(self.words)

    @cached_property
    def _numbers(self) -> dict[str, int]:
        first = len(RESERVED)
        numbers: dict[str, int] = {}
        for number, word in enumerate(self.words[first:], start=first):
            if word not in RESERVED:
                numbers.setdefault(word, number)
        return numbers


def read_list(path: Path) -> list[str]:
    """The lines of a file with one word, or one character, per line."""
    if not path.exists():
        raise DataError(f"{path}: no such file")
    if not path.is_file():  # a pipe or a device may never end
        raise DataError(f"{path}: cannot be read, expected a vocabulary with one word per line")
    try:
        text = path.read_bytes().decode("utf-8-sig")  # as bytes: "\r" may be part of a word
    except OSError as error:
        raise DataError(
            f"{path}: cannot be read ({error.strerror}); expected a vocabulary with one word per "
            "line"
        ) from error
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text ({error}), expected a vocabulary") from error
    # Not splitlines(): a word may contain one of Unicode's other line ends.
    return text.removesuffix("\n").split("\n")


def check_words(where: object, words: Iterable[str], first_line: int = 1) -> None:
    """Raise a DataError with the line number of a blank line, a zero byte or a repeated word."""
    lines: dict[str, int] = {}
    for line, word in enumerate(words, first_line):
        if not word or "\0" in word:
            found = "a zero byte" if word else "a blank line"
            raise DataError(f"{where}:{line}: {found}, expected a word")
        if word in lines:
            raise DataError(
                f"{where}:{line}: {word!r} is also line {lines[word]}, expected each word once"
            )
        lines[word] = line


def write_list(path: Path, words: Iterable[str]) -> None:
    """Write words, or characters, one per line."""
    path.write_bytes("".join(f"{word}\n" for word in words).encode("utf-8"))
