"""Read the files of a model from a folder or an archive.

In: a path in either. Out: its bytes or its JSON, or the files in it. Only regular files are read:
a device or a pipe may never end.
"""

import gzip
import io
import json
import zlib
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

from elmo.errors import CheckpointError, ConfigError
from elmo.models.formats.archives import Member

AnyPath = Path | Member

MAX_TEXT = 2**30  # bytes of an unpacked word list
MAX_JSON = 2**20


def size_of(path: AnyPath) -> int:
    return path.n_bytes() if isinstance(path, Member) else path.stat().st_size


def read_bytes(path: AnyPath, what: str, limit: int | None = None) -> bytes:
    """The content of a file, unpacked if it is a .gz; `what` describes it in errors."""
    try:
        if not path.is_file():
            raise CheckpointError(f"{path}: no such file, expected {what}")
        if limit is not None and size_of(path) > limit:
            raise CheckpointError(f"{path}: {size_of(path):,} bytes, expected {what}")
        content = path.read_bytes()
        return _unpack(path, content, what) if path.suffix == ".gz" else content
    except (OSError, EOFError, zlib.error) as error:
        raise CheckpointError(f"{path}: cannot be read ({error}), expected {what}") from error


def read_json(path: AnyPath, what: str) -> dict[str, Any]:
    """The mapping in a JSON file."""
    content = read_bytes(path, what, MAX_JSON)
    try:
        found = json.loads(content.decode("utf-8-sig"))
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not JSON ({error}), expected {what}") from error
    if not isinstance(found, dict):
        raise ConfigError(f"{path}: {type(found).__name__}, expected {what}")
    return found


def files_like(folder: AnyPath, *patterns: str) -> list[AnyPath]:
    """The files of a folder whose names match one of the patterns, sorted by name."""
    items: list[AnyPath] = [*folder.iterdir()]
    return sorted(
        (p for p in items if p.is_file() and any(fnmatch(p.name, each) for each in patterns)),
        key=lambda p: p.name,
    )


def _unpack(path: AnyPath, content: bytes, what: str) -> bytes:
    unpacked = gzip.GzipFile(fileobj=io.BytesIO(content)).read(MAX_TEXT + 1)
    if len(unpacked) > MAX_TEXT:
        raise CheckpointError(f"{path}: over {MAX_TEXT:,} bytes unpacked, expected {what}")
    return unpacked
