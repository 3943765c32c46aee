"""The distinct words of an indexed text, their positions and their context-free vectors.

In: the distinct words in order of first occurrence, and the word index of each token. Out: files
that are mapped into memory: the words sorted by their case-folded form, the rows (tokens) of each
word, and layer 0 of each word. The words are in memory only while the files are written.
Shapes: N tokens, U distinct words, P projection.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from elmo.files.atomic import allocate
from elmo.files.mapped_jsonl import MappedJsonLines, mapped_jsonl_writer
from elmo.inference.embedder import Embedder
from elmo.search.vectors import WORD_LENGTHS, WORD_OF, WORDS

SPELLINGS, ROWS, FIRST_ROWS = "words.jsonl", "rows.bin", "first_rows.bin"
WORDS_AT_ONCE = 4096
TOKENS_AT_ONCE = 1_000_000

Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class IndexedWords:
    """The sorted words of a text; the rows of word k start at `first_rows[k]` in `rows` (N,)."""

    spellings: Sequence[str]
    rows: Numbers
    first_rows: Numbers

    @staticmethod
    def open(folder: Path) -> "IndexedWords":
        """Map a folder's files; raises OSError or ValueError if they are incomplete."""
        spellings = MappedJsonLines[str](folder / SPELLINGS, _is_word)
        rows, first_rows = (_open_numbers(folder / name) for name in (ROWS, FIRST_ROWS))
        if len(first_rows) != len(spellings) + 1 or first_rows[-1] != len(rows):
            raise ValueError(f"{len(spellings)} words in {SPELLINGS}, {len(rows)} rows in {ROWS}")
        return IndexedWords(spellings, rows, first_rows)

    def numbers(self, word: str) -> range:
        """The indices of a word's spellings with upper and lower case."""
        folded = word.casefold()
        return range(
            bisect_left(self.spellings, folded, key=str.casefold),
            bisect_right(self.spellings, folded, key=str.casefold),
        )

    def count(self, numbers: range) -> int:
        """How often the words with these indices occur."""
        return int(self.first_rows[numbers.stop] - self.first_rows[numbers.start])

    def rows_of(self, numbers: range) -> Numbers:
        """The rows of the words with these indices, in the order of the text."""
        return np.sort(self.rows[self.first_rows[numbers.start] : self.first_rows[numbers.stop]])


def write_words(
    folder: Path, words: Iterable[str], embedder: Embedder, n_tokens_at_once: int = TOKENS_AT_ONCE
) -> None:
    """Sort the words, write their files, and renumber `word_of` by the sorted order."""
    unsorted = list(words)
    order = sorted(range(len(unsorted)), key=lambda k: (unsorted[k].casefold(), unsorted[k]))
    with mapped_jsonl_writer(folder / SPELLINGS) as append:
        for number in order:
            append(unsorted[number])
    _write_layer_0(folder, [unsorted[number] for number in order], embedder)
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
    """Renumber the words of the tokens, and sort the tokens by word, in batches."""
    word_of = np.memmap(folder / WORD_OF, np.int64, "r+")
    counts = np.zeros(len(place), np.int64)
    parts = [slice(k, k + n_at_once) for k in range(0, len(word_of), n_at_once)]
    for part in parts:
        word_of[part] = place[word_of[part]]
        counts += np.bincount(word_of[part], minlength=len(place))
    first_rows = np.concatenate([[0], np.cumsum(counts)])
    (folder / FIRST_ROWS).write_bytes(first_rows.data)
    allocate(folder / ROWS, word_of.nbytes)
    rows = np.memmap(folder / ROWS, np.int64, "r+")
    free = first_rows[:-1].copy()  # the next free position of each word
    for part in parts:
        order = np.argsort(word_of[part], kind="stable")
        words, starts, counts = np.unique(
            word_of[part][order], return_index=True, return_counts=True
        )
        # The k-th token of a word in this batch goes to its k-th free position.
        places = np.arange(len(order)) + np.repeat(free[words] - starts, counts)
        rows[places] = order + part.start
        free[words] += counts
    rows.flush()
    word_of.flush()


def _is_word(value: object) -> bool:
    return isinstance(value, str)


def _open_numbers(path: Path) -> Numbers:
    return np.memmap(path, np.int64, "r").view(np.ndarray)  # cheaper to slice
