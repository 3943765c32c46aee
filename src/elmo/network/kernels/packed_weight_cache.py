"""A cache of packed weights, repacked only when the weights of a layer change.

In: a layer, its tensors, and a function that packs them. Out: the result, cached until the layer is
deleted or a tensor changes. A change is detected by the tensor's address and version. Some writes
do not increment the version: those of fused optimizers, so weights that require gradients are
repacked after any step of any torch optimizer; and those through `parameter.data`, through
`tensor.numpy()` and to tensors created in inference mode, so some values of each tensor are
compared. A write of the latter kinds that changes none of these values is not detected; call
`forget_all` after it.
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

N_SAMPLED = 8  # values of each tensor that are compared

_counter = itertools.count(1)
_generation = 0  # changes when any weights may have changed
_optimizer_step = 0  # changes when weights that require gradients may have changed


def forget_all() -> None:
    """Invalidate all caches, so that weights are repacked at their next use."""
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
        # A frozen layer must not be repacked at every step of the task model above it.
        step = _optimizer_step if any(each.requires_grad for each in tensors) else None
        state = _generation, step, settings, _sample(tensors), *map(_describe, tensors)
        with self._lock:
            known = self._by_layer.get(layer)
            if known is None or known[0] != state:
                known = self._by_layer[layer] = state, pack()
            return known[1]


def _describe(tensor: Tensor) -> tuple[int, int]:
    """Values that change when a tensor is changed or replaced."""
    # Tensors created in inference mode have no version.
    return tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version


def _sample(tensors: Sequence[Tensor]) -> bytes:
    """Some values of each tensor, as bytes, because NaN is not equal to itself."""
    flat = [tensor.detach().flatten() for tensor in tensors]
    some = torch.cat([each[:: len(each) // N_SAMPLED + 1] for each in flat])
    return some.float().numpy().tobytes()
