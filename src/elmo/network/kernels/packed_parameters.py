"""Module parameters that are held packed and unpacked on first access.

In: a module's parameters, its packed weights and a function that unpacks them. Out: a `_parameters`
dict for the module, which unpacks them for good at the first access to one. A model that only
embeds thus holds its weights once; `state_dict`, `parameters`, `to` and training see plain tensors.
"""

import copy
import threading
from collections.abc import Callable, Iterator
from itertools import groupby
from typing import Any, Generic, TypeVar

import torch
from torch import Tensor, nn

Packed = TypeVar("Packed")
Unpack = Callable[[], dict[str, Tensor]]

_lock = threading.RLock()


class PackedParameters(dict[str, Any], Generic[Packed]):
    """The `_parameters` of a module, with None for those that exist only packed."""

    def __init__(self, plain: dict[str, Any], packed: Packed, unpack: Unpack) -> None:
        super().__init__(plain)
        self.packed: Packed | None = packed
        self._unpack = unpack
        self._are_learning = {name: each.requires_grad for name, each in plain.items()}
        self.sizes = {name: each.numel() for name, each in plain.items()}

    @property
    def requires_grad(self) -> bool:
        """Whether any of the parameters requires gradients."""
        return any(self._are_learning.values())

    def release(self, names: tuple[str, ...]) -> None:
        """Drop the plain tensors of these names."""
        for name in names:
            super().__setitem__(name, None)

    def fill(self) -> None:
        """Unpack the parameters and drop the packed weights, if that has not been done."""
        with _lock:
            if self.packed is None:
                return
            for name, parameter in self.copy().items():
                super().__setitem__(name, parameter)
            self.packed = None
            del self._unpack

    def unpacked(self) -> dict[str, Tensor]:
        """Plain copies of the parameters that exist only packed; they stay packed."""
        with _lock, torch.inference_mode(False), torch.no_grad():
            return {} if self.packed is None else self._unpack()

    # Looking up names does not unpack: torch does it whenever an attribute is set.

    def __getitem__(self, name: str) -> Any:  # noqa: ANN401 - nn.Parameter or None
        if super().__getitem__(name) is None:
            self.fill()
        return super().__getitem__(name)

    def get(self, name: str, default: Any = None) -> Any:  # noqa: ANN401
        """Like `dict.get`; unpacks the parameters if needed."""
        if super().get(name, default) is None:
            self.fill()
        return super().get(name, default)

    def values(self) -> Any:  # noqa: ANN401
        """Like `dict.values`; unpacks the parameters."""
        self.fill()
        return super().values()

    def items(self) -> Any:  # noqa: ANN401
        """Like `dict.items`; unpacks the parameters."""
        self.fill()
        return super().items()

    def pop(self, *arguments: Any) -> Any:  # noqa: ANN401
        """Like `dict.pop`; unpacks the parameters."""
        self.fill()
        return super().pop(*arguments)

    def __setitem__(self, name: str, value: Any) -> None:  # noqa: ANN401
        self.fill()
        super().__setitem__(name, value)

    def __delitem__(self, name: str) -> None:
        self.fill()
        super().__delitem__(name)

    def copy(self) -> dict[str, Any]:
        """A plain dict of the parameters; those that exist only packed stay packed here."""
        with _lock:
            unpacked = {
                name: nn.Parameter(tensor, self._are_learning[name])
                for name, tensor in self.unpacked().items()
            }
            return dict(dict.items(self)) | unpacked

    def __deepcopy__(self, memo: dict[int, Any]) -> dict[str, Any]:
        """A copy as a plain dict; the original stays packed."""
        return copy.deepcopy(self.copy(), memo)

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle as a plain dict, which this becomes too.

        PyTorch gives a spawned process the file descriptors of tensors in shared memory, so they
        must exist until it has started.
        """
        return dict, (dict(self.items()),)


def packed_of(module: object) -> Any:  # noqa: ANN401 - what the module's kernel packed
    """The packed weights of a module that holds them only packed, or None."""
    found = module.__dict__.get("_parameters")
    return found.packed if isinstance(found, PackedParameters) else None


def wants_gradients(module: object) -> bool:
    """Whether a module with packed weights requires gradients."""
    found = module.__dict__.get("_parameters")
    return isinstance(found, PackedParameters) and found.requires_grad


def sorted_parameters(module: nn.Module) -> Iterator[tuple[str, Tensor]]:
    """The parameters of a module and its submodules, sorted by their names in its `state_dict`.

    Packed parameters stay packed: plain copies are created for one submodule at a time.
    """
    places = sorted(
        (f"{prefix}.{name}" if prefix else name, name, part)
        for prefix, part in module.named_modules(remove_duplicate=False)
        for name in part._parameters
    )
    for part, names in groupby(places, key=lambda place: place[2]):
        found = part._parameters
        unpacked = found.unpacked() if isinstance(found, PackedParameters) else {}
        plain = dict(dict.items(found)) | unpacked
        yield from (
            (full_name, plain[name]) for full_name, name, _ in names if plain[name] is not None
        )


def plain_tensors(module: nn.Module) -> Iterator[Tensor]:
    """The parameters of a module and its submodules that exist as plain tensors."""
    for part in module.modules():
        for tensor in dict.values(part._parameters):
            if tensor is not None:
                yield tensor


def count_numbers(module: nn.Module) -> int:
    """The number of elements in the parameters of a module and its submodules, packed or not."""
    n_numbers = 0
    for part in module.modules():
        found = part._parameters
        sizes = found.sizes if isinstance(found, PackedParameters) else {}
        for name, tensor in dict.items(found):
            n_numbers += sizes.get(name, 0) if tensor is None else tensor.numel()
    return n_numbers
