"""Optimizers: Adagrad as in the paper, AdamW, Muon, Adadelta; sparse gradients update rows.

In: named parameters with dense gradients, or with sparse ones over the rows of words. Out: updated
weights, and a state of plain tensors. The row of each word counts its own steps: moments, their
bias correction and weight decay advance only when the row has a gradient, so that the cost of a
step does not grow with the vocabulary.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from elmo.training.muon import Matrix, Muon

Parameters = Mapping[str, nn.Parameter]
# `late` is constant and decays in the last part of the run: until then the steps do not depend on
# where the run ends, so it can be extended.
Decay = Literal["cosine", "linear", "late", "constant"]
LATE_FRACTION = 0.25
EPSILON = 1e-8


class Rows(ABC):
    """A row-wise optimizer of parameters with sparse gradients."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.state: dict[str, Tensor] = {}

    def step(self, learning_rate: float) -> None:
        """Update the rows that have a gradient."""
        for name, parameter in self.parameters.items():
            if parameter.grad is not None:
                gradient = parameter.grad.coalesce()
                ids, values = gradient.indices()[0], gradient.values()  # (K,), (K, ...)
                change = self.change(name, parameter[ids], ids, values)
                parameter.index_add_(0, ids, change, alpha=-learning_rate)

    @abstractmethod
    def change(self, name: str, rows: Tensor, ids: Tensor, gradient: Tensor) -> Tensor:
        """The update of these rows, which is subtracted times the learning rate."""


class AdamWRows(Rows):
    """Row-wise AdamW."""

    def __init__(
        self, parameters: Parameters, betas: tuple[float, float], weight_decay: float
    ) -> None:
        super().__init__(parameters)
        self._betas, self._weight_decay = betas, weight_decay
        for name, parameter in parameters.items():
            self.state[f"{name}.mean"] = torch.zeros_like(parameter, requires_grad=False)
            self.state[f"{name}.square"] = torch.zeros_like(parameter, requires_grad=False)
            self.state[f"{name}.n_updates"] = torch.zeros(len(parameter), device=parameter.device)

    def change(self, name: str, rows: Tensor, ids: Tensor, gradient: Tensor) -> Tensor:
        """AdamW's update, with bias correction by the number of steps of each row."""
        beta1, beta2 = self._betas
        mean, square, n_updates = (
            self.state[f"{name}.{part}"] for part in ("mean", "square", "n_updates")
        )
        age = n_updates[ids] + 1
        new_mean = mean[ids].lerp_(gradient, 1 - beta1)
        new_square = square[ids].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        n_updates[ids], mean[ids], square[ids] = age, new_mean, new_square
        age = age.reshape(-1, *[1] * (rows.ndim - 1))
        length = (new_square / (1 - beta2**age)).sqrt_().add_(EPSILON)
        change = new_mean.div_(1 - beta1**age).div_(length)
        return change.add_(rows, alpha=self._weight_decay) if rows.ndim > 1 else change


class AdagradRows(Rows):
    """Row-wise Adagrad: equal to dense Adagrad, in which zero gradients have no effect."""

    def __init__(self, parameters: Parameters, initial_sum: float) -> None:
        super().__init__(parameters)
        for name, parameter in parameters.items():
            self.state[f"{name}.sum"] = torch.full_like(parameter, initial_sum, requires_grad=False)

    def change(self, name: str, rows: Tensor, ids: Tensor, gradient: Tensor) -> Tensor:
        total = self.state[f"{name}.sum"]
        new_total = total[ids].addcmul_(gradient, gradient)
        total[ids] = new_total
        return gradient / new_total.sqrt_().add_(EPSILON)


class Optimizer:
    """Torch's optimizers for dense gradients, a row-wise one for sparse gradients."""

    def __init__(
        self, dense: Parameters, optimizers: Sequence[torch.optim.Optimizer], rows: Rows
    ) -> None:
        """`dense` are the parameters of all `optimizers` together."""
        self._dense = dense
        self._optimizers = optimizers
        self._rows = rows
        self._optimizer_of = {
            parameter: optimizer
            for optimizer in optimizers
            for group in optimizer.param_groups
            for parameter in group["params"]
        }

    @torch.no_grad()
    def step(self, learning_rate: float) -> None:
        """Update the weights and reset the gradients."""
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                group["lr"] = learning_rate
            optimizer.step()
        # Torch's fused optimizers do not increment the version of a tensor, by which our kernels
        # detect that their packed weights are stale.
        torch.autograd.graph.increment_version(self._dense.values())
        self._rows.step(learning_rate)
        for parameter in (*self._dense.values(), *self._rows.parameters.values()):
            parameter.grad = None

    def state(self) -> dict[str, Tensor]:
        """Everything that later steps depend on, by parameter and part."""
        dense = {
            f"{name}.{part}": tensor
            for name, parameter in self._dense.items()
            for part, tensor in self._optimizer_of[parameter].state.get(parameter, {}).items()
        }
        return dense | self._rows.state

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned, as copies."""
        for name, tensor in self._rows.state.items():
            tensor.copy_(state[name])
        for name, parameter in self._dense.items():
            prefix = f"{name}."
            parts = {
                key.removeprefix(prefix): tensor.to(parameter.device, copy=True)
                for key, tensor in state.items()
                if key.startswith(prefix) and "." not in key.removeprefix(prefix)
            }
            if parts:
                self._optimizer_of[parameter].state[parameter] = parts


def build_adamw(
    dense: Parameters, sparse: Parameters, *, betas: tuple[float, float], weight_decay: float
) -> Optimizer:
    """AdamW with weight decay of matrices, not of biases."""
    optimizer = _adamw(dense, betas, weight_decay)
    return Optimizer(dense, [optimizer], AdamWRows(sparse, betas, weight_decay))


def build_muon(
    dense: Parameters,
    sparse: Parameters,
    *,
    n_blocks: Mapping[str, int],
    every: int,
    momentum: float,
    betas: tuple[float, float],
    weight_decay: float,
) -> Optimizer:
    """Muon for the parameters in `n_blocks`, with their numbers of matrices; AdamW for the rest."""
    matrices = [Matrix(dense[name], n) for name, n in n_blocks.items() if name in dense]
    rest = {name: parameter for name, parameter in dense.items() if name not in n_blocks}
    optimizers: list[torch.optim.Optimizer] = [_adamw(rest, betas, weight_decay)]
    optimizers.append(Muon(matrices, momentum=momentum, weight_decay=weight_decay, every=every))
    return Optimizer(dense, optimizers, AdamWRows(sparse, betas, weight_decay))


def _adamw(
    dense: Parameters, betas: tuple[float, float], weight_decay: float
) -> torch.optim.Optimizer:
    groups = [
        {"params": [p for p in dense.values() if p.ndim > 1], "weight_decay": weight_decay},
        {"params": [p for p in dense.values() if p.ndim <= 1], "weight_decay": 0.0},
    ]
    return torch.optim.AdamW(groups, lr=0.0, betas=betas, eps=EPSILON, fused=True)


def build_adagrad(dense: Parameters, sparse: Parameters, *, initial_sum: float = 1.0) -> Optimizer:
    """Adagrad; sums of squares start at one, as in the original training."""
    group = {"params": list(dense.values())}  # may be empty, where only a head is trained
    optimizer = torch.optim.Adagrad(
        [group], lr=0.0, initial_accumulator_value=initial_sum, eps=EPSILON, fused=True
    )
    return Optimizer(dense, [optimizer], AdagradRows(sparse, initial_sum))


def build_adadelta(dense: Parameters, *, rho: float) -> Optimizer:
    """Adadelta, for dense parameters only."""
    optimizer = torch.optim.Adadelta([{"params": list(dense.values())}], lr=0.0, rho=rho)
    return Optimizer(dense, [optimizer], AdagradRows({}, 0.0))


def clip_gradients(parameters: Iterable[nn.Parameter], max_norm: float) -> float:
    """Clip the total norm of all gradients to `max_norm`; return the norm before clipping."""
    gradients = []
    for parameter in parameters:
        if parameter.grad is not None and parameter.grad.is_sparse:
            parameter.grad = parameter.grad.coalesce()
            gradients.append(parameter.grad.values())
        elif parameter.grad is not None:
            gradients.append(parameter.grad)
    norm = float(torch.nn.utils.get_total_norm(gradients))
    if max_norm < norm < math.inf:
        for gradient in gradients:
            gradient.mul_(max_norm / norm)
    return norm


def scheduled_rate(
    step: int, n_planned: int | None, *, highest: float, n_warmup: int, decay: Decay
) -> float:
    """The learning rate of a step, counted from 0; no decay while the run's length is unknown."""
    rate = highest * min(1.0, (step + 1) / max(1, n_warmup))
    if decay == "constant" or n_planned is None or step < n_warmup:
        return rate
    # The fraction of the run that is left at this step: above zero at the last step.
    left = 1 - min(1.0, (step - n_warmup) / max(1, n_planned - n_warmup))
    if decay == "late":
        return rate * min(1.0, left / LATE_FRACTION)
    return rate * (left if decay == "linear" else (1 - math.cos(math.pi * left)) / 2)
