"""The folder of a training run.

In: the settings and texts of a run. Out: `run.json` (settings, versions, hashes of the texts),
`checkpoints/`, `metrics.jsonl`, `model/`, `result.json`. A folder belongs to one run: another run
is refused, and so is a second process of the same run.
"""

import json
import platform
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

import elmo
from elmo.errors import CheckpointError, ConfigError, WriteError
from elmo.files.atomic import is_temporary, recover, write_json
from elmo.files.locks import exclusive
from elmo.settings import from_mapping, to_mapping

LOCK = "run.lock"
# Settings that may differ when a run is resumed. Earlier steps do not depend on them; the learning
# rate of later steps and early stopping may.
FREE_SETTINGS = ("n_epochs", "log_every", "save_every", "evaluate_every", "n_evaluation_sentences")


class RunFolder:
    """Paths, identity and lock of a run."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.checkpoints = path / "checkpoints"
        self.model = path / "model"
        self.metrics = path / "metrics.jsonl"
        self._record = path / "run.json"
        self._result = path / "result.json"

    @contextmanager
    def claim(
        self, identity: dict[str, Any], config_kind: type[object] | None = None
    ) -> Iterator[None]:
        """Lock the folder for the run with this identity; a new run is recorded in `run.json`.

        The settings of a recorded run are read as `config_kind`: settings that were added since get
        their defaults, and renamed ones raise an error with their new names.
        """
        try:
            self.path.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise WriteError(f"{self.path}: cannot be written ({error.strerror})") from error
        if not self._record.exists():
            self._check_unused()
        with exclusive(self.path / LOCK):
            recover(self.path)
            self.check(identity, config_kind)
            if not self._record.exists():
                write_json(self._record, identity | _environment(), durable=True)
            yield

    def check(self, identity: dict[str, Any], config_kind: type[object] | None = None) -> None:
        """Refuse a folder of another run or with other files, before anything is written to it.

        `identity` may be a part of the run's identity.
        """
        if not self._record.exists():
            self._check_unused()
            return
        found = _read_object(self._record, "the settings of a run")
        if config_kind is not None and "config" in found:
            config = from_mapping(config_kind, found["config"], f"{self._record}: config")
            found["config"] = to_mapping(config)
        self._check_identity(found, identity)

    def _check_unused(self) -> None:
        """Refuse a folder with unrelated files, except a cache and what a killed start left."""
        found = self.path.iterdir() if self.path.is_dir() else ()
        names = {path.name for path in found} - {"cache", LOCK}
        others = sorted(name for name in names if not is_temporary(name))
        if others:
            raise ConfigError(
                f"{self.path}: contains {others[0]!r} but no run.json; expected a new folder or "
                "one of this run"
            )

    def _check_identity(self, found: dict[str, Any], identity: dict[str, Any]) -> None:
        differences = _differences({key: found.get(key) for key in identity}, identity)
        if differences:
            raise ConfigError(
                f"{self.path}: contains another run ({'; '.join(differences)}); expected the same "
                "settings and texts to resume it, or a new folder"
            )

    def read_result(self) -> dict[str, Any] | None:
        """The result of a finished run."""
        if not self._result.exists():
            return None
        return _read_object(self._result, "the result of a run")

    def remove_result(self) -> None:
        """Record that the run is not finished."""
        self._result.unlink(missing_ok=True)

    def write_result(self, result: dict[str, Any]) -> None:
        """Record that the run is finished, and its result."""
        write_json(self._result, result, durable=True)


def _read_object(path: Path, expected: str) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path}: cannot be read ({error}), expected {expected}") from error
    if not isinstance(found, dict):
        raise CheckpointError(f"{path}: no JSON object, expected {expected}")
    return found


def _differences(found: Any, expected: Any, name: str = "") -> list[str]:  # noqa: ANN401
    if isinstance(found, dict) and isinstance(expected, dict):
        keys = [key for key in expected | found if key not in FREE_SETTINGS]
        return [
            difference
            for key in keys
            for difference in _differences(
                found.get(key), expected.get(key), f"{name}.{key}".lstrip(".")
            )
        ]
    return [] if found == expected else [f"{name} is {found!r} there and {expected!r} here"]


def _environment() -> dict[str, Any]:
    """Versions and threads, which are recorded with a run but not part of its identity."""
    try:
        command = ["git", "describe", "--always", "--dirty"]
        commit = subprocess.run(command, capture_output=True, text=True, check=False).stdout
    except OSError:  # git is not installed
        commit = ""
    return {
        "version": elmo.__version__,
        "git": commit.strip() or None,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "n_threads": torch.get_num_threads(),
    }
