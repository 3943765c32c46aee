"""Where people already work: one file for each library, each with its own extra.

Adapters hold the path of a model and settings, not weights; `open_model` opens each model once.
"""

from functools import lru_cache
from pathlib import Path

from elmo.api import Elmo

# Enough for a pipeline that compares models; each may be hundreds of megabytes.
N_OPEN = 2


def open_model(path: str | Path) -> Elmo:
    """The model at a path, opened anew only when its file has changed."""
    path = Path(path).resolve()
    changed_at = path.stat().st_mtime_ns if path.exists() else 0
    return _open(path, changed_at)


@lru_cache(maxsize=N_OPEN)
def _open(path: Path, changed_at: int) -> Elmo:
    return Elmo.load(path)
