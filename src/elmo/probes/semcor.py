"""SemCor: sentences whose words are marked with their WordNet senses.

In: JSON lines, plain, .gz or .xz, {"tokens": [...], "senses": [[start, end, lemma, tag, key]]}: a
sense is that of the tokens from start to before end. Out: `SenseSentence`s.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from elmo.errors import DataError
from elmo.files.text_files import read_lines

# The first digit of a sense key, after the lemma.
PARTS_OF_SPEECH = {"1": "n", "2": "v", "3": "a", "4": "r", "5": "a"}


@dataclass(frozen=True)
class MarkedSense:
    """Some tokens of a sentence, and what they mean: mostly one key, sometimes several."""

    start: int
    end: int
    keys: tuple[str, ...]


@dataclass(frozen=True)
class SenseSentence:
    """A sentence, and the senses of some of its words."""

    tokens: list[str]
    senses: list[MarkedSense]


def read_semcor(path: Path) -> list[SenseSentence]:
    """The sentences of a file, in their order."""
    sentences = list(_sentences(path))
    if not any(sentence.senses for sentence in sentences):
        raise DataError(f"{path}: no senses, expected SemCor as JSON lines; name such a file")
    return sentences


def lemma_of(key: str) -> tuple[str, str]:
    """The lemma and the part of speech of a sense key."""
    lemma, _, rest = key.partition("%")
    return lemma, PARTS_OF_SPEECH[rest[:1]]


def is_key(text: str) -> bool:
    """Whether a text is a sense key, such as "bow%1:10:00::"."""
    lemma, _, rest = text.partition("%")
    return bool(lemma) and rest[:1] in PARTS_OF_SPEECH and rest.count(":") == 4


def _sentences(path: Path) -> Iterator[SenseSentence]:
    for number, line in enumerate(read_lines(path), start=1):
        if not line:
            continue
        try:
            sentence = json.loads(line)
            tokens = [str(token) for token in sentence["tokens"]]
            senses = [_sense(marked, len(tokens)) for marked in sentence["senses"]]
        except (ValueError, KeyError, TypeError) as error:
            raise DataError(
                f"{path}:{number}: not a marked sentence ({error}), expected JSON with tokens, and "
                "senses of [start, end, lemma, tag, key]; mend the line or name another file"
            ) from error
        yield SenseSentence(tokens, senses)


def _sense(marked: Any, n_tokens: int) -> MarkedSense:  # noqa: ANN401 - whatever the JSON holds
    start, end, _, _, key = marked
    lemma, _, rest = str(key).partition("%")
    # Of several senses only the first has the lemma: year%1:28:02::;1:28:01::
    keys = tuple(f"{lemma}%{part.removeprefix(f'{lemma}%')}" for part in rest.split(";"))
    if not 0 <= int(start) < int(end) <= n_tokens:
        raise ValueError(f"tokens {start} to {end} of {n_tokens}")
    if not all(map(is_key, keys)):
        raise ValueError(f"the sense key {key!r}")
    return MarkedSense(int(start), int(end), keys)
