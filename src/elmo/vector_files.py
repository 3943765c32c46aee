"""Files of vectors, .npz, .h5 or .jsonl: written sentence by sentence, whole or not there at all.

In: sentences with their vectors. Out: the file. Keys of .npz and .h5 are the sentences' numbers
from "0"; .h5 is laid out as the old `allennlp elmo` command's, so that what read those reads these.
"""

import json
import zipfile
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import h5py
import numpy as np
from numpy.typing import NDArray

from elmo.checkpoint import written_whole
from elmo.errors import ConfigError, DataError

Vectors = NDArray[np.floating[Any]]  # (T, D), or (K, T, D) for several layers


@dataclass(frozen=True, slots=True)
class Entry:
    """A sentence of an input: its tokens, its text as it stood there, and their places in that."""

    tokens: list[str]
    text: str
    offsets: list[tuple[int, int]] | None = None  # none if the text was given as tokens


class VectorFile(Protocol):
    """A file that sentences are added to."""

    def __init__(self, path: Path) -> None: ...

    def add(self, entry: Entry, vectors: Vectors) -> None:
        """Write the next sentence."""

    def close(self) -> None:
        """Write what stands at the file's end."""


class NpzFile:
    """NumPy's archive: "0" has the vectors of the first sentence, "tokens_0" its tokens."""

    def __init__(self, path: Path) -> None:
        self._archive = zipfile.ZipFile(path, "w")
        self._n_sentences = 0

    def add(self, entry: Entry, vectors: Vectors) -> None:
        """Write the next sentence."""
        self._add_array(str(self._n_sentences), vectors)
        self._add_array(f"tokens_{self._n_sentences}", np.array(entry.tokens, dtype=np.str_))
        self._n_sentences += 1

    def close(self) -> None:
        """Write the archive's directory."""
        self._archive.close()

    def _add_array(self, name: str, array: NDArray[Any]) -> None:
        with self._archive.open(f"{name}.npy", "w", force_zip64=True) as member:
            np.lib.format.write_array(member, array, allow_pickle=False)


class Hdf5File:
    """HDF5: a dataset a sentence, and `sentence_to_index`, JSON from sentences to their keys."""

    def __init__(self, path: Path) -> None:
        self._file = h5py.File(path, "w")
        self._numbers: dict[str, str] = {}
        self._n_sentences = 0

    def add(self, entry: Entry, vectors: Vectors) -> None:
        """Write the next sentence."""
        key = str(self._n_sentences)
        self._file.create_dataset(key, data=vectors)
        # Raw text was never in the old files: splitting a sentence there gives its tokens.
        self._numbers[entry.text if entry.offsets is None else " ".join(entry.tokens)] = key
        self._n_sentences += 1

    def close(self) -> None:
        """Write the sentences' index."""
        index = self._file.create_dataset("sentence_to_index", (1,), dtype=h5py.string_dtype())
        index[0] = json.dumps(self._numbers)
        self._file.close()


class JsonLinesFile:
    """A JSON object a line: tokens, text and offsets if it was raw, vectors."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("w", encoding="utf-8")

    def add(self, entry: Entry, vectors: Vectors) -> None:
        """Write the next sentence."""
        known: dict[str, Any] = {"tokens": entry.tokens}
        if entry.offsets is not None:
            known |= {"text": entry.text, "offsets": entry.offsets}
        opened = json.dumps(known, ensure_ascii=False).removesuffix("}")
        self._file.write(f'{opened}, "vectors": {_json_numbers(vectors)}}}\n')

    def close(self) -> None:
        """Hand the last lines to the system."""
        self._file.close()


FORMATS: dict[str, type[VectorFile]] = {
    ".npz": NpzFile,
    ".h5": Hdf5File,
    ".hdf5": Hdf5File,
    ".jsonl": JsonLinesFile,
}


@contextmanager
def new_vector_file(path: Path) -> Iterator[VectorFile]:
    """A file to add sentences to; it takes its place when all went well, else nothing is left."""
    if path.suffix not in FORMATS:
        raise ConfigError(
            f"{path}: the ending {path.suffix!r} says no format; expected one of "
            f"{', '.join(FORMATS)}; rename the output"
        )
    if path.is_dir() or not path.parent.is_dir():
        found = "is a folder" if path.is_dir() else "its folder does not exist"
        raise DataError(f"{path}: {found}; expected a place for a new file; name another output")
    with written_whole(path) as unfinished, closing(FORMATS[path.suffix](unfinished)) as file:
        yield file


def _json_numbers(array: Vectors) -> str:
    """A nested list with the fewest digits that read back as the same numbers."""
    if array.ndim == 1:
        return f"[{', '.join(array.astype(np.str_))}]"
    return f"[{', '.join(_json_numbers(part) for part in array)}]"
