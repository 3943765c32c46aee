"""One training step: read a batch, compare predictions with what came, change the weights.

In: the number of a step and its learning rate. Out: the loss; the model, its optimizer and the
state of its rows have moved on. Every random number is drawn by the step's number, so that what a
step does depends on nothing but what `tensors()` gives.
Shapes: B rows, N packed tokens of a direction, R directions, P projection.
"""

from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import dropout
from torch.nn.parallel import DistributedDataParallel

from elmo.models.model_folder import Model
from elmo.network.bilm import BiLM, BiLMState
from elmo.pretraining.batches import StreamBatch, Streams
from elmo.pretraining.config import OptimizerConfig, PretrainConfig
from elmo.training.averages import Averages
from elmo.training.distributed import Processes
from elmo.training.optimizers import (
    Optimizer,
    Parameters,
    build_adagrad,
    build_adamw,
    build_muon,
    clip_gradients,
)


@dataclass(frozen=True)
class Learned:
    """What a step says of itself."""

    loss: float
    gradient_norm: float


class Reader(nn.Module):
    """The biLM reading a stream; a module of its own because DDP wraps a module's `forward`."""

    def __init__(self, bilm: BiLM, dropout_rate: float) -> None:
        super().__init__()
        self.bilm = bilm
        self.dropout_rate = dropout_rate

    def forward(self, batch: StreamBatch, state: BiLMState) -> tuple[Tensor, BiLMState]:
        """The top layer of all directions, (R * N, P), and the state after the batch."""
        layers, after = self.bilm.run(
            self.bilm.token_vectors(batch.char_ids),
            batch.index,
            batch.batch_sizes,
            state,
            batch.resets,
            self.dropout_rate,
        )
        return dropout(torch.cat(layers[-1]), self.dropout_rate, self.training), after


class Learner:
    """A model in training."""

    def __init__(
        self, model: Model, streams: Streams, config: PretrainConfig, processes: Processes
    ) -> None:
        assert model.head is not None
        self._bilm = model.bilm.to(processes.device).train()
        self._head = model.head.to(processes.device).train()
        self._streams = streams
        self._config = config
        self._processes = processes
        self._rows = processes.own_rows(streams.batch_size)
        self._state = self._bilm.initial_state(len(self._rows))
        reader = Reader(self._bilm, config.train.dropout)
        is_shared = processes.n_processes > 1 and any(p.requires_grad for p in reader.parameters())
        self._reader = DistributedDataParallel(reader) if is_shared else reader
        dense = _trained_parameters(self._bilm, "bilm")
        words = _trained_parameters(self._head, "head")
        sparse = words if self._head.has_sparse_gradients else {}
        dense |= {} if sparse else words
        self._trained = [*dense.values(), *sparse.values()]
        n_blocks = {f"bilm.{name}": n for name, n in self._bilm.hidden_matrices().items()}
        self._optimizer = _build_optimizer(config.optimizer, dense, sparse, n_blocks)
        decay = config.train.ema_decay
        self._averages = None if decay is None else Averages(dense | sparse, decay)

    def learn(self, step: int, learning_rate: float) -> Learned:
        """Take a step."""
        _seed_dropout(self._config.train.seed, step, self._processes.rank)
        n_parts = self._config.train.n_accumulate
        n_own = len(self._rows) // n_parts
        states: list[BiLMState] = []
        loss = torch.zeros((), device=self._processes.device)
        for part in range(n_parts):
            with self._wait_for_last(part == n_parts - 1):
                part_loss, state = self.loss(step, range(part * n_own, (part + 1) * n_own))
                (part_loss * self._loss_scale / n_parts).backward()  # type: ignore[no-untyped-call]
            states.append(state)
            loss += part_loss.detach() / n_parts
        self._state = _join_rows(states)
        self._processes.average_gradients(self._head.parameters())
        assert self._config.optimizer.max_grad_norm is not None
        norm = clip_gradients(self._trained, self._config.optimizer.max_grad_norm)
        self._optimizer.step(learning_rate)
        if self._averages is not None:
            self._averages.update(step + 1)
        return Learned(float(self._processes.sum(loss)) / self._processes.n_processes, norm)

    def loss(self, step: int, own: range) -> tuple[Tensor, BiLMState]:
        """The loss of some of this process's rows, and their state after the step."""
        first = self._rows.start
        rows = slice(first + own.start, first + own.stop)
        batch = self._streams.batch(step, rows).to(self._processes.device)
        is_half = self._config.train.dtype == "bfloat16"
        with torch.autocast(self._processes.device.type, torch.bfloat16, enabled=is_half):
            hidden, state = self._reader(batch, self._state.rows(slice(own.start, own.stop)))
            # Negatives are the same for all processes and parts, as if the batch were one.
            generator = np.random.default_rng((self._config.train.seed, step))
            loss = self._head.loss(hidden, torch.cat(batch.targets), generator)
        return loss, state

    def averaged(self) -> AbstractContextManager[None]:
        """Within the context the model's weights are their averages, if these are kept."""
        return nullcontext() if self._averages is None else self._averages.in_place()

    def tensors(self) -> dict[str, Tensor]:
        """All that the next step depends on; all processes must ask for it together."""
        averages = {} if self._averages is None else self._averages.state()
        return {
            **{f"bilm.{name}": tensor for name, tensor in self._bilm.state_dict().items()},
            **{f"head.{name}": tensor for name, tensor in self._head.state_dict().items()},
            **{f"optimizer.{name}": part for name, part in self._optimizer.state().items()},
            **{f"average.{name}": tensor for name, tensor in averages.items()},
            "state.hidden": self._processes.join_rows(self._state.hidden, dim=2),
            "state.cell": self._processes.join_rows(self._state.cell, dim=2),
        }

    def load(self, tensors: Mapping[str, Tensor]) -> None:
        """Go on from what `tensors` gave."""
        self._bilm.load_state_dict(_part(tensors, "bilm."))
        self._head.load_state_dict(_part(tensors, "head."))
        self._optimizer.load_state(_part(tensors, "optimizer."))
        if self._averages is not None:
            self._averages.load_state(_part(tensors, "average."))
        own = slice(self._rows.start, self._rows.stop)
        state = BiLMState(tensors["state.hidden"], tensors["state.cell"]).rows(own)
        device = self._processes.device
        self._state = BiLMState(state.hidden.to(device), state.cell.to(device))

    @property
    def _loss_scale(self) -> float:
        return self._config.stream.bptt_length if self._config.optimizer.scales_loss else 1.0

    def _wait_for_last(self, is_last: bool) -> AbstractContextManager[None]:
        """Processes exchange gradients once a step, after the last part of it."""
        if is_last or not isinstance(self._reader, DistributedDataParallel):
            return nullcontext()
        waiting: AbstractContextManager[None] = self._reader.no_sync()
        return waiting


def _build_optimizer(
    config: OptimizerConfig, dense: Parameters, sparse: Parameters, n_blocks: Mapping[str, int]
) -> Optimizer:
    if config.kind == "adagrad":
        return build_adagrad(dense, sparse)
    betas, weight_decay = (config.beta1, config.beta2), config.weight_decay
    if config.kind == "adamw":
        return build_adamw(dense, sparse, betas=betas, weight_decay=weight_decay)
    return build_muon(
        dense,
        sparse,
        n_blocks=n_blocks,
        every=config.muon_every,
        momentum=config.momentum,
        betas=betas,
        weight_decay=weight_decay,
    )


def _trained_parameters(module: nn.Module, prefix: str) -> dict[str, nn.Parameter]:
    return {n: p for n, p in module.named_parameters(prefix) if p.requires_grad}


def _seed_dropout(seed: int, step: int, rank: int) -> None:
    torch.manual_seed(int(np.random.SeedSequence((seed, step, rank)).generate_state(1)[0]))


def _join_rows(states: list[BiLMState]) -> BiLMState:
    """Rows that were run in parts, side by side again, and cut off from their gradients."""
    return BiLMState(
        torch.cat([state.hidden for state in states], dim=2).detach(),
        torch.cat([state.cell for state in states], dim=2).detach(),
    )


def _part(tensors: Mapping[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {k.removeprefix(prefix): v for k, v in tensors.items() if k.startswith(prefix)}
