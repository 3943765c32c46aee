"""What a run tells while it trains: a live bar, a log, `metrics.jsonl`, TensorBoard.

In: numbers of a step. Out: lines of JSON, which a resumed run goes on with as if it had never
stopped. Only the first of several processes reports.
"""

import dataclasses
import logging
from pathlib import Path
from types import TracebackType

from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from elmo.pretraining.perplexity import Perplexity
from elmo.training.metrics import MetricsFile

log = logging.getLogger(__name__)


class Report:
    """The voice of a run."""

    def __init__(self, path: Path, last_step: int, *, is_silent: bool) -> None:
        """Go on after `last_step`: what a killed run said past it is taken back."""
        self._perplexity: Perplexity | None = None
        self._redirection = logging_redirect_tqdm()
        self._bar = tqdm(initial=last_step, unit="step", disable=True if is_silent else None)
        self._metrics = None if is_silent else MetricsFile(path, last_step)

    def __enter__(self) -> "Report":
        self._redirection.__enter__()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        self._bar.close()
        if self._metrics is not None:
            self._metrics.close()
        self._redirection.__exit__(kind, error, traceback)

    def tell_step(self, step: int, n_planned: int | None, values: dict[str, float]) -> None:
        """A line of how training goes."""
        self._write(step, values)
        self._bar.total = n_planned
        self._bar.update(step - self._bar.n)
        shown = {
            "loss": f"{values['loss']:.3f}",
            "tokens/s": f"{values['tokens_per_second']:.0f}",
            "epoch": f"{values['epoch']:.2f}",
        }
        if self._perplexity is not None:
            shown["held-out perplexity"] = f"{self._perplexity.mean:.1f}"
        self._bar.set_postfix(shown)

    def tell_heldout(self, step: int, perplexity: Perplexity, seconds: float) -> None:
        """A line of what held-out text says."""
        self._perplexity = perplexity
        measured = dataclasses.asdict(perplexity).items()
        values = {f"heldout_{name}": value for name, value in measured if value is not None}
        self._write(step, values | {"seconds": seconds})
        minutes = seconds / 60
        log.info(
            "step %d, %.1f minutes: held-out perplexity %s", step, minutes, perplexity.describe()
        )

    def _write(self, step: int, values: dict[str, float]) -> None:
        if self._metrics is not None:
            self._metrics.write(step, values)
