"""A cache of packed weights: packed again only when the weights of a layer change.

In: a layer, its tensors, and a function that packs them. Out: the result, cached until the layer is
deleted or a tensor changes. A change is seen by the tensor's address and version. Some writes raise
no version: those of fused optimizers, so weights that require gradients are packed again after any
step of any torch optimizer; and those through `parameter.data`, through `tensor.numpy()` and to
tensors made in inference mode, so some numbers of each tensor are compared. A write of these kinds
that changes none of them is not seen; call `forget_all` after it.
"""

import itertools
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook

Packed = TypeVar("Packed")

N_SAMPLED = 8  # numbers of each tensor

_counter = itertools.count(1)
_generation = 0  # changes when any weights may have changed
_optimizer_step = 0  # changes when weights that require gradients may have changed


def forget_all() -> None:
    """Let all weights be packed again at their next use."""
    global _generation
    _generation = next(_counter)


def _count_step(*_: Any) -> None:  # noqa: ANN401 - what torch gives a hook
    global _optimizer_step
    _optimizer_step = next(_counter)


register_optimizer_step_post_hook(_count_step)


class PackedWeightCache(Generic[Packed]):
    """Packed weights by layer."""

    def __init__(self) -> None:
        self._by_layer: weakref.WeakKeyDictionary[object, tuple[object, Packed]] = (
            weakref.WeakKeyDictionary()
        )
        self._lock = threading.Lock()

    def get(
        self,
        layer: object,
        tensors: Sequence[Tensor],
        pack: Callable[[], Packed],
        settings: object = None,
    ) -> Packed:
        """The result of `pack`, cached while tensors (on a CPU) and settings stay the same."""
        # Without this, a frozen layer would be packed at every step of the task model above it.
        step = _optimizer_step if any(each.requires_grad for each in tensors) else None
        state = _generation, step, settings, _sample(tensors), *map(_describe, tensors)
        with self._lock:
            known = self._by_layer.get(layer)
            if known is None or known[0] != state:
                known = self._by_layer[layer] = state, pack()
            return known[1]


def _describe(tensor: Tensor) -> tuple[int, int]:
    """Values that change when a tensor is changed or replaced."""
    # Tensors made in inference mode have no version.
    return tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version


def _sample(tensors: Sequence[Tensor]) -> bytes:
    """Some numbers of each tensor, as bytes: NaN is not equal to itself."""
    flat = [tensor.detach().flatten() for tensor in tensors]
    some = torch.cat([each[:: len(each) // N_SAMPLED + 1] for each in flat])
    return some.float().numpy().tobytes()
