"""Read untrusted HDF5 files safely.

In: a file, or the bytes of one. Out: its datasets by their paths, and their values as float32.
Rejected: links, raw data in other files, types other than floats, datasets that are far larger than
their stored size.
"""

import io
import math
import zlib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import h5py
import numpy as np
from numpy.typing import NDArray

from elmo.errors import CheckpointError
from elmo.models.formats.archives import Member
from elmo.models.formats.sources import AnyPath, read_bytes

ENDINGS = (".hdf5", ".h5")

# The exceptions that h5py raises for damaged files.
BROKEN_FILE = (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError, MemoryError)

MAX_EXPANSION = 64
FREE_BYTES = 16 * 2**20
MAX_DEPTH = 16  # of groups
DEFLATE, SHUFFLE, CHECKSUM, LZF = 1, 2, 3, 32000  # HDF5 filter ids


@contextmanager
def open_hdf5(source: AnyPath | IO[bytes], where: str) -> Iterator[h5py.File]:
    """Open an HDF5 file for reading; errors while reading are reported as a broken file."""
    if isinstance(source, Path) and not source.is_file():
        raise CheckpointError(f"{where}: no such file, expected the weights.hdf5 of an ELMo model")
    if isinstance(source, Member):
        source = io.BytesIO(read_bytes(source, "weights"))
    try:
        with h5py.File(source, "r") as file:
            yield file
    except BROKEN_FILE as error:
        what = " ".join(str(error).split())
        raise CheckpointError(
            f"{where}: not a complete HDF5 file ({what}), expected the weights of an ELMo model; "
            "download or copy it again"
        ) from error


def find_datasets(file: h5py.File, where: str) -> dict[str, h5py.Dataset]:
    """All datasets of a file by their paths."""
    found: dict[str, h5py.Dataset] = {}
    places: set[int] = set()

    def walk(group: h5py.Group, prefix: str, depth: int) -> None:
        for name in group:
            path = f"{prefix}{name}"
            is_link = not isinstance(group.get(name, getlink=True), h5py.HardLink)
            place = 0 if is_link else h5py.h5o.get_info(group[name].id).addr
            if is_link or place in places or depth > MAX_DEPTH:
                raise CheckpointError(f"{where}: {path} is a link, expected data of this file")
            places.add(place)
            item = group[name]
            if isinstance(item, h5py.Dataset):
                found[path] = item
            elif isinstance(item, h5py.Group):
                walk(item, f"{path}/", depth + 1)

    walk(file, "", 0)
    return found


def paths_in(source: AnyPath) -> set[str]:
    """The paths of a file's datasets; empty if it is not a readable HDF5 file."""
    try:
        with open_hdf5(source, str(source)) as file:
            return set(find_datasets(file, str(source)))
    except CheckpointError:
        return set()


def read_arrays(
    datasets: Mapping[str, h5py.Dataset], where: str
) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """Yield the values of datasets one by one, after checking the types and sizes of all."""
    for path, dataset in datasets.items():
        _check_kind(dataset, path, where)
    _check_sizes(datasets.values(), where)
    for path, dataset in datasets.items():
        _check_chunks(dataset, path, where)
        yield path, np.asarray(dataset, dtype=np.float32)


def _check_kind(dataset: h5py.Dataset, path: str, where: str) -> None:
    if dataset.external or dataset.is_virtual:
        raise CheckpointError(f"{where}: {path} is in another file, expected data of this file")
    if dataset.dtype.kind != "f" or dataset.dtype.itemsize not in (2, 4, 8):
        raise CheckpointError(
            f"{where}: {path} has type {dataset.dtype}, expected float16, float32 or float64"
        )
    filters = _filters(dataset)
    if filters.count(DEFLATE) > 1 or not {*filters} <= {DEFLATE, SHUFFLE, CHECKSUM, LZF}:
        raise CheckpointError(
            f"{where}: {path} is compressed by HDF5 filters {filters}, expected gzip or none"
        )


def _check_sizes(datasets: Iterable[h5py.Dataset], where: str) -> None:
    n_logical = n_stored = 0
    for dataset in datasets:
        n_logical += max(dataset.nbytes, _chunk_bytes(dataset))
        n_stored += dataset.id.get_storage_size()
    if n_logical > FREE_BYTES + MAX_EXPANSION * n_stored:
        raise CheckpointError(
            f"{where}: {n_logical:,} bytes of weights from {n_stored:,} stored bytes, expected at "
            f"most {MAX_EXPANSION} times the stored size; the file may be malicious"
        )


def _check_chunks(dataset: h5py.Dataset, path: str, where: str) -> None:
    """Reject chunks that unpack to more than the chunk size: HDF5 would unpack them in full."""
    if DEFLATE not in _filters(dataset):
        return
    n_bytes = _chunk_bytes(dataset) + 4  # for a checksum
    for number in range(dataset.id.get_num_chunks()):
        place = dataset.id.get_chunk_info(number).chunk_offset
        packed = dataset.id.read_direct_chunk(place)[1]
        try:
            unpacked = zlib.decompressobj().decompress(packed, n_bytes + 1)
        except zlib.error:
            continue  # stored uncompressed, or broken: HDF5 reports which
        if len(unpacked) > n_bytes:
            raise CheckpointError(
                f"{where}: {path} has a chunk that is longer than its size, expected weights"
            )


def _chunk_bytes(dataset: h5py.Dataset) -> int:
    return math.prod(dataset.chunks) * int(dataset.dtype.itemsize) if dataset.chunks else 0


def _filters(dataset: h5py.Dataset) -> list[Any]:
    settings = dataset.id.get_create_plist()
    return [settings.get_filter(k)[0] for k in range(settings.get_nfilters())]
