"""A cache of packed weights: packed again only when the weights of a layer change.

In: a layer, its tensors, and a function that packs them. Out: the result, cached until the layer is
deleted or a tensor changes.
"""

import ctypes
import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Generic, TypeVar

from torch import Tensor

Made = TypeVar("Made")


class PackedWeightCache(Generic[Made]):
    """Packed weights by layer."""

    def __init__(self) -> None:
        self._by_layer: weakref.WeakKeyDictionary[object, tuple[object, Made]] = (
            weakref.WeakKeyDictionary()
        )
        self._lock = threading.Lock()

    def get(
        self,
        layer: object,
        tensors: Sequence[Tensor],
        make: Callable[[], Made],
        settings: object = None,
    ) -> Made:
        """The result of `make`, cached while tensors (on a CPU) and settings stay the same."""
        state = settings, *map(_describe, tensors)
        with self._lock:
            known = self._by_layer.get(layer)
            if known is None or known[0] != state:
                known = self._by_layer[layer] = state, make()
            return known[1]


def _describe(tensor: Tensor) -> tuple[object, ...]:
    """A value that changes when a tensor is changed or replaced."""
    # Tensors born in inference mode carry no version.
    version = 0 if tensor.is_inference() else tensor._version
    # Torch's fused optimizers change weights without raising their version, but change them all.
    start, size, n_bytes = tensor.data_ptr(), tensor.numel(), tensor.element_size()
    sample = [ctypes.string_at(start + at * n_bytes, n_bytes) for at in (size // 3, size - 1)]
    return start, version, *sample
