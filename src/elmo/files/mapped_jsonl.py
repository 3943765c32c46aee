"""Memory-mapped lists on disk: one JSON value per line, and the offset of each line.

In: values such as words or lists of tokens, one after the other. Out: `NAME.jsonl` and
`NAME.starts`, and a sequence that reads single values from them.
"""

import json
import mmap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, TypeVar, overload

import numpy as np

from elmo.errors import DataError

Value = TypeVar("Value")


class MappedJsonLines(Sequence[Value], Generic[Value]):
    """The values that `mapped_jsonl_writer` wrote."""

    def __init__(self, path: Path, is_valid: Callable[[object], bool]) -> None:
        """Map the file; raises OSError or ValueError if it is incomplete.

        A value that is not JSON, or not valid, raises a DataError when it is read.
        """
        self._path = path
        self._is_valid = is_valid
        with path.open("rb") as file:
            self._text = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        # One more entry than there are lines: the end of the file.
        self._starts = np.memmap(_starts_path(path), np.int64, "r").view(np.ndarray)
        if self._starts[-1] != len(self._text):
            raise ValueError(
                f"{path.name} has {len(self._text)} bytes instead of {self._starts[-1]}"
            )

    def __len__(self) -> int:
        return len(self._starts) - 1

    @overload
    def __getitem__(self, number: int) -> Value: ...
    @overload
    def __getitem__(self, number: slice) -> list[Value]: ...

    def __getitem__(self, number: int | slice) -> Value | list[Value]:
        """One value, or a list of several."""
        if isinstance(number, slice):
            return [self[k] for k in range(*number.indices(len(self)))]
        line = range(len(self))[number]  # negative indices and IndexError as with a list
        start, stop = self._starts[line : line + 2].tolist()
        try:
            value: Value = json.loads(self._text[start:stop])
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"{self._path}: value {line} is not JSON, the file is damaged"
            ) from error
        if not self._is_valid(value):
            raise DataError(f"{self._path}: value {line} is of another kind, the file is damaged")
        return value


@contextmanager
def mapped_jsonl_writer(path: Path) -> Iterator[Callable[[object], None]]:
    """Yield a function that appends a value to a new file."""
    n_bytes = 0
    with path.open("wb") as text, _starts_path(path).open("wb") as starts:

        def append(value: object) -> None:
            nonlocal n_bytes
            starts.write(n_bytes.to_bytes(8, "little"))
            n_bytes += text.write(json.dumps(value).encode() + b"\n")

        yield append
        starts.write(n_bytes.to_bytes(8, "little"))


def _starts_path(path: Path) -> Path:
    return path.with_suffix(".starts")
