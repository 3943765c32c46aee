"""Batches of sentences of similar length, in which each distinct word is encoded once.

In: sentences of tokens, or their lengths. Out: the index of each word among the distinct ones,
the sentences of each batch, or a padded `Batch`. Used by inference, pre-training and tasks.
Shapes: B sentences, T tokens, U distinct words, C characters.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from typing import TypeVar

import numpy as np
import torch
from torch import Tensor

from elmo.errors import DataError
from elmo.text.characters import N_CHARACTERS, NO_CHARACTER, Marker, Word, encode_words

Item = TypeVar("Item")


@dataclass(frozen=True)
class Batch:
    """Padded sentences: the ids of the distinct words, and the row of each token in them."""

    char_ids: Tensor  # (U, C), as the model's word encoder returns them
    word_index: Tensor  # (B, T), a row of char_ids; any row where padded
    lengths: Tensor  # (B,), on the CPU unless built from char ids

    @property
    def mask(self) -> Tensor:
        """True for tokens, False for padding, (B, T)."""
        device = self.word_index.device
        positions = torch.arange(self.word_index.shape[1], device=device)
        return positions < self.lengths.to(device)[:, None]

    def to(self, device: torch.device | str) -> "Batch":
        """Move the batch to a device, except for its lengths, as the CPU plans the steps."""
        return Batch(self.char_ids.to(device), self.word_index.to(device), self.lengths)


def marker_numbers() -> dict[Word, int]:
    """A new dictionary of distinct words, with the sentence markers at indices 0 and 1."""
    return {Marker.BEGIN_SENTENCE: 0, Marker.END_SENTENCE: 1}


def number_words(words: Iterable[Item], distinct: dict[Item, int]) -> list[int]:
    """The index of each word in `distinct`, to which new words are added."""
    return [distinct.setdefault(word, len(distinct)) for word in words]


def batches_by_length(
    lengths: Sequence[int],
    *,
    max_items: float = inf,
    max_tokens: float = inf,
    max_padded_tokens: float = inf,
    min_ratio: float = 0.0,
    longest_first: bool = True,
) -> Iterator[list[int]]:
    """Batches of items of similar length, as indices of `lengths`; the sort by length is stable.

    `max_padded_tokens` counts each item as long as the longest of its batch; `min_ratio` is the
    minimum ratio of an item's length to the longest. An item that is too long is its own batch.
    """
    batch: list[int] = []
    n_tokens = longest = 0
    for k in sorted(range(len(lengths)), key=lengths.__getitem__, reverse=longest_first):
        longest = max(longest, lengths[k])
        if batch and (
            len(batch) >= max_items
            or n_tokens + lengths[k] > max_tokens
            or (len(batch) + 1) * longest > max_padded_tokens
            or lengths[k] < min_ratio * longest
        ):
            yield batch
            batch, n_tokens, longest = [], 0, lengths[k]
        batch.append(k)
        n_tokens += lengths[k]
    if batch:
        yield batch


def windows(items: Iterable[Item], size: Callable[[Item], int], limit: int) -> Iterator[list[Item]]:
    """Group items in order into lists that end with the item that brings their size to the limit.

    Items are sorted by length within a window, so that a stream needs bounded memory.
    """
    window: list[Item] = []
    total = 0
    for item in items:
        window.append(item)
        total += size(item)
        if total >= limit:
            yield window
            window, total = [], 0
    if window:
        yield window


def batch_sentences(
    sentences: Sequence[Sequence[str]], encode: Callable[[Sequence[Word]], Tensor]
) -> Batch:
    """Build a batch of sentences with markers; an empty sentence is just the two markers."""
    distinct = marker_numbers()
    rows = [number_words(words, distinct) for words in sentences]
    lengths = np.array([len(row) + 2 for row in rows], dtype=np.int64)
    word_index = np.zeros((len(rows), lengths.max(initial=0)), dtype=np.int64)
    for padded, row in zip(word_index, rows, strict=True):
        padded[1 : len(row) + 1] = row
        padded[len(row) + 1] = 1
    return Batch(
        encode(list(distinct)),
        torch.from_numpy(word_index),
        torch.from_numpy(lengths),
    )


def batch_of_char_ids(char_ids: Tensor, widest_filter: int = 1) -> Batch:
    """Build a batch from char ids (B, T, C), such as `batch_to_ids` returns, with markers added.

    A position whose ids are all NO_CHARACTER is padding, which must follow the words of a row.
    """
    _check_char_ids(char_ids, widest_filter)
    n_sentences, n_positions, n_columns = char_ids.shape
    is_word = (char_ids != NO_CHARACTER).any(-1)  # (B, T)
    lengths = is_word.sum(1)
    if (is_word[:, 1:] & ~is_word[:, :-1]).any():
        raise DataError(
            f"char ids {tuple(char_ids.shape)} with a word after padding, expected all words of a "
            f"sentence before its padding (positions where all ids are {NO_CHARACTER})"
        )
    markers = encode_words(list(Marker), n_columns, n_columns).to(char_ids.device)
    words, rows = torch.unique(
        torch.cat([markers, char_ids.reshape(-1, n_columns)]), dim=0, return_inverse=True
    )
    index = torch.full((n_sentences, n_positions + 2), int(rows[0]), device=char_ids.device)
    index[:, 1:-1] = rows[2:].reshape(n_sentences, n_positions)
    index[torch.arange(n_sentences, device=char_ids.device), lengths + 1] = rows[1]
    return Batch(words, index, lengths + 2)


def _check_char_ids(char_ids: Tensor, widest_filter: int) -> None:
    n_least = max(3, widest_filter)  # a marker takes three
    expected = (
        f"expected char ids (B, T, C), C at least {n_least}, as batch_to_ids makes them, or token "
        "lists"
    )
    if char_ids.dim() != 3 or char_ids.shape[2] < n_least or char_ids.is_floating_point():
        raise DataError(f"a {char_ids.dtype} tensor {tuple(char_ids.shape)}, {expected}")
    if char_ids.numel():
        lowest, highest = (int(bound) for bound in torch.aminmax(char_ids))
        if lowest < NO_CHARACTER or highest >= N_CHARACTERS:
            raise DataError(f"char ids from {lowest} to {highest}, {expected}")
