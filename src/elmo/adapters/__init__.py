"""Adapters for other libraries: one module for each, with its own extra.

Adapters hold the path or the name of a model and settings, not weights; `open_model` loads each
model once.
"""

from functools import lru_cache
from pathlib import Path

from elmo.api import Elmo

# Enough for a pipeline that compares models; each may be hundreds of megabytes.
N_OPEN = 2


def open_model(path: str | Path) -> Elmo:
    """Load a model by path or name; a cached one is loaded again only if its files have changed."""
    path = Path(path)
    if not path.exists():
        return _open(path, 0)  # a name such as "english"
    files = [path, *path.iterdir()] if path.is_dir() else [path]
    return _open(path.resolve(), max(file.stat().st_mtime_ns for file in files))


@lru_cache(maxsize=N_OPEN)
def _open(path: Path, changed_at: int) -> Elmo:
    return Elmo.load(path)
