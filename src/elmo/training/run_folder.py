"""The folder of a training run: what it is, what was measured, what it has come to.

In: the settings and texts of a run. Out: `run.json` (settings, versions, hashes of the texts),
`checkpoints/`, `metrics.jsonl`, `model/`. A folder belongs to one run: another run is refused, and
so is a second process on the same run.
"""

import fcntl
import json
import os
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any

import torch

import elmo
from elmo.errors import ConfigError

LOCK = "run.lock"
# Settings that change no weight may differ from one start of a run to the next.
FREE_SETTINGS = ("n_epochs", "log_every", "save_every", "evaluate_every", "n_evaluation_sentences")


class RunFolder:
    """Paths, identity and lock of a run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.model = path / "model"
        self.metrics = path / "metrics.jsonl"
        self._result = path / "result.json"

    @contextmanager
    def claim(self, identity: dict[str, Any]) -> Iterator[None]:
        """Hold the folder for the run of this identity, or say why it cannot be had."""
        record = self.path / "run.json"
        held = {entry.name for entry in self.path.iterdir()} if self.path.exists() else set()
        if not record.exists() and held - {"cache", LOCK}:
            raise ConfigError(
                f"{self.path}: holds files but no run.json, expected a new folder or one of this "
                "run; name another --out"
            )
        self.path.mkdir(parents=True, exist_ok=True)
        with (self.path / LOCK).open("w") as lock:
            _take(lock, self.path)
            if record.exists():
                self._compare(json.loads(record.read_text()), identity)
            else:
                _write_json(record, identity | _surroundings())
            yield

    def _compare(self, found: dict[str, Any], identity: dict[str, Any]) -> None:
        differences = _differences({key: found.get(key) for key in identity}, identity)
        if differences:
            raise ConfigError(
                f"{self.path}: made by another run ({'; '.join(differences)}); expected the same "
                "settings and texts to go on with it; name another --out"
            )

    def read_result(self) -> dict[str, Any] | None:
        """What a finished run wrote of its end."""
        return json.loads(self._result.read_text()) if self._result.exists() else None

    def write_result(self, result: dict[str, Any]) -> None:
        """Write how the run ended."""
        _write_json(self._result, result)


def _take(lock: IO[str], folder: Path) -> None:
    """Lock a file until it is closed, by whatever end this process comes to."""
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise ConfigError(
            f"{folder}: another process is training here; expected to be alone; wait for it, or "
            "name another --out"
        ) from error


def _write_json(path: Path, value: dict[str, Any]) -> None:
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(value, indent=1) + "\n", encoding="utf-8")
    os.replace(unfinished, path)


def _differences(found: Any, wanted: Any, name: str = "") -> list[str]:  # noqa: ANN401
    if isinstance(found, dict) and isinstance(wanted, dict):
        keys = [key for key in wanted | found if key not in FREE_SETTINGS]
        return [
            difference
            for key in keys
            for difference in _differences(
                found.get(key), wanted.get(key), f"{name}.{key}".lstrip(".")
            )
        ]
    return [] if found == wanted else [f"{name} is {found!r} there and {wanted!r} here"]


def _surroundings() -> dict[str, Any]:
    """Not part of a run's identity, but good to know later."""
    commit = subprocess.run(
        ["git", "describe", "--always", "--dirty"], capture_output=True, text=True, check=False
    )
    return {
        "version": elmo.__version__,
        "git": commit.stdout.strip() or None,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "n_threads": torch.get_num_threads(),
    }
