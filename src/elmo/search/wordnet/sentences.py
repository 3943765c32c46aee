"""Sentences, shipped with the package, that show a word in a known sense.

In: nothing. Out: `SenseExample`s: those of WordNet's glosses, and a few of our own for five words.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from elmo.errors import DataError
from elmo.files.text_files import read_lines
from elmo.inference.occurrence import Occurrence

SENTENCES = Path(__file__).with_name("sentences.txt.xz")
WRITTEN = Path(__file__).with_name("written.txt")


@dataclass(frozen=True)
class SenseExample:
    """A sentence that shows a sense of one of its words."""

    key: str  # of the sense: "bow%1:10:00::"
    position: int  # of the word
    tokens: Sequence[str]

    @property
    def lemma(self) -> str:
        """The dictionary form of the word."""
        return self.key.partition("%")[0]

    @property
    def word(self) -> str:
        """The word as it is written in the sentence."""
        return self.tokens[self.position]


@cache
def read_examples(path: Path = SENTENCES) -> list[SenseExample]:
    """Read WordNet's examples, sorted by sense key."""
    examples = []
    for number, line in enumerate(read_lines(path), start=1):
        key, _, rest = line.partition("\t")
        position, _, text = rest.partition("\t")
        tokens = text.split(" ")
        if not position.isdecimal() or int(position) >= len(tokens) or "%" not in key:
            raise DataError(
                f"{path}:{number}: no example, expected a sense's key, the place of its word, and "
                "tokens"
            )
        examples.append(SenseExample(key, int(position), tokens))
    return examples


@cache
def read_written(path: Path = WRITTEN) -> list[SenseExample]:
    """Read our own examples, in which the word is between asterisks."""
    examples = []
    for line in read_lines(path):
        key, _, sentence = line.partition("\t")
        occurrence = Occurrence.marked(sentence)
        examples.append(SenseExample(key, occurrence.position, list(occurrence.tokens)))
    return examples
