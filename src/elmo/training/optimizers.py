"""Optimizers: Adagrad as in the paper, AdamW, Muon; rows of words change only when touched.

In: named parameters whose gradients are dense, or sparse with rows of words. Out: changed weights,
and a state of plain tensors. A word's row has its own clock: its moments, their bias correction
and its decay advance when it is touched, so that a step's cost does not grow with the vocabulary.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from typing import Literal

import torch
from torch import Tensor, nn

from elmo.training.muon import Matrix, Muon

Parameters = Mapping[str, nn.Parameter]
# `late` stays high and falls in the last part of the run, so that a run can be made longer: until
# then its steps do not depend on where it ends.
Decay = Literal["cosine", "linear", "late", "constant"]
LATE_SHARE = 0.25
EPSILON = 1e-8


class Rows(ABC):
    """The optimizer of parameters whose gradients are sparse."""

    def __init__(self, parameters: Parameters) -> None:
        self.parameters = parameters
        self.state: dict[str, Tensor] = {}

    def step(self, learning_rate: float) -> None:
        """Change the rows that have a gradient."""
        for name, parameter in self.parameters.items():
            if parameter.grad is not None:
                gradient = parameter.grad.coalesce()
                ids, values = gradient.indices()[0], gradient.values()  # (K,), (K, ...)
                change = self.change(name, parameter[ids], ids, values)
                parameter.index_add_(0, ids, change, alpha=-learning_rate)

    @abstractmethod
    def change(self, name: str, rows: Tensor, ids: Tensor, gradient: Tensor) -> Tensor:
        """What to take from the touched rows at a learning rate of one."""


class AdamWRows(Rows):
    """AdamW by rows."""

    def __init__(
        self, parameters: Parameters, betas: tuple[float, float], weight_decay: float
    ) -> None:
        super().__init__(parameters)
        self._betas, self._weight_decay = betas, weight_decay
        for name, parameter in parameters.items():
            self.state[f"{name}.mean"] = torch.zeros_like(parameter, requires_grad=False)
            self.state[f"{name}.square"] = torch.zeros_like(parameter, requires_grad=False)
            self.state[f"{name}.n_touched"] = torch.zeros(len(parameter), device=parameter.device)

    def change(self, name: str, rows: Tensor, ids: Tensor, gradient: Tensor) -> Tensor:
        """As AdamW's step, each row at its own age."""
        beta1, beta2 = self._betas
        mean, square, n_touched = (
            self.state[f"{name}.{part}"] for part in ("mean", "square", "n_touched")
        )
        age = n_touched[ids] + 1
        new_mean = mean[ids].lerp_(gradient, 1 - beta1)
        new_square = square[ids].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        n_touched[ids], mean[ids], square[ids] = age, new_mean, new_square
        age = age.reshape(-1, *[1] * (rows.ndim - 1))
        length = (new_square / (1 - beta2**age)).sqrt_().add_(EPSILON)
        change = new_mean.div_(1 - beta1**age).div_(length)
        return change.add_(rows, alpha=self._weight_decay) if rows.ndim > 1 else change


class AdagradRows(Rows):
    """Adagrad by rows: the same as dense Adagrad, for which a zero gradient changes nothing."""

    def __init__(self, parameters: Parameters, initial_sum: float) -> None:
        super().__init__(parameters)
        for name, parameter in parameters.items():
            self.state[f"{name}.sum"] = torch.full_like(parameter, initial_sum, requires_grad=False)

    def change(self, name: str, rows: Tensor, ids: Tensor, gradient: Tensor) -> Tensor:
        """As Adagrad's step."""
        total = self.state[f"{name}.sum"]
        new_total = total[ids].addcmul_(gradient, gradient)
        total[ids] = new_total
        return gradient / new_total.sqrt_().add_(EPSILON)


class Optimizer:
    """Dense parameters by optimizers as torch has them, sparse ones by rows."""

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
        """Change the weights by their gradients, and forget these."""
        for optimizer in self._optimizers:
            for group in optimizer.param_groups:
                group["lr"] = learning_rate
            optimizer.step()
        # Torch's fused optimizers change weights without a trace; who keeps something made of
        # the weights, as our kernels do, must be able to see it.
        torch.autograd.graph.increment_version(self._dense.values())
        self._rows.step(learning_rate)
        for parameter in (*self._dense.values(), *self._rows.parameters.values()):
            parameter.grad = None

    def state(self) -> dict[str, Tensor]:
        """All that later steps depend on, by parameter and part."""
        dense = {
            f"{name}.{part}": tensor
            for name, parameter in self._dense.items()
            for part, tensor in self._optimizer_of[parameter].state.get(parameter, {}).items()
        }
        return dense | self._rows.state

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Go on as the optimizer would that gave this state."""
        for name, tensor in self._rows.state.items():
            tensor.copy_(state[name])
        for name, parameter in self._dense.items():
            prefix = f"{name}."
            parts = {
                key.removeprefix(prefix): tensor.to(parameter.device)
                for key, tensor in state.items()
                if key.startswith(prefix) and "." not in key.removeprefix(prefix)
            }
            if parts:
                self._optimizer_of[parameter].state[parameter] = parts


def build_adamw(
    dense: Parameters, sparse: Parameters, *, betas: tuple[float, float], weight_decay: float
) -> Optimizer:
    """AdamW; weights that are matrices decay, biases do not."""
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
    """Muon for the matrices that `n_blocks` names, with how many each is; AdamW for the rest."""
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
    group = {"params": list(dense.values())}  # a group may be empty, where a head learns alone
    optimizer = torch.optim.Adagrad(
        [group], lr=0.0, initial_accumulator_value=initial_sum, eps=EPSILON, fused=True
    )
    return Optimizer(dense, [optimizer], AdagradRows(sparse, initial_sum))


def build_adadelta(dense: Parameters, *, rho: float) -> Optimizer:
    """Adadelta, which none of our sparse parameters need."""
    optimizer = torch.optim.Adadelta([{"params": list(dense.values())}], lr=0.0, rho=rho)
    return Optimizer(dense, [optimizer], AdagradRows({}, 0.0))


def clip_gradients(parameters: Iterable[nn.Parameter], longest: float) -> float:
    """Scale all gradients to a joint length of at most `longest`; gives the length before."""
    gradients = []
    for parameter in parameters:
        if parameter.grad is not None and parameter.grad.is_sparse:
            parameter.grad = parameter.grad.coalesce()
            gradients.append(parameter.grad.values())
        elif parameter.grad is not None:
            gradients.append(parameter.grad)
    length = float(torch.nn.utils.get_total_norm(gradients))
    if longest < length < math.inf:
        for gradient in gradients:
            gradient.mul_(longest / length)
    return length


def scheduled_rate(
    step: int, n_planned: int | None, *, highest: float, n_warmup: int, decay: Decay
) -> float:
    """The learning rate of a step (from 0) of a run of so many, if that is known."""
    rate = highest * min(1.0, (step + 1) / max(1, n_warmup))
    if decay == "constant" or n_planned is None or step < n_warmup:
        return rate
    # What remains of the run after this step; the last step still moves.
    done = min(1.0, (step - n_warmup) / max(1, n_planned - n_warmup))
    left = 1 - done
    if decay == "late":
        return rate * min(1.0, left / LATE_SHARE)
    return rate * (left if decay == "linear" else (1 - math.cos(math.pi * left)) / 2)
