"""Write new HDF5 files; a full disk raises OSError.

In: the path of a new file. Out: an `h5py.File` to write to. The HDF5 library crashes when it closes
a file after a failed write; to avoid this, what cannot be written to disk is kept in memory.
"""

import io
import traceback
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import h5py


class FailingOnce(io.RawIOBase):
    """An unbuffered file; its first failed write raises OSError, later writes stay in memory."""

    def __init__(self, file: io.RawIOBase) -> None:
        self._file = file
        self.error: OSError | None = None  # of the first failed write
        self._unwritten: list[tuple[int, bytes]] = []  # positions and bytes

    def write(self, content: Any, /) -> int:  # noqa: ANN401 - any buffer
        view = memoryview(content).cast("B")
        if self.error is not None:
            self._unwritten.append((self._file.tell(), bytes(view)))
            return len(view)
        n_written = 0
        try:
            while n_written < len(view):
                n_written += self._file.write(view[n_written:]) or 0
        except OSError as error:
            self.error = error
            raise
        return len(view)

    def readinto(self, buffer: Any, /) -> int:  # noqa: ANN401 - any buffer
        """Read what was written to disk or kept in memory."""
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
        """Set the size, as HDF5 does on closing; ignored after a failed write."""
        return self._file.truncate(size) if self.error is None else size or 0


@contextmanager
def new_hdf5(path: Path) -> Iterator[h5py.File]:
    """Yield a new HDF5 file; a failed write raises OSError."""
    with path.open("w+b", buffering=0) as raw, hdf5_in(raw) as file:
        yield file


def _open(disk: FailingOnce) -> h5py.File:
    try:
        return h5py.File(disk, "w")
    except BaseException as error:
        # A signal may arrive while the file is half open. Frames of the traceback would keep it
        # alive until the interpreter exits, when it can no longer be closed.
        traceback.clear_frames(error.__traceback__)
        raise


@contextmanager
def hdf5_in(raw: io.RawIOBase) -> Iterator[h5py.File]:
    """Like `new_hdf5`, in an open unbuffered file."""
    disk = FailingOnce(raw)
    try:
        with _open(disk) as file:
            yield file
    except Exception as error:
        # After a failed write, h5py may raise other errors when it closes the file.
        raise (disk.error or error) from error
