"""The byte table: words as rows of character ids, and sentences as a batch of words.

In: words of any script. Out: `char_ids` (U, C) of the distinct words, and for each place of a
padded batch which of them stands there. A word is its UTF-8 bytes between two word markers.
All constants of the table live here and nowhere else.
Shapes: B sentences, T tokens, U distinct words, C characters.
"""

import warnings
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

import numpy as np
import torch
from torch import Tensor

from elmo.errors import DataError

NO_CHARACTER = 0  # where a tensor holds no word at all; its vector is zero
BYTE_OFFSET = 1  # byte b has the id b + BYTE_OFFSET
BEGIN_SENTENCE_CHARACTER = 257
END_SENTENCE_CHARACTER = 258
BEGIN_WORD = 259
END_WORD = 260
PADDING_CHARACTER = 261  # after a word's end; it has a learned vector of its own
N_CHARACTERS = 262


class Marker(Enum):
    """A sentence marker. Not a string, so that "<S>" in a text stays text."""

    BEGIN_SENTENCE = BEGIN_SENTENCE_CHARACTER
    END_SENTENCE = END_SENTENCE_CHARACTER


Word = str | Marker


@dataclass(frozen=True)
class Batch:
    """Sentences side by side: the distinct words once, and where each of them stands."""

    char_ids: Tensor  # (U, C), as the model's `WordReader` gives them
    word_index: Tensor  # (B, T), a row of char_ids; 0 where padded
    lengths: Tensor  # (B,)

    @property
    def mask(self) -> Tensor:
        """True where a token stands, (B, T)."""
        places = torch.arange(self.word_index.shape[1], device=self.lengths.device)
        return places < self.lengths[:, None]

    def to(self, device: torch.device | str) -> "Batch":
        """The same batch on another device."""
        return Batch(self.char_ids.to(device), self.word_index.to(device), self.lengths.to(device))


def encode_words(words: Sequence[Word], max_characters: int, widest_filter: int = 1) -> Tensor:
    """Character ids of words, (U, C), with no more columns than make a difference.

    Past a word's end all windows of a filter are alike, so one of them is as good as all: C is the
    longest word plus `widest_filter`, or `max_characters` if that is less.
    """
    # All words at once: a word at a time costs several times as much as the network's lookup.
    spellings = [_spell(word, max_characters) for word in words]
    lengths = np.fromiter(map(len, spellings), dtype=np.int64, count=len(spellings))
    n_columns = min(max_characters, int(lengths.max(initial=0)) + 2 + widest_filter)
    table = np.full((len(spellings), n_columns), PADDING_CHARACTER, dtype=np.int64)
    columns = np.arange(n_columns)
    is_spelling = (columns > 0) & (columns <= lengths[:, None])
    table[is_spelling] = np.frombuffer(b"".join(spellings), dtype=np.uint8)
    table[is_spelling] += BYTE_OFFSET
    table[:, 0] = BEGIN_WORD
    table[np.arange(len(spellings)), lengths + 1] = END_WORD
    for row, word in enumerate(words):
        if isinstance(word, Marker):
            table[row, 1] = word.value
    return torch.from_numpy(table)  # (U, C)


def encode_batch(
    sentences: Sequence[Sequence[str]], max_characters: int, widest_filter: int = 1
) -> Batch:
    """Sentences with their markers as a batch; an empty sentence is its two markers."""
    return batch_sentences(
        sentences, lambda words: encode_words(words, max_characters, widest_filter)
    )


def batch_sentences(
    sentences: Sequence[Sequence[str]], encode: Callable[[Sequence[Word]], Tensor]
) -> Batch:
    """The same with any way to encode words."""
    distinct: dict[Word, int] = {Marker.BEGIN_SENTENCE: 0, Marker.END_SENTENCE: 1}
    rows = [[distinct.setdefault(word, len(distinct)) for word in words] for words in sentences]
    lengths = np.array([len(row) + 2 for row in rows], dtype=np.int64)
    word_index = np.zeros((len(rows), lengths.max(initial=0)), dtype=np.int64)
    for place, row in zip(word_index, rows, strict=True):
        place[1 : len(row) + 1] = row
        place[len(row) + 1] = 1
    return Batch(
        encode(list(distinct)),
        torch.from_numpy(word_index),
        torch.from_numpy(lengths),
    )


def batch_of_char_ids(char_ids: Tensor) -> Batch:
    """A batch of given ids (B, T, C), such as `batch_to_ids` makes, with markers added.

    A place whose ids are all NO_CHARACTER holds no word; words come first in each row.
    """
    _check_char_ids(char_ids)
    n_sentences, n_places, n_columns = char_ids.shape
    is_word = (char_ids != NO_CHARACTER).any(-1)  # (B, T)
    lengths = is_word.sum(1)
    markers = encode_words(list(Marker), n_columns, n_columns).to(char_ids.device)
    words, place = torch.unique(
        torch.cat([markers, char_ids.reshape(-1, n_columns)]), dim=0, return_inverse=True
    )
    index = torch.full((n_sentences, n_places + 2), int(place[0]), device=char_ids.device)
    index[:, 1:-1] = place[2:].reshape(n_sentences, n_places)
    index[torch.arange(n_sentences, device=char_ids.device), lengths + 1] = place[1]
    return Batch(words, index, lengths + 2)


def count_truncated(words: Iterable[str], max_characters: int) -> int:
    """How many words are longer than the `max_characters - 2` bytes that are read."""
    longest = max_characters - 2
    # A character takes at most four bytes, so that most words need not be encoded to be counted.
    return sum(
        len(word) * 4 > longest and len(word.encode("utf-8", "surrogatepass")) > longest
        for word in words
    )


def warn_truncated(n_truncated: int, max_characters: int, unit: str = "bytes") -> None:
    """Tell once that some words were not read to their end."""
    if n_truncated:
        warnings.warn(
            f"{n_truncated} words are longer than {max_characters - 2} {unit}; only their first "
            f"{max_characters - 2} {unit} are read, as the model's max_characters says",
            stacklevel=4,
        )


def _check_char_ids(char_ids: Tensor) -> None:
    expected = "expected char ids (B, T, C) as batch_to_ids makes them; give these or token lists"
    if char_ids.dim() != 3 or char_ids.is_floating_point():
        raise DataError(f"a {char_ids.dtype} tensor {tuple(char_ids.shape)}, {expected}")
    if char_ids.numel():
        lowest, highest = (int(bound) for bound in torch.aminmax(char_ids))
        if lowest < NO_CHARACTER or highest >= N_CHARACTERS:
            raise DataError(f"char ids from {lowest} to {highest}, {expected}")


def _spell(word: Word, max_characters: int) -> bytes:
    """The bytes of a word that are read; a marker has the room of one."""
    if isinstance(word, Marker):
        return b" "
    # Lone surrogates cannot be encoded strictly, but text from the web has them.
    return word.encode("utf-8", "surrogatepass")[: max_characters - 2]
