"""HDF5 files on disks that become full."""

import errno
import io
import os

import h5py
import numpy as np
import pytest

from elmo.files.hdf5 import hdf5_in, new_hdf5


class FullDisk(io.BytesIO):
    """An in-memory file with space for `n_bytes` bytes."""

    def __init__(self, n_bytes):
        super().__init__()
        self.n_bytes = n_bytes

    def write(self, content):
        if self.tell() + len(content) > self.n_bytes:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return super().write(content)


def write(file, n_arrays):
    for k in range(n_arrays):
        file.create_dataset(f"group-{k % 7}/{k}", data=np.arange(k % 50, dtype=np.float32))


def test_a_file_has_what_was_written(tmp_path):
    with new_hdf5(tmp_path / "a.h5") as file:
        write(file, 100)
    with h5py.File(tmp_path / "a.h5") as file:
        assert sum(len(group) for group in file.values()) == 100
        np.testing.assert_array_equal(file["group-1/29"][...], np.arange(29, dtype=np.float32))


@pytest.mark.parametrize("n_arrays", [1, 300])
def test_a_disk_that_is_full_at_any_byte_is_one_error_and_no_crash(n_arrays):
    whole = io.BytesIO()
    with hdf5_in(whole) as file:
        write(file, n_arrays)
    n_bytes = len(whole.getvalue())
    for n_free in range(0, n_bytes - 1, max(1, n_bytes // 60)):
        with (
            pytest.raises(OSError, match="No space left") as caught,
            hdf5_in(FullDisk(n_free)) as file,
        ):
            write(file, n_arrays)
        assert caught.value.errno == errno.ENOSPC
