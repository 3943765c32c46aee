"""The Muon optimizer: momentum that is orthogonalized before it updates the weights.

In: matrices with dense gradients, each treated as one matrix or as blocks of rows that are separate
matrices (the gates of an LSTM). Out: updated weights; the state of a parameter is its momentum and
a step count. After Jordan et al. 2024 (https://kellerjordan.github.io/posts/muon); the scale of an
update, with which AdamW's learning rates can be used, after Liu et al. 2025 (arXiv 2502.16982).
Shapes: K matrices of M rows and N columns, M <= N.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any

import torch
from torch import Tensor, nn

# Quintic Newton-Schulz iterations: five of them bring all singular values between 0.7 and 1.2.
COEFFICIENTS = (3.4445, -4.7750, 2.0315)
N_ITERATIONS = 5
EPSILON = 1e-7
# The entries of an orthogonal M x N matrix have a root mean square of 1 / sqrt(N). Scaled by
# 0.2 sqrt(N), an update is as large as AdamW's.
UPDATE_SCALE = 0.2


@dataclass(frozen=True)
class Matrix:
    """A parameter (rows, columns) of `n_blocks` matrices, stacked vertically."""

    weight: nn.Parameter
    n_blocks: int = 1

    @property
    def block_shape(self) -> tuple[int, int]:
        """The shape (M, N) of a block, transposed if it is tall."""
        rows, columns = self.weight.shape
        rows //= self.n_blocks
        return min(rows, columns), max(rows, columns)

    @property
    def is_tall(self) -> bool:
        """Whether a block has more rows than columns."""
        return len(self.weight) // self.n_blocks > self.weight.shape[1]

    def blocks(self, values: Tensor) -> Tensor:
        """A view of a tensor like the weight as its blocks, transposed if tall: (K, M, N)."""
        blocks = values.view(self.n_blocks, -1, values.shape[1])
        return blocks.transpose(1, 2) if self.is_tall else blocks


class Muon(torch.optim.Optimizer):
    """Orthogonalized Nesterov momentum with decoupled weight decay.

    Orthogonalization costs as much as training on a few hundred tokens. Momentum changes little
    from one step to the next, so the weights are updated only in every `every`-th step, with an
    update `every` times as large.
    """

    def __init__(
        self, matrices: Sequence[Matrix], *, momentum: float, weight_decay: float, every: int = 1
    ) -> None:
        defaults: dict[str, Any] = {"lr": 0.0, "momentum": momentum, "weight_decay": weight_decay}
        super().__init__([{"params": [matrix.weight for matrix in matrices]}], defaults)
        self._every = every
        # Matrices of the same shape are batched: a few large products instead of many small ones.
        self._by_shape: dict[tuple[int, int], list[Matrix]] = {}
        for matrix in matrices:
            self._by_shape.setdefault(matrix.block_shape, []).append(matrix)

    @torch.no_grad()
    def step(self, closure: None = None) -> None:  # type: ignore[override]
        """Update the weights that have a gradient."""
        (group,) = self.param_groups
        for matrices in self._by_shape.values():
            touched = [matrix for matrix in matrices if matrix.weight.grad is not None]
            if touched:
                self._change(touched, group["lr"], group["momentum"], group["weight_decay"])

    def _change(
        self, matrices: Sequence[Matrix], rate: float, momentum: float, weight_decay: float
    ) -> None:
        weights: list[Tensor] = [matrix.weight for matrix in matrices]
        gradients = [_gradient(weight) for weight in weights]
        means = [self._momentum(weight) for weight in weights]
        torch._foreach_lerp_(means, gradients, 1 - momentum)
        if not self._is_due(weights):
            return
        rate *= self._every
        ahead = torch._foreach_lerp(gradients, means, momentum)  # Nesterov momentum
        wide = _join(matrix.blocks(each) for matrix, each in zip(matrices, ahead, strict=True))
        updates = orthogonalize(wide)  # (K, M, N)
        scale = rate * UPDATE_SCALE * wide.shape[2] ** 0.5
        if weight_decay:
            torch._foreach_mul_(weights, 1 - rate * weight_decay)
        parts = torch.split(updates, [matrix.n_blocks for matrix in matrices])
        for matrix, part in zip(matrices, parts, strict=True):
            matrix.blocks(matrix.weight).add_(part, alpha=-scale)

    def _momentum(self, weight: Tensor) -> Tensor:
        state = self.state[weight]
        if not state:
            state["momentum"] = torch.zeros_like(weight, memory_format=torch.contiguous_format)
            state["n_steps"] = torch.zeros((), dtype=torch.int64)
        momentum: Tensor = state["momentum"]
        return momentum

    def _is_due(self, weights: Sequence[Tensor]) -> bool:
        """Count a step of weights that are updated together; return whether it updates them."""
        for weight in weights:
            self.state[weight]["n_steps"] += 1
        return int(self.state[weights[0]]["n_steps"]) % self._every == 0


def orthogonalize(matrices: Tensor, n_iterations: int = N_ITERATIONS) -> Tensor:
    """Approximate nearest orthogonal matrices: (K, M, N) with M <= N, of any scale."""
    a, b, c = COEFFICIENTS
    length = torch.linalg.vector_norm(matrices.float(), dim=(1, 2), keepdim=True)
    x: Tensor = (matrices / (length + EPSILON)).to(product_dtype(matrices.device.type))
    for _ in range(n_iterations):
        gram = torch.bmm(x, x.transpose(1, 2))  # (K, M, M)
        polynomial = torch.baddbmm(gram, gram, gram, beta=b, alpha=c)
        x = torch.baddbmm(x, polynomial, x, beta=a)
    return x


@cache
def product_dtype(device_type: str) -> torch.dtype:
    """bfloat16 if its products are faster than float32's; iterations need no more precision."""
    if device_type == "cuda":
        return torch.bfloat16
    return torch.bfloat16 if has_bfloat16_products() else torch.float32


def has_bfloat16_products() -> bool:
    """Whether this CPU has instructions for products of bfloat16."""
    return bool(torch.cpu._is_avx512_bf16_supported() or torch.cpu._is_amx_tile_supported())


def _gradient(weight: Tensor) -> Tensor:
    assert weight.grad is not None
    return weight.grad


def _join(blocks: Iterable[Tensor]) -> Tensor:
    return torch.cat(list(blocks))
