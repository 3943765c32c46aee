"""The byte table: words as rows of character ids.

In: words of any script. Out: `char_ids` (U, C). A word is its UTF-8 bytes between two word markers.
All constants of the table are defined in this module only.
Shapes: U words, C characters.
"""

import warnings
from collections.abc import Iterable, Sequence
from enum import Enum

import numpy as np
import torch
from torch import Tensor

NO_CHARACTER = 0  # padding of a batch, not a word; its vector is zero
BYTE_OFFSET = 1  # byte b has the id b + BYTE_OFFSET
BEGIN_SENTENCE_CHARACTER = 257
END_SENTENCE_CHARACTER = 258
BEGIN_WORD = 259
END_WORD = 260
PADDING_CHARACTER = 261  # after a word's end; it has a learned vector
N_CHARACTERS = 262


class Marker(Enum):
    """A sentence marker. Not a string, so that "<S>" in a text stays text."""

    BEGIN_SENTENCE = BEGIN_SENTENCE_CHARACTER
    END_SENTENCE = END_SENTENCE_CHARACTER


Word = str | Marker


def encode_words(words: Sequence[Word], max_characters: int, widest_filter: int = 1) -> Tensor:
    """Character ids of words, (U, C).

    Past a word's end all windows of a filter are equal, so one is enough for max-pooling: C is the
    longest word with its markers plus `widest_filter`, at most `max_characters`.
    """
    # Vectorized: one word at a time costs several times as much as the embedding lookup.
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


def count_truncated(words: Iterable[str], max_characters: int) -> int:
    """How many words are longer than the `max_characters - 2` bytes that are read."""
    longest = max_characters - 2
    # A character takes at most four bytes, so most words need not be encoded to be counted.
    return sum(
        len(word) * 4 > longest and len(word.encode("utf-8", "surrogatepass")) > longest
        for word in words
    )


def warn_truncated(n_truncated: int, max_characters: int, unit: str = "bytes") -> None:
    if n_truncated:
        warnings.warn(
            f"{n_truncated} words are longer than {max_characters - 2} {unit}; only their first "
            f"{max_characters - 2} {unit} are read, as the model's max_characters says",
            stacklevel=4,
        )


def _spell(word: Word, max_characters: int) -> bytes:
    """The bytes of a word that the model reads; one placeholder byte for a marker."""
    if isinstance(word, Marker):
        return b" "
    # Lone surrogates cannot be encoded strictly, but occur in text from the web.
    return word.encode("utf-8", "surrogatepass")[: max_characters - 2]
