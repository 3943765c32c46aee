"""Read TensorFlow checkpoints (version 2, "tensor bundles") without TensorFlow.

In: the prefix of `PREFIX.index` and `PREFIX.data-*-of-*`. Out: arrays by the names of variables.
The index is a LevelDB table: sorted keys in blocks, each key without the prefix it shares with the
previous one; a value is a protocol buffer with type, shape and position in the data files.
"""

import glob
import math
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo.errors import CheckpointError
from elmo.models.formats.sources import AnyPath, files_like, read_bytes, size_of

MAGIC = bytes.fromhex("57fb808b247547db")  # the last bytes of every such table
FOOTER_BYTES = 48
UNCOMPRESSED = 0  # the compression type, in the byte after a block
# TensorFlow's type numbers, for the types of variables in a trained model.
TYPES = {1: "<f4", 2: "<f8", 3: "<i4", 9: "<i8", 19: "<f2"}
# No model's index has more; a damaged one could claim any number.
MAX_INDEX, MAX_ENTRIES, MAX_KEY, MAX_VARINT = 2**26, 100_000, 4096, 64
# Field numbers of BundleEntryProto, and of the shape inside it.
DTYPE, SHAPE, SHARD, OFFSET, N_BYTES = 1, 2, 3, 4, 5
DIMENSION, DIMENSION_SIZE = 2, 1
# Wire types of protocol buffers.
VARINT, FIXED64, BYTES, FIXED32 = 0, 1, 2, 5


@dataclass(frozen=True)
class Entry:
    """Type, shape and position of a variable."""

    dtype: int
    shape: tuple[int, ...]
    shard: int
    offset: int
    n_bytes: int


class TensorBundle:
    """The variables of a checkpoint; each is read on request."""

    def __init__(self, prefix: AnyPath) -> None:
        self.prefix = prefix
        self._contents: dict[AnyPath, bytes] = {}  # of data files in an archive

    @cached_property
    def entries(self) -> dict[str, Entry]:
        """All variables by their names."""
        path = self.prefix.with_name(f"{self.prefix.name}.index")
        try:
            values = dict(_read_table(read_bytes(path, "an index", MAX_INDEX)))
            values.pop(b"", None)  # a header: how many data files there are
            return {key.decode("utf-8"): _read_entry(value) for key, value in values.items()}
        except (OSError, IndexError, ValueError) as error:
            raise CheckpointError(
                f"{path}: not a complete index of a TensorFlow checkpoint ({error}), expected one "
                "that TensorFlow's Saver wrote; copy it again"
            ) from error

    def read(self, name: str) -> NDArray[Any]:
        """The values of a variable."""
        entry = self.entries[name]
        if entry.dtype not in TYPES:
            *names, last = sorted(np.dtype(kind).name for kind in TYPES.values())
            raise CheckpointError(
                f"{self.prefix}: variable {name} has TensorFlow type number {entry.dtype}, "
                f"expected {', '.join(names)} or {last}"
            )
        dtype = np.dtype(TYPES[entry.dtype])
        shard = f"{glob.escape(self.prefix.name)}.data-{entry.shard:05d}-of-*"
        shards = files_like(self.prefix.parent, shard)
        is_whole = shards and size_of(shards[0]) >= entry.offset + entry.n_bytes
        count = math.prod(entry.shape)
        n_bytes = count * dtype.itemsize
        if not is_whole or entry.n_bytes != n_bytes:
            problem = (
                f" at offset {entry.offset} of data file {entry.shard}, which is missing or too "
                "short"
                if entry.n_bytes == n_bytes
                else f", but the index gives it {entry.n_bytes}"
            )
            raise CheckpointError(
                f"{self.prefix}: variable {name} with shape {entry.shape} needs {n_bytes} bytes"
                f"{problem}; copy the checkpoint again, all of its files"
            )
        path = shards[0]
        if isinstance(path, Path):
            values = np.fromfile(path, dtype, count, offset=entry.offset)
        else:
            if path not in self._contents:
                self._contents[path] = path.read_bytes()
            values = np.frombuffer(self._contents[path], dtype, count, entry.offset).copy()
        return values.reshape(entry.shape)


def _read_table(table: bytes) -> Iterator[tuple[bytes, bytes]]:
    """All keys and values of a LevelDB table."""
    if not table.endswith(MAGIC):
        raise ValueError("its end is not that of a table")
    footer = table[-FOOTER_BYTES:]
    _, place = _read_handle(footer, 0)  # of the metaindex block, which is not needed
    index, _ = _read_handle(footer, place)
    n_entries = 0
    for _, handle in _read_block(table, index):
        for key, value in _read_block(table, _read_handle(handle, 0)[0]):
            n_entries += 1
            if len(key) > MAX_KEY or n_entries > MAX_ENTRIES:
                raise ValueError("it has more names than a model")
            yield key, value


def _read_handle(data: bytes, place: int) -> tuple[slice, int]:
    """The range of a block from its handle, and the position after the handle."""
    start, place = _read_varint(data, place)
    size, place = _read_varint(data, place)
    return slice(start, start + size), place


def _read_block(table: bytes, where: slice) -> Iterator[tuple[bytes, bytes]]:
    if table[where.stop] != UNCOMPRESSED:
        raise ValueError("its blocks are compressed")
    block = table[where]
    # A block ends with the positions of complete keys, for binary search, and their count.
    n_restarts = int.from_bytes(block[-4:], "little")
    end = len(block) - 4 * (n_restarts + 1)
    place, key = 0, b""
    while place < end:
        n_shared, place = _read_varint(block, place)
        n_own, place = _read_varint(block, place)
        n_value, place = _read_varint(block, place)
        key = key[:n_shared] + block[place : place + n_own]
        place += n_own
        yield key, block[place : place + n_value]
        place += n_value


def _read_entry(message: bytes) -> Entry:
    fields = dict(_read_fields(message))
    shape = []
    for number, dimension in _read_fields(_as_bytes(fields.get(SHAPE, b""))):
        if number == DIMENSION:
            shape.append(_as_int(dict(_read_fields(_as_bytes(dimension))).get(DIMENSION_SIZE, 0)))
    numbers = (_as_int(fields.get(field, 0)) for field in (SHARD, OFFSET, N_BYTES))
    return Entry(_as_int(fields.get(DTYPE, 0)), tuple(shape), *numbers)


def _read_fields(message: bytes) -> Iterator[tuple[int, int | bytes]]:
    """Field numbers and values of a protocol buffer."""
    place = 0
    while place < len(message):
        tag, place = _read_varint(message, place)
        kind = tag & 7
        if kind == VARINT:
            value, place = _read_varint(message, place)
            yield tag >> 3, value
            continue
        if kind == BYTES:
            size, place = _read_varint(message, place)
        elif kind in (FIXED32, FIXED64):
            size = 4 if kind == FIXED32 else 8
        else:
            raise ValueError(f"a field of kind {kind}")
        yield tag >> 3, message[place : place + size]
        place += size


def _read_varint(data: bytes, place: int) -> tuple[int, int]:
    """A varint, seven bits per byte with the lowest first, and the position after it."""
    value = shift = 0
    while data[place] & 0x80:
        value |= (data[place] & 0x7F) << shift
        place, shift = place + 1, shift + 7
        if shift > MAX_VARINT:
            raise ValueError("a number of too many bytes")
    return value | data[place] << shift, place + 1


def _as_int(value: int | bytes) -> int:
    if isinstance(value, bytes):
        raise ValueError("bytes where a number should be")
    return value


def _as_bytes(value: int | bytes) -> bytes:
    if isinstance(value, int):
        raise ValueError("a number where bytes should be")
    return value
