"""CoNLL-U, the format of Universal Dependencies: sentences with a tag for each word.

In: a file, plain, .gz or .xz. Out: `TaggedSentence`s. Only words and their tags are read; ranges
of words written as one (`1-2`) and words that are not written (`8.1`) are left out.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from elmo.errors import DataError
from elmo.files.text_files import read_lines

Tags = Literal["upos", "xpos"]  # those of all languages, or of the treebank's own (Penn's)

N_COLUMNS = 10
FORM = 1
TAG_COLUMNS: dict[Tags, int] = {"upos": 3, "xpos": 4}

_WORD_NUMBER = re.compile(r"[1-9][0-9]*")
_OTHER_NUMBER = re.compile(r"[0-9]+[-.][0-9]+")


@dataclass(frozen=True)
class TaggedSentence:
    """Words and their parts of speech."""

    tokens: list[str]
    tags: list[str]


def read_tagged(path: Path, tags: Tags = "xpos") -> list[TaggedSentence]:
    """The sentences of a file, in their order."""
    sentences = [sentence for sentence in _sentences(path, TAG_COLUMNS[tags]) if sentence.tokens]
    if not sentences:
        raise DataError(f"{path}: no words, expected sentences in CoNLL-U; name such a file")
    return sentences


def _sentences(path: Path, tag_column: int) -> Iterator[TaggedSentence]:
    sentence = TaggedSentence([], [])
    for number, line in enumerate(read_lines(path), start=1):
        if not line:
            yield sentence
            sentence = TaggedSentence([], [])
        elif not line.startswith("#"):
            columns = line.split("\t")
            if len(columns) != N_COLUMNS or not columns[FORM]:
                raise DataError(
                    f"{path}:{number}: {len(columns)} columns, expected the {N_COLUMNS} of CoNLL-U "
                    "with tabs between them; mend the line or name another file"
                )
            if _WORD_NUMBER.fullmatch(columns[0]):
                sentence.tokens.append(columns[FORM])
                sentence.tags.append(columns[tag_column])
            elif not _OTHER_NUMBER.fullmatch(columns[0]):
                raise DataError(
                    f"{path}:{number}: the word's number is {columns[0]!r}, expected one such as "
                    "3, 3-4 or 3.1; mend the line or name another file"
                )
    yield sentence
