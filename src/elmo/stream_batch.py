"""Batches of packed tokens: what language models read, and what they should have foreseen.

In: words by their places in reading order. Out: a `StreamBatch`: the distinct words' characters
once, and for each token of each direction which of them is read and which number comes next.
Shapes: N packed tokens, U distinct words, C characters.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from elmo.chars import Marker, Word
from elmo.checkpoint import Model
from elmo.config import Direction
from elmo.lexicon import WordReader
from elmo.vocab import BEGIN, END, Vocabulary


@dataclass(frozen=True)
class StreamBatch:
    """Packed tokens to read and to predict, each direction in its own reading order."""

    char_ids: Tensor  # (U, C), the distinct words of all directions
    index: tuple[Tensor, ...]  # per direction (N,), the row of char_ids that is read
    targets: tuple[Tensor, ...]  # per direction (N,), the number of the output word
    resets: tuple[Tensor, ...] | None  # per direction (N,), true: the state is zero before this
    batch_sizes: list[int]

    def to(self, device: torch.device | str) -> "StreamBatch":
        """The same batch on another device."""
        return StreamBatch(
            self.char_ids.to(device),
            tuple(index.to(device) for index in self.index),
            tuple(targets.to(device) for targets in self.targets),
            None if self.resets is None else tuple(reset.to(device) for reset in self.resets),
            self.batch_sizes,
        )


@dataclass(frozen=True)
class WordEncoder:
    """What a model needs of a word: its characters to read it, its number to predict it."""

    vocabulary: Vocabulary
    reader: WordReader

    @staticmethod
    def of(model: Model) -> "WordEncoder":
        """As a model that predicts words needs it."""
        assert model.vocabulary is not None
        return WordEncoder(model.vocabulary, model.bilm.reader)

    def char_ids(self, words: Sequence[Word]) -> Tensor:
        """Characters of words, (U, C)."""
        return self.reader.encode(words)

    def numbers(self, words: Sequence[Word]) -> npt.NDArray[np.int64]:
        """Numbers of output words; the first two words are the begin and the end marker."""
        return np.concatenate([[BEGIN, END], self.vocabulary.ids(words[2:])])  # type: ignore[arg-type]


def pack_sentences(
    sentences: Sequence[Sequence[str]], encoder: WordEncoder, directions: Sequence[Direction]
) -> StreamBatch:
    """Whole sentences, each from its start, for models to be measured on; longest first."""
    known = known_markers()
    ordered = sorted(sentences, key=len, reverse=True)
    items = [[0, *(known.setdefault(word, len(known)) for word in words), 1] for words in ordered]
    lines = {"forward": items, "backward": [row[::-1] for row in items]}
    n_steps = len(ordered[0]) + 1
    batch_sizes = [sum(len(words) + 1 > step for words in ordered) for step in range(n_steps)]
    return make_batch(
        known,
        [_pack(lines[direction], batch_sizes, 0) for direction in directions],
        [_pack(lines[direction], batch_sizes, 1) for direction in directions],
        None,
        batch_sizes,
        encoder,
    )


def make_batch(
    known: Mapping[Word, int],
    inputs: Sequence[npt.NDArray[np.int64]],
    targets: Sequence[npt.NDArray[np.int64]],
    resets: Sequence[npt.NDArray[np.int64]] | None,
    batch_sizes: list[int],
    encoder: WordEncoder,
) -> StreamBatch:
    """A batch of packed tokens, given as places among the words known."""
    words = list(known)
    # Words that are only predicted here need no characters.
    is_read = np.zeros(len(words), dtype=bool)
    is_read[np.concatenate(inputs)] = True
    place = np.cumsum(is_read) - 1
    numbers = encoder.numbers(words)
    return StreamBatch(
        encoder.char_ids([words[number] for number in np.flatnonzero(is_read)]),
        tuple(torch.from_numpy(place[rows]) for rows in inputs),
        tuple(torch.from_numpy(numbers[rows]) for rows in targets),
        None if resets is None else tuple(torch.from_numpy(rows.astype(bool)) for rows in resets),
        batch_sizes,
    )


def known_markers() -> dict[Word, int]:
    """The places that the sentence markers have in every batch."""
    return {Marker.BEGIN_SENTENCE: 0, Marker.END_SENTENCE: 1}


def _pack(
    rows: Sequence[Sequence[int]], batch_sizes: Sequence[int], first: int
) -> npt.NDArray[np.int64]:
    """Rows of falling length -> (N,), time first, beginning with item `first` of each row."""
    return np.array(
        [row[first + step] for step, n in enumerate(batch_sizes) for row in rows[:n]],
        dtype=np.int64,
    )
