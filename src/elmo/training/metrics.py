"""What a run measured, line by line: `metrics.jsonl`, and TensorBoard where it is installed.

In: numbers of a step. Out: lines of JSON, which a resumed run goes on with as if it had never
stopped.
"""

import json
from pathlib import Path
from typing import Any

from elmo.files.atomic import write_text


class MetricsFile:
    """The lines of a run."""

    def __init__(self, path: Path, last_step: int) -> None:
        """Go on after `last_step`: what a killed run said past it is taken back."""
        _keep_lines(path, last_step)
        self._file = path.open("a", encoding="utf-8")
        self._board = _open_board(path.parent / "tensorboard", last_step)

    def write(self, step: int, values: dict[str, float]) -> None:
        """One line."""
        self._file.write(json.dumps({"step": step} | values) + "\n")
        self._file.flush()
        if self._board is not None:
            for name, value in values.items():
                self._board.add_scalar(name, value, step)

    def close(self) -> None:
        """Let go of the files."""
        self._file.close()
        if self._board is not None:
            self._board.close()


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """All whole lines; the last may have been cut by a kill or a full disk."""
    lines = []
    for text in path.read_text(encoding="utf-8").split("\n") if path.exists() else []:
        try:
            lines.append(json.loads(text))
        except ValueError:
            continue
    return lines


def _keep_lines(path: Path, last_step: int) -> None:
    kept = [line for line in read_metrics(path) if line["step"] <= last_step]
    write_text(path, "".join(json.dumps(line) + "\n" for line in kept))


def _open_board(folder: Path, last_step: int) -> Any:  # noqa: ANN401 - of an optional package
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=last_step + 1)
