"""The distinct words of an indexed text: where each stands, and what it is without context.

In: the words in the order in which they first came, and the number of each token's word. Out: the
words sorted without regard to capital letters, the rows (tokens) of each one after the other, and
layer 0 of each, in files that are mapped into memory. Only the distinct words are ever in memory,
and only while the files are made.
Shapes: N tokens, U distinct words, P projection.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from elmo.files.mapped_jsonl import KeptLines, new_lines
from elmo.inference.embedder import Embedder
from elmo.search.vectors import WORD_LENGTHS, WORD_OF, WORDS

SPELLINGS, ROWS, FIRST_ROWS = "words.jsonl", "rows.bin", "first_rows.bin"
WORDS_AT_ONCE = 4096
TOKENS_AT_ONCE = 1_000_000

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class IndexedWords:
    """The words of a text, sorted; `rows` (N,) of word k are those from `first_rows[k]` on."""

    spellings: Sequence[str]
    rows: Numbers
    first_rows: Numbers

    @staticmethod
    def open(folder: Path) -> "IndexedWords":
        """Map a folder's files; raises OSError or ValueError if they are not all there."""
        spellings = KeptLines[str](folder / SPELLINGS)
        rows, first_rows = (_open_numbers(folder / name) for name in (ROWS, FIRST_ROWS))
        if len(first_rows) != len(spellings) + 1 or first_rows[-1] != len(rows):
            raise ValueError(f"{len(spellings)} words in {SPELLINGS}, {len(rows)} rows in {ROWS}")
        return IndexedWords(spellings, rows, first_rows)

    def numbers(self, word: str) -> range:
        """The numbers of a word, however it is capitalized."""
        folded = word.casefold()
        return range(
            bisect_left(self.spellings, folded, key=str.casefold),
            bisect_right(self.spellings, folded, key=str.casefold),
        )

    def count(self, numbers: range) -> int:
        """How often words of these numbers stand in the text."""
        return int(self.first_rows[numbers.stop] - self.first_rows[numbers.start])

    def rows_of(self, numbers: range) -> Numbers:
        """Where words of these numbers stand, in the order of the text."""
        return np.sort(self.rows[self.first_rows[numbers.start] : self.first_rows[numbers.stop]])


def write_words(
    folder: Path, words: Iterable[str], embedder: Embedder, n_tokens_at_once: int = TOKENS_AT_ONCE
) -> None:
    """Sort the words, write all there is to know of them, and have `word_of` name their places."""
    first_come = list(words)
    order = sorted(range(len(first_come)), key=lambda k: (first_come[k].casefold(), first_come[k]))
    with new_lines(folder / SPELLINGS) as append:
        for number in order:
            append(first_come[number])
    _write_layer_0(folder, [first_come[number] for number in order], embedder)
    place = np.empty(len(order), np.int64)
    place[order] = np.arange(len(order))
    _write_rows(folder, place, n_tokens_at_once)


def _write_layer_0(folder: Path, words: Sequence[str], embedder: Embedder) -> None:
    with (
        (folder / WORDS).open("wb") as file,
        (folder / WORD_LENGTHS).open("wb") as lengths,
        torch.inference_mode(),
    ):
        for first in range(0, len(words), WORDS_AT_ONCE):
            vectors = embedder.cache.vectors(words[first : first + WORDS_AT_ONCE])  # (n, P)
            rounded = vectors.half().cpu()
            file.write(rounded.numpy().data)
            lengths.write(rounded.float().norm(dim=-1).numpy().data)


def _write_rows(folder: Path, place: Numbers, n_at_once: int) -> None:
    """Renumber the tokens' words and sort the tokens by them, some at a time."""
    word_of = np.memmap(folder / WORD_OF, np.int64, "r+")
    counts = np.zeros(len(place), np.int64)
    parts = [slice(k, k + n_at_once) for k in range(0, len(word_of), n_at_once)]
    for part in parts:
        word_of[part] = place[word_of[part]]
        counts += np.bincount(word_of[part], minlength=len(place))
    first_rows = np.concatenate([[0], np.cumsum(counts)])
    first_rows.tofile(folder / FIRST_ROWS)
    rows = np.memmap(folder / ROWS, np.int64, "w+", shape=word_of.shape)
    free = first_rows[:-1].copy()  # the next free place of each word
    for part in parts:
        order = np.argsort(word_of[part], kind="stable")
        words, starts, counts = np.unique(
            word_of[part][order], return_index=True, return_counts=True
        )
        # The k-th token of a word in this part goes k places behind its first free one.
        places = np.arange(len(order)) + np.repeat(free[words] - starts, counts)
        rows[places] = order + part.start
        free[words] += counts
    rows.flush()
    word_of.flush()


def _open_numbers(path: Path) -> Numbers:
    return np.memmap(path, np.int64, "r").view(np.ndarray)  # cheaper to slice
