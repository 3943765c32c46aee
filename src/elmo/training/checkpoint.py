"""Checkpoints of a training run: all that the next step depends on, whole or not there.

In: tensors by name and a few numbers. Out: a folder `step-N` of safetensors and JSON with the hash
of each file, written beside its place, synced and renamed. The last two are kept; one whose
files do not fit their hashes is passed over for the one before.
"""

import hashlib
import json
import logging
import os
import shutil
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from safetensors.torch import load_file, save_file
from torch import Tensor

from elmo.errors import CheckpointError

TENSORS, NUMBERS, MANIFEST = "tensors.safetensors", "numbers.json", "manifest.json"
N_KEPT = 2

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class TrainingCheckpoint:
    """A run between two steps."""

    step: int
    tensors: dict[str, Tensor]
    numbers: dict[str, Any]


def save_checkpoint(folder: Path, checkpoint: TrainingCheckpoint) -> Path:
    """Write a checkpoint under `folder`, then let go of all but the last two."""
    place = folder / f"step-{checkpoint.step:09d}"
    unfinished = folder / f".{place.name}.unfinished"
    try:
        shutil.rmtree(unfinished, ignore_errors=True)
        unfinished.mkdir(parents=True)
        save_file(
            {name: tensor.contiguous() for name, tensor in checkpoint.tensors.items()},
            unfinished / TENSORS,
        )
        _write_json(unfinished / NUMBERS, checkpoint.numbers)
        manifest = {name: _sha256(unfinished / name) for name in (TENSORS, NUMBERS)}
        _write_json(unfinished / MANIFEST, manifest)
        for path in (*unfinished.iterdir(), unfinished):
            _sync(path)
        shutil.rmtree(place, ignore_errors=True)
        unfinished.rename(place)
        _sync(folder)
    except OSError as error:
        shutil.rmtree(unfinished, ignore_errors=True)
        raise CheckpointError(
            f"{place}: cannot be written ({error.strerror}); checkpoints saved before are whole; "
            "make room, then start the same command again"
        ) from error
    for old in _places(folder)[:-N_KEPT]:
        shutil.rmtree(old)
    return place


def load_newest(folder: Path) -> TrainingCheckpoint | None:
    """The newest checkpoint that is whole; nothing where none was ever saved."""
    places = _places(folder)
    for place in reversed(places):
        if _is_whole(place):
            numbers = json.loads((place / NUMBERS).read_text())
            return TrainingCheckpoint(_step(place), load_file(place / TENSORS), numbers)
        log.warning("%s is not whole; going back to the checkpoint before it", place)
    if places:
        raise CheckpointError(
            f"{folder}: none of {len(places)} checkpoints is whole; expected files that fit their "
            "manifest.json; restore one, or start anew in another folder"
        )
    return None


def _places(folder: Path) -> list[Path]:
    return sorted(folder.glob("step-*"), key=_step) if folder.is_dir() else []


def _step(place: Path) -> int:
    return int(place.name.removeprefix("step-"))


def _is_whole(place: Path) -> bool:
    try:
        manifest: Mapping[str, str] = json.loads((place / MANIFEST).read_text())
        return all(_sha256(place / name) == expected for name, expected in manifest.items())
    except (OSError, ValueError):
        return False


def _write_json(path: Path, value: Mapping[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
