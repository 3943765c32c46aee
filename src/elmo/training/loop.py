"""The training loop of pre-training and tasks: steps, evaluations and checkpoints.

In: a `Learner`, the folder of a run, a budget, the processes of the run. Out: the folder with
checkpoints, metrics, the model, a learning curve and `result.json`. A step depends only on its
number and on the contents of a checkpoint: on CPU, a run that was killed and resumed is bitwise
identical to an uninterrupted one, if the number of threads is the same.
"""

import dataclasses
import logging
import math
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor
from torch.utils import deterministic
from tqdm.contrib.logging import logging_redirect_tqdm

from elmo.errors import CheckpointError, ElmoError
from elmo.network import kernels
from elmo.training.budget import Budget, Plan
from elmo.training.checkpoint import TrainingCheckpoint, load_newest, save_checkpoint
from elmo.training.distributed import Processes
from elmo.training.metrics import MetricsLog
from elmo.training.optimizers import Decay, scheduled_rate
from elmo.training.plots import ScorePlot, draw_learning_curve
from elmo.training.run_folder import RunFolder
from elmo.training.signals import catch_signals

# A checkpoint is also written after an evaluation, unless the last one is younger than this.
SECONDS_UNSAVED = 60.0

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True)
class Schedule:
    """When a run logs, evaluates, saves and ends, and its learning rate."""

    n_steps: int  # of all epochs
    n_epochs_read: Callable[[int], float]  # before a step
    log_every: int
    evaluate_every: int
    save_every: int
    patience: int | None  # evaluations without improvement until the run ends
    keeps_best: bool  # the saved model is the best one; else the last one
    learning_rate: float
    n_warmup_steps: int = 0
    decay: Decay = "constant"
    lr_plateau_patience: int | None = None  # evaluations without improvement to halve the rate
    max_loss: float = math.inf  # above this, training has diverged


@dataclass(frozen=True)
class StepResult:
    """Metrics of a training step, over all processes."""

    loss: float
    gradient_norm: float
    n_tokens: int


@dataclass(frozen=True)
class Evaluation:
    """The result of evaluating a model on held-out data."""

    score: float  # higher is better
    metrics: dict[str, float]  # for metrics.jsonl
    summary: str  # for the log and the progress bar
    details: dict[str, Any]  # for result.json


class Learner(Protocol):
    """A model in training."""

    schedule: Schedule
    score_plot: ScorePlot

    def step(self, step: int, learning_rate: float) -> StepResult:
        """Train on the batch of a step, in all processes."""

    def evaluate(self) -> Evaluation:
        """Evaluate the model as `save_model` would save it now; called in the first process only.

        A learner that averages its weights evaluates and saves the averages.
        """

    def evaluate_final(self, folder: Path, step: int) -> Evaluation | None:
        """Evaluate the final model on all data and save it; None if `evaluate` uses all data.

        `step` is the number of steps of that model, which is the best or the last one.
        """

    def save_model(self, folder: Path, step: int, evaluation: Evaluation) -> None:
        """Save the model that was just evaluated."""

    def state(self) -> dict[str, Tensor]:
        """Everything that the next step depends on; called in all processes."""

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned; called in all processes.

        The tensors are copied: those given may be views of a file that is removed later.
        """

    def result(self, history: "History") -> dict[str, Any]:
        """Entries of result.json besides those of the last or best evaluation."""


@dataclass(frozen=True)
class History:
    """The evaluations of a run so far."""

    scores: tuple[float, ...] = ()
    best: Evaluation | None = None
    best_number: int = 0  # from 1
    best_step: int = 0

    def after(self, evaluation: Evaluation, step: int) -> "History":
        """The history extended by an evaluation after `step` steps."""
        scores = (*self.scores, evaluation.score)
        if self.best is None or evaluation.score > self.best.score:
            return History(scores, evaluation, len(scores), step)
        return replace(self, scores=scores)

    @property
    def n_since_best(self) -> int:
        """Evaluations after the best one."""
        return len(self.scores) - self.best_number

    def n_plateaus(self, patience: int | None) -> int:
        """How many times `patience` evaluations in a row did not improve on the best score."""
        n_plateaus = n_worse = 0
        best = -math.inf
        for score in self.scores:
            n_worse = 0 if score > best else n_worse + 1
            best = max(best, score)
            if n_worse == patience:
                n_plateaus, n_worse = n_plateaus + 1, 0
        return n_plateaus

    @staticmethod
    def from_mapping(mapping: dict[str, Any]) -> "History":
        """The inverse of `dataclasses.asdict`, from decoded JSON."""
        best = mapping["best"] and Evaluation(**mapping["best"])
        # Earlier versions did not save the step.
        best_step = mapping.get("best_step", 0)
        return History(tuple(mapping["scores"]), best, mapping["best_number"], best_step)


class TrainingLoop:
    """The training run of a learner."""

    def __init__(
        self, learner: Learner, run: RunFolder, budget: Budget, processes: Processes
    ) -> None:
        self._learner = learner
        self._schedule = learner.schedule
        self._run = run
        self._processes = processes
        self._plan = Plan(budget, self._schedule.n_steps)
        self._step = 0
        self._n_tokens = 0
        self._losses: list[float] = []  # since the last line of metrics
        self._logged = (0, 0.0)  # tokens and seconds at the last line of metrics
        self._saved_step: int | None = None
        self._saved_at = 0.0
        self._history = History()

    def fit(self) -> dict[str, Any] | None:
        """Train to the end; return the result in all processes, None if stopped by a signal."""
        kernels.keep_freed_memory()
        self._resume()
        opened = MetricsLog(self._run.metrics, self._step) if self._processes.is_first else None
        with (
            reproducible(self._processes.device),
            logging_redirect_tqdm(),
            opened or nullcontext() as metrics,
        ):
            if metrics is not None and not self._is_over():
                self._run.remove_result()  # of a finished run that is continued
            with catch_signals() as stop:
                while self._processes.broadcast(not (stop.is_set() or self._is_over())):
                    self._take_step(metrics)
            self._save()
            if not self._processes.broadcast(self._is_over()):
                log.info("stopped and saved at step %d; run the same command to resume", self._step)
                return None
            if metrics is not None:
                self._finish(metrics)
        self._processes.barrier()
        return self._run.read_result()

    def _take_step(self, metrics: MetricsLog | None) -> None:
        schedule = self._schedule
        learning_rate = self._processes.broadcast(self._learning_rate())
        result = self._learner.step(self._step, learning_rate)
        self._check(result)
        self._step += 1
        self._n_tokens += result.n_tokens
        self._losses.append(result.loss)
        self._plan.update(self._step)
        if self._step % schedule.log_every == 0:
            self._log_step(metrics, result, learning_rate)
        is_evaluated = self._step % schedule.evaluate_every == 0
        if is_evaluated and metrics is not None:
            self._evaluate(metrics)
        is_old = self._plan.seconds - self._saved_at >= SECONDS_UNSAVED
        if self._step % schedule.save_every == 0 or (
            is_evaluated and self._processes.broadcast(is_old)
        ):
            self._save()

    def _is_over(self) -> bool:
        patience = self._schedule.patience
        has_stalled = patience is not None and self._history.n_since_best >= patience
        return has_stalled or self._plan.is_over(self._step)

    def _learning_rate(self) -> float:
        rate = scheduled_rate(
            self._step,
            self._plan.n_steps,
            highest=self._schedule.learning_rate,
            n_warmup=self._schedule.n_warmup_steps,
            decay=self._schedule.decay,
        )
        return rate * 0.5 ** self._history.n_plateaus(self._schedule.lr_plateau_patience)

    def _check(self, result: StepResult) -> None:
        max_loss = self._schedule.max_loss
        if math.isfinite(result.gradient_norm) and result.loss < max_loss:
            return
        expected = "finite numbers" if max_loss == math.inf else f"a loss below {max_loss:.4g}"
        raise ElmoError(
            f"step {self._step}: training diverged: the loss is {result.loss:.4g} and the gradient "
            f"norm {result.gradient_norm:.4g}, expected {expected}; start a new run with a lower "
            "optimizer.learning_rate or optimizer.max_grad_norm; the last checkpoint in "
            f"{self._run.checkpoints} is intact"
        )

    def _log_step(
        self, metrics: MetricsLog | None, result: StepResult, learning_rate: float
    ) -> None:
        loss, seconds = sum(self._losses) / len(self._losses), self._plan.seconds
        n_tokens, started_at = self._logged
        self._losses, self._logged = [], (self._n_tokens, seconds)
        if metrics is None:
            return
        values = {
            "loss": loss,
            "gradient_norm": result.gradient_norm,
            "learning_rate": learning_rate,
            "epoch": self._epoch,
            "tokens": self._n_tokens,
            "seconds": seconds,
            "tokens_per_second": (self._n_tokens - n_tokens) / (seconds - started_at),
        }
        metrics.write(self._step, values)
        best = self._history.best
        shown = [
            f"epoch {self._epoch:.2f}",
            f"loss {loss:.4g}",
            f"{values['tokens_per_second']:.0f} tokens/s",
            *([] if best is None else [f"best {best.summary}"]),
        ]
        metrics.show(self._step, self._plan.n_steps, ", ".join(shown))

    def _evaluate(self, metrics: MetricsLog) -> None:
        """Evaluate the model, and save it if it is to be kept."""
        evaluation = self._learner.evaluate()
        self._history = self._history.after(evaluation, self._step)
        is_best = self._history.n_since_best == 0
        self._log_evaluation(metrics, evaluation, " (best)" if is_best else "")
        if is_best or not self._schedule.keeps_best:
            self._learner.save_model(self._run.model, self._step, evaluation)

    def _log_evaluation(self, metrics: MetricsLog, evaluation: Evaluation, mark: str = "") -> None:
        seconds = self._plan.seconds
        values = {"epoch": self._epoch, **evaluation.metrics, "seconds": seconds}
        metrics.write(self._step, values)
        log.info(
            "step %d, epoch %.2f, %.1f minutes: %s%s",
            *(self._step, self._epoch, seconds / 60, evaluation.summary, mark),
        )

    def _finish(self, metrics: MetricsLog) -> None:
        """Evaluate a last time and write the result, unless this was done before."""
        found = self._run.read_result()
        if found is not None and found.get("n_steps") == self._step:
            return
        kept_step = self._history.best_step if self._schedule.keeps_best else self._step
        evaluation = self._learner.evaluate_final(self._run.model, kept_step or self._step)
        if evaluation is not None:
            self._log_evaluation(metrics, evaluation)
        elif not self._history.scores:
            self._evaluate(metrics)  # the budget ended before the first evaluation
        evaluation = evaluation or self._history.best
        assert evaluation is not None
        self._run.write_result(
            {
                "n_steps": self._step,
                "seconds": self._plan.seconds,
                **evaluation.details,
                **self._learner.result(self._history),
            }
        )
        picture = self._run.path / "learning_curve.png"
        draw_learning_curve(self._run.metrics, picture, self._learner.score_plot)

    @property
    def _epoch(self) -> float:
        return self._schedule.n_epochs_read(self._step)

    def _save(self) -> None:
        if self._saved_step == self._step:
            return
        self._saved_step, self._saved_at = self._step, self._plan.seconds
        state = self._learner.state()
        if self._processes.is_first:
            numbers = {
                "seconds": self._plan.seconds,
                "n_planned": self._plan.n_steps,
                "n_tokens": self._n_tokens,
                "losses": self._losses,
                "history": dataclasses.asdict(self._history),
            }
            save_checkpoint(self._run.checkpoints, TrainingCheckpoint(self._step, state, numbers))

    def _resume(self) -> None:
        found = load_newest(self._run.checkpoints)
        if found is None:
            self._plan.start(0.0, None)
            return
        if "history" not in found.numbers:
            raise CheckpointError(
                f"{self._run.checkpoints}: written by an earlier version of this package, expected "
                "one of this version; resume the run with that version, or start a new one"
            )
        self._learner.load_state(found.tensors)
        self._step = self._saved_step = found.step
        self._n_tokens, self._losses = found.numbers["n_tokens"], found.numbers["losses"]
        self._history = History.from_mapping(found.numbers["history"])
        self._plan.start(found.numbers["seconds"], found.numbers["n_planned"])
        self._saved_at = found.numbers["seconds"]
        self._logged = (self._n_tokens, self._plan.seconds)
        log.info("resuming at step %d", self._step)


@contextmanager
def reproducible(device: torch.device) -> Iterator[None]:
    """Make gradients on CPU reproducible.

    By default, torch sums the gradient of `x[index]` in the order in which its threads run. On
    other devices nothing is guaranteed: some operations have no deterministic variant.
    """
    was_deterministic = torch.are_deterministic_algorithms_enabled()
    did_warn_only = torch.is_deterministic_algorithms_warn_only_enabled()
    was_filled = deterministic.fill_uninitialized_memory  # type: ignore[attr-defined]
    if device.type == "cpu":
        torch.use_deterministic_algorithms(True, warn_only=True)
        deterministic.fill_uninitialized_memory = False  # type: ignore[attr-defined]
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(was_deterministic, warn_only=did_warn_only)
        deterministic.fill_uninitialized_memory = was_filled  # type: ignore[attr-defined]


def seed_step(seed: int, step: int, rank: int) -> None:
    """Seed the random numbers of a step, such as dropout, by the run's seed, the step and rank."""
    torch.manual_seed(int(np.random.SeedSequence((seed, step, rank)).generate_state(1)[0]))


def with_prefix(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    """The tensors whose names start with a prefix, which is removed from the names."""
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
