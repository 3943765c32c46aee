"""Embed a text file: lines in, a file of vectors out.

In: the paths of a text (plain, .gz, .xz, or `-`), a model and an output, and settings.
Out: the output file with one record per line, and its counts. A record has the vectors that
`Elmo.embed(line)` returns. The output's path and the input's encoding are checked before the model
runs.
"""

import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import accumulate, groupby, islice, pairwise, tee
from pathlib import Path
from typing import Literal

import numpy as np
from tqdm import tqdm

from elmo.api import Elmo
from elmo.errors import ConfigError, DataError
from elmo.files.tables import Fields, Record, read_records
from elmo.inference.embedder import BATCH_TOKENS
from elmo.inference.results import layer_weights
from elmo.text.lines import LineFormat, line_format_of, split_line
from elmo.vectors.files import Entry, ParquetFile, Vectors, new_vector_file

Precision = Literal["float16", "float32"]
Pool = Literal["mean", "max"]


@dataclass(frozen=True)
class Counts:
    """The numbers of lines, sentences and tokens in an output."""

    n_lines: int
    n_sentences: int
    n_tokens: int


def embed_file(
    source: Path | Sequence[Path],
    out: Path,
    model: Path,
    *,
    options: Path | None = None,
    alignment: Mapping[int, Path] | None = None,
    lines: LineFormat = "paragraphs",
    layers: str = "average",
    dtype: Precision = "float32",
    pool: Pool | None = None,
    column: str = "text",
    id_column: str | None = None,
    id_field: int | None = None,
) -> Counts:
    """Write the vectors of each line of one or several texts, with a progress bar on a terminal.

    `lines` says what a line is: a paragraph that is split into sentences, one sentence, tokens, or
    residues. A line of a .csv, .tsv or .parquet file is the value of `column` in a row. The keys
    of vectors are the ids of the input: those of `id_column`, or those of a FASTA file, where
    `id_field` selects one of the fields that `|` separates; without ids, they are line numbers.
    With `pool`, each line has one vector: the mean or the maximum over its tokens.
    """
    if pool is not None and out.suffix == ".parquet":
        raise ConfigError(f"{out}: pooled vectors, expected .npz, .h5 or .jsonl")
    sources = [source] if isinstance(source, Path) else source
    n_lines = n_sentences = n_tokens = 0
    with new_vector_file(out) as file:
        fields = Fields(column=column, id_column=id_column, id_field=id_field)
        progress = _ProgressBar(sources, fields)
        elmo = Elmo.load(model, options=options, alignment=alignment)
        none = no_vectors(elmo, layers)  # unknown layers are refused before the text is read
        if isinstance(file, ParquetFile):
            file.no_vectors = none.astype(dtype)
            file.has_ids = any(fields.has_ids(path) for path in sources)
        entries = _entries(sources, lines, fields)
        with progress:
            for entry, vectors in embed_entries(elmo, entries, layers):
                pooled = vectors if pool is None else _pool(vectors, pool)
                file.add(entry, pooled.astype(dtype))
                n_lines += 1
                n_sentences += len(entry.sentences)
                n_tokens += len(entry.tokens)
                progress.update(entry)
    return Counts(n_lines, n_sentences, n_tokens)


def _entries(sources: Sequence[Path], lines: LineFormat, fields: Fields) -> Iterator[Entry]:
    """The lines of files; raises DataError if their ids are not distinct."""
    numbers: dict[str, int] = {}
    records = ((source, record) for source in sources for record in read_records(source, fields))
    for number, (source, record) in enumerate(records):
        entry = make_entry(record, number, line_format_of([source], lines))
        if entry.key is not None:
            if not entry.key or entry.key in numbers:
                found = f"also that of record {numbers[entry.key] + 1}" if entry.key else "empty"
                raise DataError(
                    f"{source}: the id {record.id!r} of record {number + 1} is {found}, expected "
                    "distinct ids; choose another field or column"
                )
            numbers[entry.key] = number
        yield entry


def _pool(vectors: Vectors, how: Pool) -> Vectors:
    """(..., T, D) -> (..., D); zeros if there are no tokens."""
    if not vectors.shape[-2]:
        return np.zeros((*vectors.shape[:-2], vectors.shape[-1]), vectors.dtype)
    return np.asarray(vectors.mean(-2) if how == "mean" else vectors.max(-2))


def make_entry(record: Record, number: int, lines: LineFormat) -> Entry:
    """A line of a text with its tokens, ready to be embedded."""
    sentences = split_line(record.text, lines)
    ends = accumulate((len(sentence.tokens) for sentence in sentences), initial=0)
    return Entry(
        tokens=[token for sentence in sentences for token in sentence.tokens],
        text=record.text,
        offsets=None
        if lines in ("tokens", "residues")
        else [offset for sentence in sentences for offset in sentence.offsets],
        sentences=list(pairwise(ends)),
        line=number,
        key=None if record.id is None else record.id.replace("/", "_"),  # / nests HDF5 groups
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
    next(vectors, None)  # run to the end, where truncated words are reported


def _embed_sentences(elmo: Elmo, sentences: Iterable[list[str]], layers: str) -> Iterator[Vectors]:
    """The chosen layers or mix (K, T, D) of each sentence, the only ones kept for a long one."""
    weights = layer_weights(layers, elmo.n_layers)
    for is_long, group in groupby(sentences, key=lambda tokens: len(tokens) > BATCH_TOKENS):
        if not is_long:
            for embedded in elmo.stream_tokens(group):
                yield np.tensordot(weights, embedded.layers, axes=1)
            continue
        for tokens in group:
            out = np.empty((len(weights), len(tokens), elmo.output_dim), np.float32)
            elmo.embed_into(tokens, out, layers=layers)
            yield out


class _ProgressBar:
    """Shows tokens per second and, for files, the time left; reads files once for their size."""

    def __init__(self, sources: Sequence[Path], fields: Fields) -> None:
        self._n_characters: int | None = None
        if all(source.is_file() for source in sources):  # a pipe can be read only once
            records = (record for source in sources for record in read_records(source, fields))
            self._n_characters = sum(_n_written(record.text) for record in records)
        self._n_tokens = 0

    def __enter__(self) -> "_ProgressBar":
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
        """Count a line that was written."""
        self._n_tokens += len(entry.tokens)
        speed = self._n_tokens / (time.perf_counter() - self._started_at)
        self._bar.set_postfix_str(f"{speed:,.0f} tokens/s", refresh=False)
        self._bar.update(sum(map(len, entry.tokens)))


def no_vectors(elmo: Elmo, layers: str) -> Vectors:
    """An empty array of vectors: (0, D) or (K, 0, D)."""
    n_chosen = len(layer_weights(layers, elmo.n_layers))
    return _unwrap(np.empty((n_chosen, 0, elmo.output_dim), np.float32))


def _unwrap(vectors: Vectors) -> Vectors:
    return vectors[0] if len(vectors) == 1 else vectors


def _n_written(line: str) -> int:
    """The number of characters other than spaces, equal for a line and its tokens."""
    return sum(map(len, line.split()))
