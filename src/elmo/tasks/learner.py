"""The learner of a task: its network, trained on examples and evaluated on the dev examples.

In: a task with an untrained network, examples, the processes of the run; for each step its number
and learning rate. Out: the loss; the network and its optimizer are updated. Batches, dropout and
the split of a batch over processes depend on the seed and the number of the step alone.
"""

import math
from collections.abc import Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn

from elmo.errors import DataError
from elmo.settings import to_mapping
from elmo.tasks.config import OptimizerConfig, TaskConfig
from elmo.tasks.saved import TrainedTask
from elmo.training.averages import Averages
from elmo.training.distributed import Processes
from elmo.training.loop import (
    Evaluation,
    History,
    Schedule,
    StepResult,
    seed_step,
    with_prefix,
)
from elmo.training.optimizers import (
    Optimizer,
    Parameters,
    build_adadelta,
    build_adamw,
    clip_gradients,
)
from elmo.training.plots import ScorePlot

# Relative noise of lengths before sorting, so that batches differ from epoch to epoch.
LENGTH_NOISE = 0.1


class TaskLearner:
    """A task model in training; a `Learner` of the training loop."""

    # Scores of single labels, such as dev_f1_PER, would clutter the plot.
    score_plot = ScorePlot(r"dev_(?!f1_)", "dev score")

    def __init__(
        self,
        trained: TrainedTask,
        train: Sequence[Any],
        dev: Sequence[Any],
        bilm_path: str | None,
        processes: Processes,
    ) -> None:
        if not train or not dev:
            raise DataError(
                f"{len(train)} training and {len(dev)} dev examples, expected at least one of each"
            )
        self._trained = trained
        self._config = trained.config
        self._model = trained.model.train()
        self._train, self._dev = train, dev
        self._bilm_path = bilm_path
        self._processes = processes
        self._lengths = [trained.task.length(example) for example in train]
        self._batches = lru_cache(maxsize=1)(self._draw_batches)
        self._parameters = {n: p for n, p in self._model.named_parameters() if p.requires_grad}
        bilm = {n: p for n, p in self._parameters.items() if n.startswith("tokens.bilm.")}
        others = {n: p for n, p in self._parameters.items() if n not in bilm}
        table = self._model.tokens.words
        words: dict[str, nn.Parameter] = {}
        if table is not None and self._config.optimizer.kind == "adam":
            table.has_sparse_gradients = True
            name = "tokens.words.trained"
            words[name] = others.pop(name)
        self._optimizer = _build_optimizer(self._config.optimizer, others, words)
        self._bilm_optimizer = _build_optimizer(self._config.optimizer, bilm, {})
        self._averages = Averages(self._parameters, self._config.train.ema_decay)
        self._n_batches = math.ceil(len(train) / self._config.train.batch_size)
        self.schedule = _build_schedule(self._config, self._n_batches)

    def step(self, step: int, learning_rate: float) -> StepResult:
        """Train on the batch of a step."""
        seed_step(self._config.train.seed, step, self._processes.rank)
        epoch, number = divmod(step, self._n_batches)
        fine_tune = self._config.fine_tune
        is_tuned = fine_tune is not None and epoch >= fine_tune.n_frozen_epochs
        self._model.tokens.is_bilm_frozen = not is_tuned
        batch = self._batches(epoch)[number]
        loss = self._loss([self._train[k] for k in batch])
        total = loss + self._model.tokens.penalty()
        if total.requires_grad:  # false if a process has no example and no mix has a penalty
            total.backward()  # type: ignore[no-untyped-call]
        self._processes.average_gradients(self._parameters.values())
        max_norm = self._config.optimizer.max_grad_norm
        norm = clip_gradients(self._parameters.values(), math.inf if max_norm is None else max_norm)
        self._optimizer.step(learning_rate)
        if is_tuned and fine_tune is not None:
            assert self._config.optimizer.learning_rate is not None
            # The ratio is constant, so that this rate is halved when the other one is.
            ratio = fine_tune.learning_rate / self._config.optimizer.learning_rate
            self._bilm_optimizer.step(ratio * learning_rate)
        self._averages.update(step + 1)
        mean_loss = float(self._processes.sum(loss.detach())) / self._processes.n_processes
        return StepResult(mean_loss, norm, sum(self._lengths[k] for k in batch))

    def evaluate(self) -> Evaluation:
        """The scores of the dev examples."""
        with self._averages.in_place():
            scores = self._trained.measure(self._dev)
            mixes = self._model.tokens.layer_weights()
        metric = self._trained.task.metric
        return Evaluation(
            score=scores[metric],
            metrics={f"dev_{name}": value for name, value in scores.items()},
            summary=f"dev {metric} {scores[metric]:.2f}",
            details={"scores": scores, "mixes": mixes},
        )

    def evaluate_final(self, folder: Path, step: int) -> None:
        """Return None: every evaluation uses all dev examples."""

    def save_model(self, folder: Path, step: int, evaluation: Evaluation) -> None:
        """Save the task model."""
        with self._averages.in_place():
            self._trained.save(folder, self._bilm_path, evaluation.details["scores"])

    def state(self) -> dict[str, Tensor]:
        """Everything that the next step depends on."""
        return {
            **{f"model.{name}": tensor for name, tensor in self._model.state_dict().items()},
            **{f"optimizer.{name}": part for name, part in self._optimizer.state().items()},
            **{
                f"bilm_optimizer.{name}": part
                for name, part in self._bilm_optimizer.state().items()
            },
            **{f"average.{name}": tensor for name, tensor in self._averages.state().items()},
        }

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        self._model.load_state_dict(with_prefix(state, "model."))
        self._optimizer.load_state(with_prefix(state, "optimizer."))
        self._bilm_optimizer.load_state(with_prefix(state, "bilm_optimizer."))
        self._averages.load_state(with_prefix(state, "average."))

    def result(self, history: History) -> dict[str, Any]:
        """The sizes of the data, the score of each evaluation, the settings."""
        source = self._model.tokens.source
        return {
            "task": self._trained.task.name,
            "metric": self._trained.task.metric,
            "seed": self._config.train.seed,
            "n_train": len(self._train),
            "n_dev": len(self._dev),
            "n_epochs": len(history.scores) * self._config.train.evaluate_every,
            "best_epoch": history.best_number * self._config.train.evaluate_every,
            "curve": list(history.scores),
            "n_parameters": sum(p.numel() for p in self._parameters.values()),
            "bilm_sha256": None if source is None else source.bilm_sha256,
            "settings": to_mapping(self._config),
        }

    def _draw_batches(self, epoch: int) -> list[list[int]]:
        train = self._config.train
        return training_batches(self._lengths, train.batch_size, seed=train.seed, epoch=epoch)

    def _loss(self, examples: list[Any]) -> Tensor:
        """The loss of this process's examples; its mean over all processes is the batch's loss."""
        own = self._own(examples)
        if not own:
            return torch.zeros((), device=self._processes.device)
        loss = self._model.loss(own)
        if self._processes.n_processes > 1:
            # Each part of the loss is a mean over items, such as tokens: weight it by this
            # process's share of them.
            counts = zip(
                self._model.loss_counts(own), self._model.loss_counts(examples), strict=True
            )
            shares = [n_own / n_all for n_own, n_all in counts]
            loss = loss * self._processes.n_processes * loss.new_tensor(shares)
        return loss.sum()

    def _own(self, examples: list[Any]) -> list[Any]:
        """The examples of this process; examples of one sampling group stay together."""
        groups = [self._trained.task.sampling_group(example) for example in examples]
        distinct = list(dict.fromkeys(groups))
        own = {distinct[row] for row in self._processes.own_rows(len(distinct))}
        return [example for example, group in zip(examples, groups, strict=True) if group in own]


def _build_schedule(config: TaskConfig, n_batches: int) -> Schedule:
    train, optimizer = config.train, config.optimizer
    assert optimizer.learning_rate is not None
    return Schedule(
        n_steps=train.n_epochs * n_batches,
        n_epochs_read=lambda step: step / n_batches,
        log_every=train.log_every,
        evaluate_every=train.evaluate_every * n_batches,
        save_every=train.save_every,
        patience=train.patience,
        keeps_best=True,
        learning_rate=optimizer.learning_rate,
        lr_plateau_patience=optimizer.lr_plateau_patience,
    )


def _build_optimizer(config: OptimizerConfig, dense: Parameters, sparse: Parameters) -> Optimizer:
    assert config.beta2 is not None
    if config.kind == "adadelta":
        return build_adadelta(dense, rho=config.beta2)
    # AdamW without decay is Adam.
    return build_adamw(dense, sparse, betas=(config.beta1, config.beta2), weight_decay=0.0)


def training_batches(
    lengths: Sequence[int], batch_size: int, *, seed: int, epoch: int
) -> list[list[int]]:
    """The examples of an epoch in batches of similar length, in random order."""
    random = np.random.default_rng((seed, epoch))
    noisy = np.asarray(lengths) * (1 + random.uniform(-LENGTH_NOISE, LENGTH_NOISE, len(lengths)))
    # Examples of equal length in random order; noise does not change a length of zero.
    order = np.lexsort((random.permutation(len(lengths)), noisy)).tolist()
    batches = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
    return [batches[k] for k in random.permutation(len(batches))]
