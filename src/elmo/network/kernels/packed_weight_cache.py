"""A cache of packed weights: packed again only when the weights of a layer change.

In: a layer, its tensors, and a function that packs them. Out: the result, cached until the layer is
deleted or a tensor changes. A change is seen by the tensor's address and version, and by any step
of any torch optimizer, as fused ones raise no version. Not seen: writes that bypass torch, such as
through `tensor.numpy()`, and writes to tensors made in inference mode; call `forget_all` after.
"""

import itertools
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any, Generic, TypeVar

from torch import Tensor
from torch.optim.optimizer import register_optimizer_step_post_hook

Packed = TypeVar("Packed")

_counter = itertools.count(1)
_generation = 0


def forget_all(*_: Any) -> None:  # noqa: ANN401 - also called as a hook
    """Let all weights be packed again at their next use."""
    global _generation
    _generation = next(_counter)


register_optimizer_step_post_hook(forget_all)


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
        state = _generation, settings, *map(_describe, tensors)
        with self._lock:
            known = self._by_layer.get(layer)
            if known is None or known[0] != state:
                known = self._by_layer[layer] = state, pack()
            return known[1]


def _describe(tensor: Tensor) -> tuple[int, int]:
    """Values that change when a tensor is changed or replaced."""
    # Tensors made in inference mode have no version.
    return tensor.data_ptr(), 0 if tensor.is_inference() else tensor._version
