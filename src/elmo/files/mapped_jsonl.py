"""Lists on disk that are never in memory: a JSON value a line, and where each line starts.

In: words, or sentences of tokens, one after the other. Out: a sequence that reads each by its
number from a memory map.
"""

import json
import mmap
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Generic, TypeVar, overload

import numpy as np

Value = TypeVar("Value")


class KeptLines(Sequence[Value], Generic[Value]):
    """The values that `new_lines` wrote to a path."""

    def __init__(self, path: Path) -> None:
        """Map the file; raises OSError or ValueError if it is not all there."""
        with path.open("rb") as file:
            self._text = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
        # One more than there are lines: the end.
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
        """One value, or a list of some."""
        if isinstance(number, slice):
            return [self[k] for k in range(*number.indices(len(self)))]
        place = range(len(self))[number]  # counts from the end and refuses as a list does
        start, stop = self._starts[place : place + 2].tolist()
        value: Value = json.loads(self._text[start:stop])
        return value


@contextmanager
def new_lines(path: Path) -> Iterator[Callable[[object], None]]:
    """Give what appends a value to a new file, and have all of them written at the end."""
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
