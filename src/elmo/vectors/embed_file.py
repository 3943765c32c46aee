"""Embed a text file: lines in, a file of vectors out.

In: the paths of a text (plain, .gz, .xz, or `-`), a model and an output, and what is wanted.
Out: the output file, and how much is in it. What can be found wrong is found before the model runs:
the output's place, the input's encoding.
"""

import time
from collections import deque
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Literal

import numpy as np
from tqdm import tqdm

from elmo.api import Elmo
from elmo.files.text_files import STANDARD_INPUT, read_lines
from elmo.inference.embedder import BATCH_TOKENS
from elmo.inference.results import layer_weights
from elmo.text.tokenizer import split_text, tokenize
from elmo.vectors.files import Entry, ParquetFile, Vectors, new_vector_file

Reading = Literal["sentences", "paragraphs", "tokens"]
Precision = Literal["float16", "float32"]


@dataclass(frozen=True)
class Counts:
    """What an output holds."""

    n_sentences: int
    n_tokens: int


def embed_file(
    source: Path,
    out: Path,
    model: Path,
    *,
    options: Path | None = None,
    reading: Reading = "sentences",
    layers: str = "average",
    dtype: Precision = "float32",
) -> Counts:
    """Write the vectors of each sentence of a text; a progress bar shows on a terminal.

    A line is a raw sentence, a raw paragraph (of which blank ones have no sentence), or tokens.
    """
    n_sentences = n_tokens = 0
    with new_vector_file(out) as file:
        progress = Progress(source)
        elmo = Elmo.load(model, options=options)
        none = no_vectors(elmo, layers)  # unknown layers are refused before the text is read
        if isinstance(file, ParquetFile):
            file.no_vectors = none.astype(dtype)
        with progress:
            for entry, vectors in embed_entries(elmo, read_entries(source, reading), layers):
                file.add(entry, vectors.astype(dtype))
                n_sentences += 1
                n_tokens += len(entry.tokens)
                progress.tell(entry)
    return Counts(n_sentences, n_tokens)


def read_entries(source: Path, reading: Reading) -> Iterator[Entry]:
    """The sentences of a text file; a blank line is an empty sentence, so that numbers are kept."""
    for number, line in enumerate(read_lines(source)):
        yield from entries_of_line(line, number, reading)


def entries_of_line(line: str, number: int, reading: Reading) -> Iterator[Entry]:
    """The sentences of one line."""
    if reading == "tokens":
        yield Entry(line.split(), line, None, number)
    elif reading == "sentences":
        sentence = tokenize(line)
        yield Entry(sentence.tokens, line, sentence.offsets, number)
    else:
        for sentence in split_text(line):
            start, end = sentence.offsets[0][0], sentence.offsets[-1][1]
            offsets = [(i - start, j - start) for i, j in sentence.offsets]
            yield Entry(sentence.tokens, line[start:end], offsets, number, start)


def embed_entries(
    elmo: Elmo, entries: Iterable[Entry], layers: str
) -> Iterator[tuple[Entry, Vectors]]:
    """Each sentence with its chosen layer or mix (T, D), or several of them (K, T, D)."""
    weights = layer_weights(layers, elmo.n_layers)
    for is_long, group in groupby(entries, key=lambda entry: len(entry.tokens) > BATCH_TOKENS):
        if is_long:
            for entry in group:  # in chunks: all its layers are never held
                out = np.empty((len(weights), len(entry.tokens), elmo.output_dim), np.float32)
                elmo.embed_into(entry.tokens, out, layers=layers)
                yield entry, _unwrap(out)
        else:
            waiting: deque[Entry] = deque()
            for embedded in elmo.stream(_tokens_noted(group, waiting)):
                mixed = np.tensordot(weights, embedded.layers, axes=1)
                yield waiting.popleft(), _unwrap(mixed)


class Progress:
    """A bar with tokens per second and, for a file, the time left. Reads the file once to know."""

    def __init__(self, source: Path) -> None:
        self._n_characters = (
            None if source == STANDARD_INPUT else sum(map(_n_written, read_lines(source)))
        )
        self._n_tokens = 0

    def __enter__(self) -> "Progress":
        self._started_at = time.perf_counter()
        self._bar = tqdm(
            total=self._n_characters,
            unit=" characters",
            unit_scale=True,
            disable=None,  # unless standard error is a terminal
            bar_format=None
            if self._n_characters is None
            else "{percentage:3.0f}%|{bar}| {elapsed}<{remaining}{postfix}",
        )
        return self

    def __exit__(self, *error: object) -> None:
        self._bar.close()

    def tell(self, entry: Entry) -> None:
        """One more sentence is written."""
        self._n_tokens += len(entry.tokens)
        speed = self._n_tokens / (time.perf_counter() - self._started_at)
        self._bar.set_postfix_str(f"{speed:,.0f} tokens/s", refresh=False)
        self._bar.update(sum(map(len, entry.tokens)))


def no_vectors(elmo: Elmo, layers: str) -> Vectors:
    """What `embed_entries` gives for no token: (0, D) or (K, 0, D)."""
    n_chosen = len(layer_weights(layers, elmo.n_layers))
    return _unwrap(np.empty((n_chosen, 0, elmo.output_dim), np.float32))


def _tokens_noted(entries: Iterator[Entry], noted: deque[Entry]) -> Iterator[list[str]]:
    for entry in entries:
        noted.append(entry)
        yield entry.tokens


def _unwrap(vectors: Vectors) -> Vectors:
    return vectors[0] if len(vectors) == 1 else vectors


def _n_written(line: str) -> int:
    """Characters that are not spaces: as many in a line as in its tokens."""
    return sum(map(len, line.split()))
