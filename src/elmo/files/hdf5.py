"""New HDF5 files, in which a full disk is an OSError.

In: the path of a new file. Out: an `h5py.File` to write to. The HDF5 library crashes when it closes
a file that it could not write; here it finds what it wrote, in memory if not on the disk.
"""

import io
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py


class FailingOnce(io.RawIOBase):
    """An unbuffered file; its first failed write is an OSError, and later ones stay in memory."""

    def __init__(self, file: io.RawIOBase) -> None:
        self._file = file
        self._has_failed = False
        self._unwritten: list[tuple[int, bytes]] = []  # positions and what belongs there

    def write(self, content: Any, /) -> int:  # noqa: ANN401 - any buffer
        view = memoryview(content).cast("B")
        if self._has_failed:
            self._unwritten.append((self._file.tell(), bytes(view)))
            return len(view)
        n_written = 0
        try:
            while n_written < len(view):
                n_written += self._file.write(view[n_written:]) or 0
        except OSError:
            self._has_failed = True
            raise
        return len(view)

    def readinto(self, buffer: Any, /) -> int:  # noqa: ANN401 - any buffer
        """Read what was written, to the disk or not."""
        view = memoryview(buffer).cast("B")
        start = self._file.tell()
        n_read = self._file.readinto(view) or 0
        for position, content in self._unwritten:
            first = max(start, position)
            end = min(start + len(view), position + len(content))
            if first < end:
                view[first - start : end - start] = content[first - position : end - position]
                n_read = max(n_read, end - start)
        return n_read

    def seek(self, offset: int, whence: int = io.SEEK_SET, /) -> int:
        return self._file.seek(offset, whence)

    def truncate(self, size: int | None = None, /) -> int:
        """Set the size; HDF5 does so when it closes a file."""
        return size or 0 if self._has_failed else self._file.truncate(size)


@contextmanager
def new_hdf5(path: Path) -> Iterator[h5py.File]:
    """Give a new HDF5 file; a write that fails raises OSError."""
    with path.open("w+b", buffering=0) as raw, h5py.File(FailingOnce(raw), "w") as file:
        yield file
