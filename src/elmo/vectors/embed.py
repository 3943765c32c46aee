"""Embed a text file: lines in, a file of vectors out.

In: the paths of a text (plain, .gz, .xz, or `-`), a model and an output, and what is wanted.
Out: the output file with one record per line, and how much is in it. A record has the vectors that
`Elmo.embed(line)` gives. What can be found wrong is found before the model runs: the output's path,
the input's encoding.
"""

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate, groupby, islice, pairwise, tee
from pathlib import Path
from typing import Literal

import numpy as np
from tqdm import tqdm

from elmo.api import Elmo
from elmo.files.text_files import STANDARD_INPUT, read_lines
from elmo.inference.embedder import BATCH_TOKENS
from elmo.inference.results import layer_weights
from elmo.text.lines import LineFormat, split_line
from elmo.vectors.files import Entry, ParquetFile, Vectors, new_vector_file

Precision = Literal["float16", "float32"]


@dataclass(frozen=True)
class Counts:
    """What an output holds."""

    n_lines: int
    n_sentences: int
    n_tokens: int


def embed_file(
    source: Path,
    out: Path,
    model: Path,
    *,
    options: Path | None = None,
    lines: LineFormat = "paragraphs",
    layers: str = "average",
    dtype: Precision = "float32",
) -> Counts:
    """Write the vectors of each line of a text; a progress bar shows on a terminal.

    `lines` says what a line is: a paragraph that is split into sentences, one sentence, or tokens.
    """
    n_lines = n_sentences = n_tokens = 0
    with new_vector_file(out) as file:
        progress = Progress(source)
        elmo = Elmo.load(model, options=options)
        none = no_vectors(elmo, layers)  # unknown layers are refused before the text is read
        if isinstance(file, ParquetFile):
            file.no_vectors = none.astype(dtype)
        entries = (make_entry(line, k, lines) for k, line in enumerate(read_lines(source)))
        with progress:
            for entry, vectors in embed_entries(elmo, entries, layers):
                file.add(entry, vectors.astype(dtype))
                n_lines += 1
                n_sentences += len(entry.sentences)
                n_tokens += len(entry.tokens)
                progress.update(entry)
    return Counts(n_lines, n_sentences, n_tokens)


def make_entry(line: str, number: int, lines: LineFormat) -> Entry:
    """A line of a text with its tokens, ready to be embedded."""
    sentences = split_line(line, lines)
    ends = accumulate((len(sentence.tokens) for sentence in sentences), initial=0)
    return Entry(
        tokens=[token for sentence in sentences for token in sentence.tokens],
        text=line,
        offsets=None
        if lines == "tokens"
        else [offset for sentence in sentences for offset in sentence.offsets],
        sentences=list(pairwise(ends)),
        line=number,
    )


def embed_entries(
    elmo: Elmo, entries: Iterable[Entry], layers: str
) -> Iterator[tuple[Entry, Vectors]]:
    """Each line with its chosen layer or mix (T, D), or several of them (K, T, D)."""
    none = no_vectors(elmo, layers)
    entries, ahead = tee(entries)
    sentences = (entry.tokens[start:end] for entry in ahead for start, end in entry.sentences)
    vectors = _embed_sentences(elmo, sentences, layers)
    for entry in entries:
        parts = [_unwrap(part) for part in islice(vectors, len(entry.sentences))]
        yield entry, parts[0] if len(parts) == 1 else np.concatenate([none, *parts], axis=-2)
    next(vectors, None)  # its end, where words that were cut are reported


def _embed_sentences(elmo: Elmo, sentences: Iterable[list[str]], layers: str) -> Iterator[Vectors]:
    """The chosen layers or mix (K, T, D) of each sentence; of a long one no others are held."""
    weights = layer_weights(layers, elmo.n_layers)
    for is_long, group in groupby(sentences, key=lambda tokens: len(tokens) > BATCH_TOKENS):
        if not is_long:
            for embedded in elmo.stream(group):
                yield np.tensordot(weights, embedded.layers, axes=1)
            continue
        for tokens in group:
            out = np.empty((len(weights), len(tokens), elmo.output_dim), np.float32)
            elmo.embed_into(tokens, out, layers=layers)
            yield out


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

    def update(self, entry: Entry) -> None:
        """Count one more line that is written."""
        self._n_tokens += len(entry.tokens)
        speed = self._n_tokens / (time.perf_counter() - self._started_at)
        self._bar.set_postfix_str(f"{speed:,.0f} tokens/s", refresh=False)
        self._bar.update(sum(map(len, entry.tokens)))


def no_vectors(elmo: Elmo, layers: str) -> Vectors:
    """The vectors of no token: (0, D) or (K, 0, D)."""
    n_chosen = len(layer_weights(layers, elmo.n_layers))
    return _unwrap(np.empty((n_chosen, 0, elmo.output_dim), np.float32))


def _unwrap(vectors: Vectors) -> Vectors:
    return vectors[0] if len(vectors) == 1 else vectors


def _n_written(line: str) -> int:
    """Characters that are not spaces: as many in a line as in its tokens."""
    return sum(map(len, line.split()))
