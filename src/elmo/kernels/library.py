"""The C++ functions as Python sees them: structures of addresses, and weights packed for them.

`load()` gives the library or None, `why_unavailable()` the reason. Shapes as in lstm.cpp:
N tokens, B sentences, U distinct rows, D input, H cells, P projection, and padded for the
processor's vectors: Q cells, G = 4Q interleaved gate columns.
"""

import ctypes
import functools
import logging
import math
from collections.abc import Iterator, Sequence
from ctypes import POINTER, c_float, c_int64, c_void_p
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from elmo.kernels.build import BuildError, built_library

_logger = logging.getLogger(__name__)


class LayerStructure(ctypes.Structure):
    """`struct Layer` of lstm.cpp."""

    _fields_ = (
        *((name, c_int64) for name in ("input_dim", "dim", "projection_dim")),
        *((name, c_float) for name in ("cell_clip", "projection_clip")),
        *((name, c_void_p) for name in ("input_weight", "recurrent_weight", "bias")),
        ("projection_weight", c_void_p),
        *((name, c_void_p) for name in ("input", "recurrent", "projection")),
        *((name, c_void_p) for name in ("recurrent_transposed", "projection_transposed")),
    )


class PassStructure(ctypes.Structure):
    """`struct Pass` of lstm.cpp."""

    _fields_ = (
        ("layer", LayerStructure),
        *((name, c_int64) for name in ("n_steps", "n_sentences", "n_rows")),
        *((name, c_void_p) for name in ("batch_sizes", "index", "resets", "rows", "from_input")),
        *((name, c_void_p) for name in ("hidden", "cell", "outputs")),
        *((name, c_void_p) for name in ("gates", "cells", "exposed", "previous_hidden")),
        *((name, c_void_p) for name in ("initial_cell", "grad_outputs", "grad_hidden")),
        *((name, c_void_p) for name in ("grad_cell", "grad_gates", "grad_projected")),
        ("grad_from_input", c_void_p),
    )


class ConvolutionStructure(ctypes.Structure):
    """`struct Convolution` of char_cnn.cpp."""

    _fields_ = (
        *((name, c_int64) for name in ("width", "n_filters")),
        *((name, c_void_p) for name in ("weight", "bias", "grad_weight")),
    )


class WordsStructure(ctypes.Structure):
    """`struct Words` of char_cnn.cpp."""

    _fields_ = (
        *((name, c_int64) for name in ("n_words", "n_characters", "n_filters", "char_dim")),
        *((name, c_int64) for name in ("n_vectors", "n_convolutions")),
        *((name, c_void_p) for name in ("char_ids", "char_vectors")),
        ("convolutions", POINTER(ConvolutionStructure)),
        *((name, c_void_p) for name in ("highest", "places")),
        *((name, c_void_p) for name in ("grad_highest", "grad_char_vectors")),
    )


# Every function takes an array of structures, its length, and a number of threads.
FUNCTIONS = {
    "pack": LayerStructure,
    "multiply_inputs": PassStructure,
    "run_forward": PassStructure,
    "run_backward": PassStructure,
    "gather_gradients": PassStructure,
    "find_highest": WordsStructure,
    "differentiate_highest": WordsStructure,
}


def load() -> ctypes.CDLL | None:
    """The library, built if need be, or None where it cannot be had."""
    return _load()[0]


def why_unavailable() -> str | None:
    """Why there is no library, in one line, or None if there is one."""
    return _load()[1]


@functools.cache
def _load() -> tuple[ctypes.CDLL | None, str | None]:
    try:
        with built_library() as path:
            library = ctypes.CDLL(str(path))
    except (BuildError, OSError) as problem:
        _logger.debug("no compiled kernels, plain torch is used instead: %s", problem)
        return None, str(problem)
    library.elmo_lanes.restype = c_int64
    library.elmo_packed_sizes.argtypes = (POINTER(LayerStructure), POINTER(c_int64))
    for name, structure in FUNCTIONS.items():
        library[f"elmo_{name}"].argtypes = (POINTER(structure), c_int64, c_int64)
    return library, None


def call(name: str, structures: Sequence[ctypes.Structure]) -> None:
    """Call a function that works on an array of structures, with torch's number of threads."""
    library = load()
    assert library is not None, "callers ask is_available() first"
    array = (type(structures[0]) * len(structures))(*structures)
    library[f"elmo_{name}"](array, len(structures), torch.get_num_threads())


def address(tensor: Tensor | None) -> int | None:
    """Where a tensor's numbers stand; the caller keeps the tensor alive."""
    if tensor is None:
        return None
    assert tensor.is_contiguous(), tuple(tensor.stride())
    return tensor.data_ptr()


State = tuple[Tensor, Tensor]  # hidden (B, P), cell (B, H)


class LayerParameters(Protocol):
    """What is asked of a layer: lstm.LstmLayer is one."""

    input_weight: nn.Parameter  # (4H, D), gates in the order input, candidate, forget, output
    recurrent_weight: nn.Parameter  # (4H, P)
    projection_weight: nn.Parameter  # (P, H)
    cell_clip: float | None
    projection_clip: float | None

    @property
    def gate_bias(self) -> Tensor:
        """The bias with which the gates are computed, (4H,)."""

    def parameters(self) -> Iterator[nn.Parameter]:
        """All that the layer's numbers depend on."""


@dataclass(frozen=True)
class Weights:
    """A layer's numbers, gate rows in the order input, candidate, forget, output."""

    input_weight: Tensor  # (4H, D)
    recurrent_weight: Tensor  # (4H, P)
    bias: Tensor  # (4H,)
    projection_weight: Tensor  # (P, H)
    cell_clip: float | None
    projection_clip: float | None

    @property
    def dim(self) -> int:
        """H."""
        return self.projection_weight.shape[1]


@dataclass(frozen=True)
class PackedWeights:
    """What the C++ side reads, and the tensors that hold it."""

    structure: LayerStructure
    held: tuple[Tensor, ...]


@dataclass(frozen=True)
class Reading:
    """In which order one direction reads its rows."""

    batch_sizes: Tensor  # (T,)
    index: Tensor | None  # (N,)
    resets: Tensor | None  # (N,)

    def make_pass(
        self, packed: PackedWeights, rows: Tensor, n_sentences: int, **tensors: Tensor
    ) -> PassStructure:
        """The C++ side's view of one direction; tensors are named as in lstm.cpp."""
        return PassStructure(
            layer=packed.structure,
            n_steps=len(self.batch_sizes),
            n_sentences=n_sentences,
            n_rows=len(rows),
            batch_sizes=address(self.batch_sizes),
            index=address(self.index),
            resets=address(self.resets),
            rows=address(rows),
            **{name: address(tensor) for name, tensor in tensors.items()},
        )


# The order of elmo_packed_sizes.
FORWARD_PARTS = ("input", "recurrent", "projection")
BACKWARD_PARTS = ("recurrent_transposed", "projection_transposed")


def pack_weights(weights: Sequence[Weights], parts: Sequence[str]) -> list[PackedWeights]:
    """Lay the named parts of each layer's weights out as the products read them."""
    library = load()
    assert library is not None
    packed = []
    for weight in weights:
        tensors = [
            tensor.detach().contiguous()
            for tensor in (
                weight.input_weight,
                weight.recurrent_weight,
                weight.bias,
                weight.projection_weight,
            )
        ]
        structure = LayerStructure(
            weight.input_weight.shape[1],
            weight.dim,
            weight.projection_weight.shape[0],
            math.inf if weight.cell_clip is None else weight.cell_clip,
            math.inf if weight.projection_clip is None else weight.projection_clip,
            *map(address, tensors),
        )
        sizes = (c_int64 * 5)()
        library.elmo_packed_sizes(structure, sizes)
        for name, size in zip((*FORWARD_PARTS, *BACKWARD_PARTS), sizes, strict=True):
            if name in parts:
                tensors.append(torch.empty(size))
                setattr(structure, name, address(tensors[-1]))
        packed.append(PackedWeights(structure, tuple(tensors)))
    call("pack", [each.structure for each in packed])
    return packed


def interleave(weight: Tensor) -> Tensor:
    """Gate rows (4H, K) in the order of the kernels' gate columns (G, K), zeros where padded."""
    dim, depth = len(weight) // 4, weight.shape[1]
    padded = torch.nn.functional.pad(weight.view(4, dim, depth), (0, 0, 0, pad_dim(dim) - dim))
    return padded.view(4, -1, _lanes(), depth).transpose(0, 1).reshape(-1, depth)


def deinterleave(columns: Tensor, dim: int) -> Tensor:
    """The inverse of `interleave`, and transposed: gate columns (K, G) to gate rows (4H, K)."""
    depth = len(columns)
    by_gate = columns.view(depth, -1, 4, _lanes()).permute(2, 1, 3, 0).reshape(4, -1, depth)
    return by_gate[:, :dim].reshape(-1, depth)


def pad_dim(dim: int) -> int:
    """H filled up to whole vectors: Q."""
    return dim + -dim % _lanes()


def _lanes() -> int:
    library = load()
    assert library is not None
    return int(library.elmo_lanes())
