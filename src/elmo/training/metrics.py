"""Metrics of a run: `metrics.jsonl`, TensorBoard if it is installed, a progress bar.

In: metrics of a step. Out: lines of JSON; a resumed run continues them after its checkpoint's step.
"""

import json
from pathlib import Path
from types import TracebackType
from typing import Any

from tqdm import tqdm

from elmo.files.atomic import write_text


class MetricsLog:
    """The open files of a run's metrics, and its progress bar."""

    def __init__(self, path: Path, last_step: int) -> None:
        """Continue after `last_step`; lines of later steps, left by a killed run, are removed."""
        _remove_lines(path, last_step)
        self._file = path.open("a", encoding="utf-8")
        self._board = _open_board(path.parent / "tensorboard", last_step)
        self._bar = tqdm(initial=last_step, unit="step", disable=None)

    def __enter__(self) -> "MetricsLog":
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.close()
        self._file.close()
        if self._board is not None:
            self._board.close()

    def write(self, step: int, values: dict[str, float]) -> None:
        self._file.write(json.dumps({"step": step} | values) + "\n")
        self._file.flush()
        if self._board is not None:
            for name, value in values.items():
                self._board.add_scalar(name, value, step)

    def show(self, step: int, n_planned: int | None, text: str) -> None:
        """Update the progress bar."""
        self._bar.total = n_planned
        self._bar.set_postfix_str(text, refresh=False)
        self._bar.update(step - self._bar.n)


def read_metrics(path: Path) -> list[dict[str, Any]]:
    """All complete lines; a kill or a full disk may have truncated the last one."""
    lines = []
    for text in path.read_text(encoding="utf-8").split("\n") if path.exists() else []:
        try:
            lines.append(json.loads(text))
        except ValueError:
            continue
    return lines


def _remove_lines(path: Path, last_step: int) -> None:
    kept = [line for line in read_metrics(path) if line["step"] <= last_step]
    write_text(path, "".join(json.dumps(line) + "\n" for line in kept))


def _open_board(folder: Path, last_step: int) -> Any:  # noqa: ANN401 - of an optional package
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        return None
    return SummaryWriter(str(folder), purge_step=last_step + 1)
