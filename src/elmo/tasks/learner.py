"""The loop of a task's training: steps, the dev score of each epoch, checkpoints, until its end.

In: a task with a network at its start, examples, a run's folder. Out: the folder with the model
that was best on the dev examples, metrics, a learning curve, and `result.json`. What a step does
depends on its number and on what a checkpoint holds, and on nothing else: a run that was killed
goes on bit for bit.
"""

import dataclasses
import logging
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from torch import Tensor
from tqdm import tqdm
from tqdm.contrib.logging import logging_redirect_tqdm

from elmo.errors import DataError, ElmoError
from elmo.network import kernels
from elmo.settings import to_mapping
from elmo.tasks.batches import training_batches
from elmo.tasks.config import OptimizerConfig
from elmo.tasks.saved import TrainedTask
from elmo.training.budget import Budget, Plan
from elmo.training.checkpoint import TrainingCheckpoint, load_newest, save_checkpoint
from elmo.training.metrics import MetricsFile
from elmo.training.optimizers import Optimizer, build_adadelta, build_adamw, clip_gradients
from elmo.training.plots import draw_task
from elmo.training.run_folder import RunFolder
from elmo.training.signals import catch_signals

# At an epoch's end; shorter epochs would spend much of their time on writing checkpoints.
SECONDS_UNSAVED = 10.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Progress:
    """What the dev examples have said so far."""

    scores: Mapping[str, float] | None = None  # of the best model
    best_epoch: int = 0
    n_epochs: int = 0
    n_halvings: int = 0
    n_worse_at_rate: int = 0  # epochs at this learning rate that were not better
    curve: tuple[float, ...] = ()  # the metric after each epoch
    mixes: Mapping[str, Any] | None = None  # of the best model

    def after(
        self,
        scores: Mapping[str, float],
        metric: str,
        mixes: Mapping[str, Any],
        lr_plateau_patience: int | None,
    ) -> "Progress":
        """With one more epoch."""
        now = replace(self, n_epochs=self.n_epochs + 1, curve=(*self.curve, scores[metric]))
        if self.scores is None or scores[metric] > self.scores[metric]:
            return replace(
                now, scores=scores, mixes=mixes, best_epoch=now.n_epochs, n_worse_at_rate=0
            )
        n_worse = self.n_worse_at_rate + 1
        if lr_plateau_patience is not None and n_worse >= lr_plateau_patience:
            return replace(now, n_halvings=self.n_halvings + 1, n_worse_at_rate=0)
        return replace(now, n_worse_at_rate=n_worse)


class TaskTrainer:
    """The loop of a run."""

    def __init__(
        self,
        trained: TrainedTask,
        train: Sequence[Any],
        dev: Sequence[Any],
        run: RunFolder,
        bilm_path: str | None,
        budget: Budget,
    ) -> None:
        if not train or not dev:
            raise DataError(
                f"{len(train)} training and {len(dev)} dev examples, expected at least one of "
                "each; name other files"
            )
        self._trained = trained
        self._config = trained.config
        self._model = trained.model.train()
        self._train, self._dev = train, dev
        self._run = run
        self._bilm_path = bilm_path
        self._lengths = [trained.task.length(example) for example in train]
        self._n_batches = math.ceil(len(train) / self._config.train.batch_size)
        self._plan = Plan(budget, self._config.train.n_epochs * self._n_batches)
        self._parameters = {n: p for n, p in self._model.named_parameters() if p.requires_grad}
        self._optimizer = _build_optimizer(self._config.optimizer, self._parameters)
        self._batches: list[list[int]] = []
        self._step = 0
        self._saved_step: int | None = None
        self._saved_at = 0.0
        self._losses: list[float] = []  # since the last line of metrics
        self._progress = Progress()

    def fit(self) -> dict[str, Any] | None:
        """Train until the end, and say how it went; nothing where somebody stopped the run."""
        kernels.keep_freed_memory()
        self._resume()
        metrics = MetricsFile(self._run.metrics, self._step)
        bar = tqdm(initial=self._step, total=self._plan.n_steps, unit="step", disable=None)
        with logging_redirect_tqdm(), bar, catch_signals() as stop:
            while not (stop.is_set() or self._is_over()):
                self._take_step(metrics, bar)
            self._save()
            if self._is_over() and self._progress.scores is None:
                self._evaluate(metrics)  # a budget ended within the first epoch
        metrics.close()
        if not self._is_over():
            log.info("stopped and saved at step %d; the same command goes on", self._step)
            return None
        return self._finish()

    def _take_step(self, metrics: MetricsFile, bar: "tqdm[Any]") -> None:
        epoch, place = divmod(self._step, self._n_batches)
        train, optimizer = self._config.train, self._config.optimizer
        if place == 0 or not self._batches:
            self._batches = training_batches(
                self._lengths, train.batch_size, seed=train.seed, epoch=epoch
            )
        rate = optimizer.learning_rate * 0.5**self._progress.n_halvings
        self._losses.append(self._learn(self._batches[place], rate))
        self._step += 1
        bar.update()
        if self._step % train.log_every == 0:
            loss = sum(self._losses) / len(self._losses)
            values = {"loss": loss, "learning_rate": rate, "seconds": self._plan.seconds}
            metrics.write(self._step, values)
            bar.set_postfix({"loss": f"{loss:.4g}", **self._best_shown()})
            self._losses = []
        if self._step % self._n_batches == 0:
            self._evaluate(metrics)
        is_due = self._plan.seconds - self._saved_at >= SECONDS_UNSAVED
        if self._step % train.save_every == 0 or (is_due and self._step % self._n_batches == 0):
            self._save()

    def _learn(self, batch: list[int], rate: float) -> float:
        """One step on a batch: its loss."""
        seed = np.random.SeedSequence((self._config.train.seed, self._step)).generate_state(1)[0]
        torch.manual_seed(int(seed))
        loss = self._model.loss([self._train[k] for k in batch])
        (loss + self._model.tokens.penalty()).backward()  # type: ignore[no-untyped-call]
        longest = self._config.optimizer.max_grad_norm
        norm = clip_gradients(self._parameters.values(), math.inf if longest is None else longest)
        if not math.isfinite(norm):
            raise ElmoError(
                f"step {self._step}: the loss is {loss.item():.4g} and the gradient's length "
                f"{norm:.4g}, expected numbers: training came apart; start anew with a lower "
                "optimizer.learning_rate or optimizer.max_grad_norm"
            )
        self._optimizer.step(rate)
        return float(loss.detach())

    def _evaluate(self, metrics: MetricsFile) -> None:
        """Measure the dev examples, and put the model into its folder if it is the best."""
        scores = self._trained.measure(self._dev)
        metric = self._trained.task.metric
        self._progress = self._progress.after(
            scores,
            metric,
            self._model.tokens.layer_weights(),
            self._config.optimizer.lr_plateau_patience,
        )
        n_epochs, best = self._progress.n_epochs, self._progress.best_epoch
        values = {f"dev_{name}": value for name, value in scores.items()}
        metrics.write(self._step, {"epoch": n_epochs, **values, "seconds": self._plan.seconds})
        mark = " (best)" if best == n_epochs else ""
        log.info("epoch %d: dev %s %.2f%s", n_epochs, metric, scores[metric], mark)
        if best == n_epochs:
            self._trained.save(self._run.model, self._bilm_path, scores)

    def _best_shown(self) -> dict[str, str]:
        metric, scores = self._trained.task.metric, self._progress.scores
        return {} if scores is None else {f"best dev {metric}": f"{scores[metric]:.2f}"}

    def _is_over(self) -> bool:
        patience = self._config.train.patience
        n_worse = self._progress.n_epochs - self._progress.best_epoch
        has_waited = patience is not None and n_worse >= patience
        return has_waited or self._plan.is_over(self._step)

    def _finish(self) -> dict[str, Any]:
        """What the run came to."""
        draw_task(self._run.metrics, self._run.path / "learning_curve.png")
        progress, tokens = self._progress, self._model.tokens
        result = {
            "task": self._trained.task.name,
            "metric": self._trained.task.metric,
            "scores": progress.scores,
            "seed": self._config.train.seed,
            "n_train": len(self._train),
            "n_dev": len(self._dev),
            "n_epochs": progress.n_epochs,
            "best_epoch": progress.best_epoch,
            "curve": list(progress.curve),
            "seconds": self._plan.seconds,
            "n_parameters": sum(p.numel() for p in self._parameters.values()),
            "mixes": progress.mixes,
            "bilm_sha256": None if tokens.source is None else tokens.source.bilm_sha256,
            "settings": to_mapping(self._config),
        }
        found = self._run.read_result()
        if found is not None and found["n_epochs"] == progress.n_epochs:
            return found  # the same command after the end says the same
        self._run.write_result(result)
        return result

    def _save(self) -> None:
        if self._saved_step == self._step:
            return
        self._saved_step, self._saved_at = self._step, self._plan.seconds
        tensors: dict[str, Tensor] = {
            **{f"model.{name}": tensor for name, tensor in self._model.state_dict().items()},
            **{f"optimizer.{name}": part for name, part in self._optimizer.state().items()},
        }
        numbers = {
            "seconds": self._plan.seconds,
            "losses": self._losses,
            "progress": dataclasses.asdict(self._progress),
        }
        save_checkpoint(self._run.checkpoints, TrainingCheckpoint(self._step, tensors, numbers))

    def _resume(self) -> None:
        found = load_newest(self._run.checkpoints)
        if found is None:
            self._plan.start(0.0, None)
            return
        self._model.load_state_dict(_part(found.tensors, "model."))
        self._optimizer.load_state(_part(found.tensors, "optimizer."))
        self._step = self._saved_step = found.step
        self._saved_at = found.numbers["seconds"]
        self._losses = found.numbers["losses"]
        progress = found.numbers["progress"]
        self._progress = Progress(**{**progress, "curve": tuple(progress["curve"])})
        self._plan.start(found.numbers["seconds"], None)
        log.info("going on from step %d", self._step)


def _build_optimizer(config: OptimizerConfig, parameters: dict[str, Any]) -> Optimizer:
    if config.kind == "adadelta":
        return build_adadelta(parameters, rho=config.beta2)
    # AdamW without decay is Adam.
    return build_adamw(parameters, {}, betas=(config.beta1, config.beta2), weight_decay=0.0)


def _part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
