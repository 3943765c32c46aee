"""Words as input ids: by their bytes, or by the word and character lists of a model.

In: words and sentence markers. Out: ids (U, C) for `BiLM.token_vectors`: the word's id first if the
model has a list of words, then the ids of its characters if the model reads them.
Shapes: B sentences, T tokens, U distinct words, C ids of a word.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Annotated

import numpy as np
import torch
from torch import Tensor

from elmo.errors import ConfigError, DataError
from elmo.settings import Dim, PositiveInt, checked, raise_problems
from elmo.text.batches import Batch, batch_of_char_ids, batch_sentences
from elmo.text.characters import (
    NO_CHARACTER,
    Marker,
    Word,
    count_truncated,
    encode_words,
    warn_truncated,
)
from elmo.text.vocabulary import BEGIN, END, Vocabulary, read_list, write_list

# Special ids, which precede those of listed characters; NO_CHARACTER is the first, as with bytes.
BEGIN_SENTENCE_CHARACTER = NO_CHARACTER + 1
END_SENTENCE_CHARACTER = NO_CHARACTER + 2
BEGIN_WORD = NO_CHARACTER + 3
END_WORD = NO_CHARACTER + 4
PADDING_CHARACTER = NO_CHARACTER + 5
UNKNOWN_CHARACTER = NO_CHARACTER + 6
FIRST_CHARACTER = NO_CHARACTER + 7

# Files of a model folder.
LISTS = WORDS, CHARACTERS = "input_words.txt", "characters.txt"

MARKER_NUMBERS = {Marker.BEGIN_SENTENCE: BEGIN, Marker.END_SENTENCE: END}
MARKER_CHARACTERS = {
    Marker.BEGIN_SENTENCE: BEGIN_SENTENCE_CHARACTER,
    Marker.END_SENTENCE: END_SENTENCE_CHARACTER,
}


@dataclass(frozen=True, kw_only=True, slots=True)
@checked
class LexiconConfig:
    """Word and character lists of a model, used with or instead of the bytes of words."""

    n_words: Annotated[PositiveInt | None, "size of the word list, with three special words"] = None
    word_dim: Annotated[Dim | None, "size of a word embedding"] = None
    n_characters: Annotated[PositiveInt | None, "size of the list of Unicode characters"] = None
    has_projection: Annotated[bool, "a linear layer over word and character vectors"] = False

    def __post_init__(self) -> None:
        if (self.n_words is None) != (self.word_dim is None):
            raise_problems(self, ["one of n_words and word_dim is absent, expected both or none"])


@dataclass(frozen=True)
class Lexicon:
    """The lists of a model: whole words, and Unicode characters instead of bytes.

    A model may have both, one, or none.
    """

    words: Vocabulary | None = None
    characters: tuple[str, ...] | None = None

    def check(self, config: LexiconConfig) -> None:
        """Raise a ConfigError if the lists do not have the lengths of the network's tables."""
        for name, entries, expected in (
            ("words", self.words, config.n_words),
            ("characters", self.characters, config.n_characters),
        ):
            found = None if entries is None else len(entries)
            if found != expected:
                raise ConfigError(
                    f"a lexicon with {found or 'no'} {name}, expected {expected or 'none'} as the "
                    "config says; give the lists of this model"
                )

    @staticmethod
    def read(folder: Path, config: LexiconConfig | None) -> "Lexicon":
        """Read the lists in a model folder."""
        config = config or LexiconConfig()
        return Lexicon(
            None if config.n_words is None else Vocabulary.read(folder / WORDS),
            None if config.n_characters is None else tuple(read_list(folder / CHARACTERS)),
        )

    def write(self, folder: Path) -> None:
        """Write the lists into a model folder, one entry per line."""
        if self.words is not None:
            self.words.write(folder / WORDS)
        if self.characters is not None:
            write_list(folder / CHARACTERS, self.characters)

    def word_numbers(self, words: Sequence[Word]) -> Tensor:
        """The id of each word in the list, (U, 1)."""
        assert self.words is not None
        numbers = self.words.ids([word if isinstance(word, str) else "" for word in words])
        for k, word in enumerate(words):
            if isinstance(word, Marker):
                numbers[k] = MARKER_NUMBERS[word]
        return torch.from_numpy(numbers)[:, None]

    def characters_of(self, words: Sequence[Word], n_columns: int) -> Tensor:
        """The ids of words' characters, each word between its markers, then padding, (U, C)."""
        table = np.full((len(words), n_columns), PADDING_CHARACTER, dtype=np.int64)
        for row, word in zip(table, words, strict=True):
            if isinstance(word, Marker):
                ids = [MARKER_CHARACTERS[word]]
            else:
                ids = [self._character_ids.get(c, UNKNOWN_CHARACTER) for c in word]
            row[: len(ids) + 2] = [BEGIN_WORD, *ids, END_WORD]
        return torch.from_numpy(table)

    @cached_property
    def _character_ids(self) -> dict[str, int]:
        return {c: FIRST_CHARACTER + k for k, c in enumerate(self.characters or ())}


@dataclass(frozen=True)
class WordEncoder:
    """Encodes words as the input ids of a network."""

    lexicon: Lexicon
    max_characters: int | None  # None: the model reads no characters
    widest_filter: int

    @property
    def reads_bytes_alone(self) -> bool:
        """Whether the model has no lists, like all models in the format of the original ELMo."""
        return self.lexicon == Lexicon()

    def encode(self, words: Sequence[Word]) -> Tensor:
        """Ids of words, (U, C)."""
        if self.lexicon.characters is not None and self.max_characters is not None:
            # Truncate before the lookup in the word list too, like ELMoForManyLangs.
            n_read = self.max_characters - 2
            words = [word[:n_read] if isinstance(word, str) else word for word in words]
        parts = []
        if self.lexicon.words is not None:
            parts.append(self.lexicon.word_numbers(words))
        if self.max_characters is not None:
            parts.append(self._characters(words, self.max_characters))
        return torch.cat(parts, dim=1)

    def batch(self, sentences: Sequence[Sequence[str]]) -> Batch:
        """Build a batch of sentences with markers; an empty sentence is just the two markers."""
        return batch_sentences(sentences, self.encode)

    def batch_of_char_ids(self, char_ids: Tensor) -> Batch:
        """Build a batch from the ids (B, T, C) of bytes, such as `batch_to_ids` returns."""
        if not self.reads_bytes_alone:
            raise DataError(
                f"char ids {tuple(char_ids.shape)} for a model with its own lists of words or "
                "characters, expected token lists"
            )
        return batch_of_char_ids(char_ids, self.widest_filter)

    def count_truncated(self, words: Iterable[str]) -> int:
        """The number of words that are longer than the model reads."""
        if self.max_characters is None:
            return 0
        if self.lexicon.characters is None:
            return count_truncated(words, self.max_characters)
        return sum(len(word) > self.max_characters - 2 for word in words)

    def warn_truncated(self, n_truncated: int) -> None:
        if self.max_characters is not None:
            unit = "bytes" if self.lexicon.characters is None else "characters"
            warn_truncated(n_truncated, self.max_characters, unit)

    def _characters(self, words: Sequence[Word], max_characters: int) -> Tensor:
        if self.lexicon.characters is None:
            return encode_words(words, max_characters, self.widest_filter)
        # `encode_words` explains the number of columns.
        longest = max((len(word) for word in words if isinstance(word, str)), default=1)
        n_columns = min(max_characters, max(longest, 1) + 2 + self.widest_filter)
        return self.lexicon.characters_of(words, n_columns)
