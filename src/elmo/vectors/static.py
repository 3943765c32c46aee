"""Static word vectors: one per word, as in word2vec and GloVe.

In: a text file of word2vec or GloVe (plain, .gz or .xz), or words or text to embed. Out:
`StaticVectors`, which looks up words, and files in the formats of word2vec.
Shapes: V words of the file, N words that are looked up, D width.
"""

from array import array
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isfinite
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray

from elmo.api import Elmo
from elmo.errors import ConfigError, DataError
from elmo.files.atomic import atomic_write
from elmo.files.text_files import find_text_files, read_raw_lines
from elmo.inference.results import Layers, equal_fields
from elmo.text.batches import number_words
from elmo.text.lines import LineFormat, read_sentences
from elmo.text.vocabulary import read_list

EXTENSIONS = (".txt", ".vec", ".bin")


@dataclass(frozen=True, eq=False)
class StaticVectors:
    """Words and their vectors."""

    words: list[str]
    vectors: NDArray[np.float32]  # (V, D)

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and equal_fields(self, other)

    @staticmethod
    def read(path: Path) -> "StaticVectors":
        """Read the text format of GloVe or word2vec; the first of duplicate words counts."""
        rows: dict[str, int] = {}
        numbers = array("f")
        n_numbers: int | None = None
        for line_number, line in enumerate(read_raw_lines(path), start=1):
            fields = line.rstrip(" \r\n").split(" ")
            if line_number == 1 and len(fields) == 2 and all(map(str.isdecimal, fields)):
                continue  # word2vec's header
            n_numbers = n_numbers or len(fields) - 1
            # From the right: some words of GloVe's larger files contain spaces.
            word, values = " ".join(fields[:-n_numbers]), fields[-n_numbers:]
            if word and word not in rows:
                rows[word] = len(rows)
                numbers.extend(_parse(values, f"{path}:{line_number}"))
            elif not word:
                raise _unlike(f"{path}:{line_number}", n_numbers)
        if not rows:
            raise DataError(f"{path}: no words, expected a word and its numbers on each line")
        vectors = np.frombuffer(numbers, dtype=np.float32).reshape(len(rows), -1)
        return StaticVectors(list(rows), vectors)

    @property
    def dim(self) -> int:
        return int(self.vectors.shape[1])

    def __contains__(self, word: str) -> bool:
        """Whether a word has a vector, as written or in lower case."""
        return self._row(word) is not None

    def lookup(self, words: Sequence[str]) -> NDArray[np.float32]:
        """The vectors of words (N, D), zeros for unknown words.

        A word that is not found as written is looked up in lower case: some files of GloVe have
        only lowercase words.
        """
        found = [self._row(word) for word in words]
        known = [place for place, row in enumerate(found) if row is not None]
        vectors = np.zeros((len(words), self.dim), dtype=np.float32)
        vectors[known] = self.vectors[[row for row in found if row is not None]]
        return vectors

    def write(self, path: Path) -> None:
        """Write the text format of word2vec, or its binary format if the path ends with .bin."""
        check_extension(path)
        for word in self.words:
            if not word or set(word) & set(" \t\r\n"):
                raise DataError(
                    f"the word {word!r} cannot be written in a format of word2vec, expected a word "
                    "without spaces"
                )
        is_binary = path.suffix == ".bin"
        with atomic_write(path) as temporary, temporary.open("wb") as file:
            file.write(f"{len(self.words)} {self.dim}\n".encode())
            for word, vector in zip(self.words, self.vectors, strict=True):
                # Text: the shortest decimals that round-trip.
                row = vector.tobytes() if is_binary else " ".join(vector.astype(np.str_)).encode()
                file.write(word.encode("utf-8") + b" " + row + b"\n")

    def _row(self, word: str) -> int | None:
        row = self._rows.get(word)
        return self._rows.get(word.lower()) if row is None else row

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {word: row for row, word in enumerate(self.words)}


def check_extension(path: Path) -> None:
    """Raise a ConfigError if a path has an unknown extension."""
    if path.suffix not in EXTENSIONS:
        raise ConfigError(
            f"{path}: unknown file extension {path.suffix!r}, expected one of "
            f"{', '.join(EXTENSIONS)}"
        )


def _parse(values: Sequence[str], where: str) -> list[float]:
    try:
        numbers = list(map(float, values))
    except ValueError as error:
        raise _unlike(where, len(values)) from error
    if not isfinite(sum(numbers)):  # not finite if any of the numbers is not
        raise _unlike(where, len(values))
    return numbers


def _unlike(where: str, n_numbers: int) -> DataError:
    expected = f"{n_numbers} finite numbers, as the first line has" if n_numbers else "its numbers"
    return DataError(
        f"{where}: expected a word and {expected}, as in a text file of GloVe or word2vec"
    )


WORDS_AT_ONCE = 4096


def static_from_words(elmo: Elmo, words: Iterable[str]) -> StaticVectors:
    """Static vectors of words without context: their layer 0, (V, P)."""
    elmo.model.refuse_alignment("static vectors of words", 0)
    distinct = list(dict.fromkeys(words))
    width = elmo.bilm.config.lstm.projection_dim
    vectors = np.empty((len(distinct), width), dtype=np.float32)
    with torch.inference_mode():
        for start in range(0, len(distinct), WORDS_AT_ONCE):
            some = slice(start, start + WORDS_AT_ONCE)
            vectors[some] = elmo.embedder.cache.vectors(distinct[some]).float().cpu().numpy()
    return StaticVectors(distinct, vectors)


def static_from_text(
    elmo: Elmo,
    sentences: Iterable[Sequence[str]],
    *,
    layers: Layers = "average",
    min_count: int = 1,
) -> StaticVectors:
    """The mean vector of each word over a text, most frequent words first, (V, D)."""
    rows: dict[str, int] = {}
    totals = np.zeros((1024, elmo.output_dim))
    counts = np.zeros(1024, dtype=np.int64)
    for embedded in elmo.stream_tokens(sentences):
        places = number_words(embedded.tokens, rows)
        while len(rows) > len(counts):
            totals, counts = (np.concatenate([a, np.zeros_like(a)]) for a in (totals, counts))
        np.add.at(totals, places, embedded.vectors(layers))
        np.add.at(counts, places, 1)
    order = np.argsort(-counts[: len(rows)], kind="stable")
    kept = order[counts[order] >= min_count]
    words = list(rows)
    means = totals[kept] / counts[kept, None]
    return StaticVectors([words[row] for row in kept], means.astype(np.float32))


def export_static(
    out: Path,
    model: Path,
    *,
    vocabulary: Path | None = None,
    text: str | Path | Sequence[str] | None = None,
    lines: LineFormat = "paragraphs",
    layers: str = "average",
    min_count: int = 1,
) -> StaticVectors:
    """Write static vectors of the words of a vocabulary file, or of texts (paths or globs)."""
    check_extension(out)
    if (vocabulary is None) == (text is None):
        given = "neither" if text is None else "both"
        raise ConfigError(
            f"{given} of vocabulary and text given, expected either one (--vocabulary or --text)"
        )
    elmo = Elmo.load(model)
    if vocabulary is not None:
        static = static_from_words(elmo, read_list(vocabulary))
    else:
        assert text is not None
        texts = [text] if isinstance(text, str | Path) else text
        static = static_from_text(
            elmo, read_sentences(find_text_files(*texts), lines), layers=layers, min_count=min_count
        )
    static.write(out)
    return static
