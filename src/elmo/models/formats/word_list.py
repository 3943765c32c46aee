"""Vocabularies of other projects, and the rows of their words in weight tables.

In: a file with one word per line, plain or .gz. Out: a `WordList`: our `Vocabulary`, in which the
markers and the unknown word come first, and the row of each of its words in the file. bilm accepts
these three in any position, and skips one entry of the 1 Billion Word Benchmark's list.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.errors import CheckpointError, DataError
from elmo.models.formats.sources import MAX_TEXT, AnyPath, read_bytes
from elmo.text.vocabulary import RESERVED, Vocabulary, check_words

SKIPPED = "!!!MAXTERMID"  # bilm assigns it no id
WHAT = "a vocabulary with one word a line"


@dataclass(frozen=True)
class WordList:
    """The words of a file in our order, and the row of each in the tables that belong to it."""

    vocabulary: Vocabulary
    rows: NDArray[np.int64]  # (V,); -1 where the file has no such word
    n_rows: int  # of the file

    def reorder(self, table: Tensor, where: str) -> Tensor:
        """Reorder the rows of a table (or bias) like the vocabulary, in place if possible."""
        if len(table) != self.n_rows:
            raise CheckpointError(
                f"{where}: {len(table)} rows, expected {self.n_rows}, the words of its vocabulary; "
                "give the vocabulary of this file"
            )
        if len(self.rows) == self.n_rows:  # in place: the official tables have gigabytes
            moved = torch.from_numpy(self.rows != np.arange(self.n_rows))
            table[moved] = table[torch.from_numpy(self.rows)[moved]]
            return table
        wider = table[torch.from_numpy(self.rows.clip(0))]
        wider[torch.from_numpy(self.rows < 0)] = 0
        return wider


def read_word_list(path: AnyPath, *, needs_reserved: bool = True) -> WordList:
    """Read a file; unless `needs_reserved`, missing markers and unknown word have row -1."""
    words = read_words(path)
    numbers = {word: row for row, word in enumerate(words)}
    missing = [word for word in RESERVED if word not in numbers]
    if missing and needs_reserved:
        raise DataError(f"{path}: no line {missing[0]!r}, expected {', '.join(RESERVED)} in it")
    ours = Vocabulary.of_words(words)
    rows = np.array([numbers.get(word, -1) for word in ours.words], dtype=np.int64)
    return WordList(ours, rows, len(words))


def read_words(path: AnyPath) -> Sequence[str]:
    """The words of a file in its own order; a repeated word raises a DataError."""
    try:
        text = read_bytes(path, WHAT, MAX_TEXT).decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text ({error}), expected {WHAT}") from error
    # Not splitlines(): a word may contain one of Unicode's other line ends.
    words = [line.strip(" \t\r") for line in text.removesuffix("\n").split("\n")]
    check_words(path, words)
    return [word for word in words if word != SKIPPED]
