"""Vector files: .npz, .h5, .jsonl and .parquet, written line by line.

In: lines of text with their vectors. Out: the file, which appears when it is complete. Keys of .npz
and .h5 are the ids of lines or, without ids, their numbers in the input from "0"; .h5 has the
layout of the old `allennlp elmo` command.
"""

import json
import zipfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

import h5py
import numpy as np
from numpy.typing import NDArray

from elmo.errors import ConfigError, DataError, needs_extra
from elmo.files.atomic import atomic_write
from elmo.files.hdf5 import new_hdf5

Vectors = NDArray[np.floating[Any]]  # (T, D), or (K, T, D) for several layers

# Readers load one row group at a time: 32 MB of float32 vectors of 1024.
ROW_GROUP_TOKENS = 8192
MAX_TOKEN_BYTES = 2**28  # of the tokens of a line in .npz


@dataclass(frozen=True, slots=True)
class Entry:
    """A line of the input: its tokens, its text, and the offsets of the tokens in the text."""

    tokens: list[str]
    text: str
    offsets: list[tuple[int, int]] | None  # None if the text was given as tokens
    sentences: list[tuple[int, int]]  # ranges of tokens
    line: int = 0  # its number in the input
    key: str | None = None  # the id of a sequence, by which its vectors are found


class VectorFile(Protocol):
    """A vector file that is written line by line."""

    def __init__(self, path: Path) -> None: ...

    def add(self, entry: Entry, vectors: Vectors) -> None:
        """Write the next line."""

    def close(self) -> None:
        """Write the end of the file."""


AnyFile = TypeVar("AnyFile", bound=VectorFile)


class NpzFile:
    """A NumPy archive: "0" has the vectors of the first line, "tokens_0" its tokens."""

    def __init__(self, path: Path) -> None:
        self._archive = zipfile.ZipFile(path, "w")
        self._keys: set[str] = set()

    def add(self, entry: Entry, vectors: Vectors) -> None:
        key = _key(entry)
        # NumPy stores each token with the length of the longest one, four bytes per character.
        n_bytes = 4 * len(entry.tokens) * max(map(len, entry.tokens), default=0)
        if n_bytes > MAX_TOKEN_BYTES:
            raise DataError(
                f"record {entry.line + 1}: {len(entry.tokens):,} tokens of up to "
                f"{max(map(len, entry.tokens)):,} characters take {n_bytes / 1e6:,.0f} MB in .npz; "
                "write .h5 or .jsonl"
            )
        arrays = {key: vectors, f"tokens_{key}": np.array(entry.tokens, dtype=np.str_)}
        for name, array in arrays.items():
            if name in self._keys:
                raise _duplicate(name, entry)
            self._keys.add(name)
            self._add_array(name, array)

    def close(self) -> None:
        self._archive.close()

    def _add_array(self, name: str, array: NDArray[Any]) -> None:
        with self._archive.open(f"{name}.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array(member, array, allow_pickle=False)


class Hdf5File:
    """HDF5: a dataset per line, and `sentence_to_index`, JSON that maps lines' tokens to keys."""

    def __init__(self, path: Path) -> None:
        self._open = ExitStack()
        self._file = self._open.enter_context(new_hdf5(path))
        self._numbers: dict[str, str] = {}
        self._has_index = True

    def add(self, entry: Entry, vectors: Vectors) -> None:
        key = _key(entry)
        if key in self._file:  # always true of ".", the root group
            raise _duplicate(key, entry)
        self._file.create_dataset(key, data=vectors)
        if entry.key is not None:  # like SeqVec's files: a dataset for each id, and nothing else
            self._has_index = False
            return
        # The old files never had raw text: splitting their sentences at spaces gives the tokens.
        self._numbers[entry.text if entry.offsets is None else " ".join(entry.tokens)] = key

    def close(self) -> None:
        with self._open:
            if self._has_index:
                kind = h5py.string_dtype()
                index = self._file.create_dataset("sentence_to_index", (1,), dtype=kind)
                index[0] = json.dumps(self._numbers)


class JsonLinesFile:
    """A JSON object per line: id, if any; tokens; text, offsets, sentences of raw text; vectors."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8")

    def add(self, entry: Entry, vectors: Vectors) -> None:
        known: dict[str, Any] = {} if entry.key is None else {"id": entry.key}
        known["tokens"] = entry.tokens
        if entry.offsets is not None:
            known |= {
                "text": entry.text,
                "offsets": entry.offsets,
                "sentences": entry.sentences,
            }
        opened = json.dumps(known, ensure_ascii=False).removesuffix("}")
        self._file.write(f'{opened}, "vectors": {_json_numbers(vectors)}}}\n')

    def close(self) -> None:
        self._file.close()


class ParquetFile:
    """Parquet: one row per token; a column of fixed-size lists for each chosen layer.

    A shard of a corpus has the column `file`, and numbers sentences from `first_sentence`.
    """

    def __init__(self, path: Path, file: str | None = None, first_sentence: int = 0) -> None:
        with needs_extra("parquet"):
            from pyarrow import parquet
        self._parquet = parquet
        self._path = path
        self._file = file
        self._writer: Any = None
        self._pending: list[tuple[int, Entry, Vectors]] = []
        self._n_pending_tokens = 0
        self._next_sentence = first_sentence
        self.no_vectors: Vectors | None = None  # an empty array, for the columns of an empty table
        self.has_ids = False
        self._metadata: dict[str, str] = {}

    def add_metadata(self, name: str, text: str) -> None:
        """Store a text in the file's metadata."""
        self._metadata[name] = text

    def add(self, entry: Entry, vectors: Vectors) -> None:
        """Add the next line; it is written when there are enough tokens for a row group."""
        self._pending.append((self._next_sentence, entry, vectors))
        self._next_sentence += len(entry.sentences)
        self._n_pending_tokens += len(entry.tokens)
        if self._n_pending_tokens >= ROW_GROUP_TOKENS:
            self._write()

    def close(self) -> None:
        """Write the pending lines, and the end of the file."""
        if self._pending or self._writer is None:
            self._write()
        self._writer.add_key_value_metadata(self._metadata)
        self._writer.close()

    def _write(self) -> None:
        table = _token_table(self._pending, self._file, self.no_vectors, has_ids=self.has_ids)
        if self._writer is None:
            # Compression hardly shrinks vectors and makes them slower to read.
            compressed = [name for name in table.column_names if not name.startswith("vector")]
            self._writer = self._parquet.ParquetWriter(
                self._path,
                table.schema,
                compression=dict.fromkeys(compressed, "zstd"),
                use_dictionary=["file", "token"],
                write_page_checksum=True,
            )
        self._writer.write_table(table)
        self._pending, self._n_pending_tokens = [], 0


FORMATS: dict[str, type[VectorFile]] = {
    ".npz": NpzFile,
    ".h5": Hdf5File,
    ".hdf5": Hdf5File,
    ".jsonl": JsonLinesFile,
    ".parquet": ParquetFile,
}


@contextmanager
def new_vector_file(path: Path) -> Iterator[VectorFile]:
    """Yield a file to add lines to; it appears at `path` if no exception is raised."""
    if path.suffix not in FORMATS:
        raise ConfigError(
            f"{path}: unknown file extension {path.suffix!r}; expected one of {', '.join(FORMATS)}"
        )
    if path.is_dir() or not path.parent.is_dir():
        found = "is a folder" if path.is_dir() else "its folder does not exist"
        raise DataError(f"{path}: {found}; expected the path of a new file")
    with atomic_write(path) as temporary, completed(FORMATS[path.suffix](temporary)) as file:
        yield file


@contextmanager
def completed(file: AnyFile) -> Iterator[AnyFile]:
    """Close a file at the end of the block; after an error, errors of closing are suppressed."""
    try:
        yield file
    except BaseException:
        with suppress(Exception):  # the file is incomplete and will be removed
            file.close()
        raise
    file.close()


def _key(entry: Entry) -> str:
    return str(entry.line) if entry.key is None else entry.key


def _duplicate(key: str, entry: Entry) -> DataError:
    return DataError(
        f"the key {key!r} of record {entry.line + 1} is a duplicate or reserved, expected distinct "
        "keys; choose another id field or column, or write .jsonl or .parquet"
    )


def _token_table(
    lines: list[tuple[int, Entry, Vectors]],
    file: str | None,
    no_vectors: Vectors | None,
    *,
    has_ids: bool,
) -> Any:  # noqa: ANN401 - pyarrow's
    """Lines, each with the number of its first sentence, as a table with a row for each token."""
    import pyarrow as pa

    rows = [
        (
            entry.line,
            first + number,
            entry.tokens[k],
            *(entry.offsets[k] if entry.offsets else (None, None)),
        )
        for first, entry, _ in lines
        for number, (start, end) in enumerate(entry.sentences)
        for k in range(start, end)
    ]
    kinds = {
        "line": pa.int64(),
        "sentence": pa.int64(),
        "token": pa.string(),
        "start": pa.int32(),
        "end": pa.int32(),
    }
    columns = {
        name: pa.array([row[k] for row in rows], kind)
        for k, (name, kind) in enumerate(kinds.items())
    }
    if has_ids:
        keys = [entry.key for _, entry, _ in lines for _ in entry.tokens]
        columns = {"id": pa.array(keys, pa.string()), **columns}
    if file is not None:
        numbers = pa.array(np.zeros(len(rows), np.int32))
        columns = {"file": pa.DictionaryArray.from_arrays(numbers, pa.array([file])), **columns}
    every = [vectors for _, _, vectors in lines]
    every = every if no_vectors is None else [no_vectors, *every]
    layers = [vectors if vectors.ndim == 3 else vectors[None] for vectors in every]  # (K, T, D)
    n_layers = len(layers[0]) if layers else 0
    for k in range(n_layers):
        vectors = np.concatenate([layer[k] for layer in layers])
        name = "vector" if n_layers == 1 else f"vector_{k}"
        flat = pa.array(vectors.reshape(-1))
        columns[name] = pa.FixedSizeListArray.from_arrays(flat, vectors.shape[1])
    return pa.table(columns)


def _json_numbers(array: Vectors) -> str:
    """A nested list with the shortest decimals that round-trip."""
    if array.ndim == 1:
        return f"[{', '.join(array.astype(np.str_))}]"
    return f"[{', '.join(_json_numbers(part) for part in array)}]"
