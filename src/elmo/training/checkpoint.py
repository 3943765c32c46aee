"""Checkpoints of a training run: everything that the next step depends on.

In: tensors by name and a few numbers. Out: a folder `step-N` with a safetensors file, a JSON file
and the hash of each, written atomically. The last two checkpoints are kept; if the files of the
newest do not match their hashes, the one before is used.
"""

import json
import logging
import re
import shutil
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file
from torch import Tensor

from elmo.errors import CheckpointError
from elmo.files.atomic import atomic_folder, write_json
from elmo.models.identity import file_hash
from elmo.models.model_folder import write_tensors

TENSORS, NUMBERS, MANIFEST = "tensors.safetensors", "numbers.json", "manifest.json"
N_KEPT = 2

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingCheckpoint:
    """The state of a run between two steps."""

    step: int
    tensors: dict[str, Tensor]
    numbers: dict[str, Any]


def save_checkpoint(folder: Path, checkpoint: TrainingCheckpoint) -> Path:
    """Write a checkpoint under `folder`, then remove all but it and the one before it."""
    path = folder / f"step-{checkpoint.step:09d}"
    with atomic_folder(path, durable=True) as temporary:
        write_tensors(temporary / TENSORS, checkpoint.tensors)
        write_json(temporary / NUMBERS, checkpoint.numbers)
        write_json(temporary / MANIFEST, _hashes(temporary))
    written = [each for each in _find_all(folder) if _step(each) <= checkpoint.step]
    for other in _find_all(folder):
        # Those of later steps are damaged: the run was resumed from one before them.
        if other not in written[-N_KEPT:]:
            try:
                shutil.rmtree(other)
            except OSError as error:  # tried again after the next checkpoint
                log.warning("%s: an old checkpoint that cannot be removed (%s)", other, error)
    return path


def load_newest(folder: Path) -> TrainingCheckpoint | None:
    """The newest intact checkpoint, or None if none was ever saved.

    Its tensors are mapped from its file, which a later checkpoint removes; keep only copies.
    """
    paths = _find_all(folder)
    for path in reversed(paths):
        if _is_intact(path):
            numbers = json.loads((path / NUMBERS).read_text(encoding="utf-8"))
            return TrainingCheckpoint(_step(path), load_file(path / TENSORS), numbers)
        log.warning("%s is damaged; trying the checkpoint before it", path)
    if paths:
        raise CheckpointError(
            f"{folder}: all {len(paths)} checkpoints are damaged; expected files that match "
            f"{MANIFEST}; restore one, or start a new run in another folder"
        )
    return None


def _find_all(folder: Path) -> list[Path]:
    """All checkpoints in ascending order of steps; other names, such as copies, are ignored."""
    found = [path for path in folder.glob("step-*") if re.fullmatch(r"step-\d+", path.name)]
    return sorted(found, key=_step)


def _step(path: Path) -> int:
    return int(path.name.removeprefix("step-"))


def _is_intact(path: Path) -> bool:
    try:
        manifest = json.loads((path / MANIFEST).read_text(encoding="utf-8"))
        return bool(manifest == _hashes(path))
    except (OSError, ValueError, RecursionError):
        return False


def _hashes(path: Path) -> dict[str, str]:
    return {name: file_hash(path / name) for name in (TENSORS, NUMBERS)}
