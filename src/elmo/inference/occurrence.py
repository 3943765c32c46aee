"""One token of a sentence, for which neighbors and substitutes are searched.

In: tokens and a position, or a raw sentence with the word between asterisks. Out: an `Occurrence`.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass

from elmo.errors import DataError
from elmo.text.inputs import as_sentence, check_tokens
from elmo.text.tokenizer import tokenize

_MARKED = re.compile(r"\*(?=\S)([^*]+)(?<=\S)\*")


@dataclass(frozen=True)
class Occurrence:
    """A sentence's tokens and a position among them, from 0."""

    tokens: Sequence[str]
    position: int

    def __post_init__(self) -> None:
        check_tokens(self.tokens)
        if not 0 <= self.position < len(self.tokens):
            n_tokens = len(self.tokens)
            expected = f"0 to {n_tokens - 1}" if n_tokens else "a sentence with at least one token"
            raise DataError(
                f"position {self.position} in a sentence of {n_tokens} tokens, expected {expected}"
            )

    @property
    def word(self) -> str:
        """The word itself."""
        return self.tokens[self.position]

    @staticmethod
    def of(sentence: str | Sequence[str], position: int | None = None) -> "Occurrence":
        """The word at a position of a raw sentence or of a list of tokens.

        Without a position, the word is the one between asterisks in a raw sentence.
        """
        if position is None:
            if not isinstance(sentence, str):
                raise DataError(
                    "a list of tokens was given without a position, expected the index of a token, "
                    "from 0"
                )
            return Occurrence.marked(sentence)
        return Occurrence(as_sentence(sentence).tokens, position)

    @staticmethod
    def marked(sentence: str) -> "Occurrence":
        """The word between asterisks: "I took a *bow*."."""
        marks = list(_MARKED.finditer(sentence))
        if len(marks) != 1:
            raise DataError(
                f"{sentence!r}: {len(marks)} words between asterisks, expected one, as in "
                "'I took a *bow*.'"
            )
        start = marks[0].start()
        cut = tokenize(sentence[:start] + marks[0].group(1) + sentence[marks[0].end() :])
        position = next(k for k, (_, end) in enumerate(cut.offsets) if end > start)
        return Occurrence(cut.tokens, position)
