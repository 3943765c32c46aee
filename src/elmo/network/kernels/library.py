"""The ctypes bindings of the C++ library: its structures and functions.

`load()` returns the library or None, `why_unavailable()` the reason; `call()` calls a function.
"""

import ctypes
import functools
import warnings
from collections.abc import Sequence
from ctypes import POINTER, c_float, c_int64, c_void_p

import torch
from torch import Tensor

from elmo.network.kernels.build import BuildError
from elmo.network.kernels.locate import open_library


class PackedStructure(ctypes.Structure):
    """`struct Packed` of matrix.h."""

    _fields_ = (("stored", c_void_p), ("format", c_int64))


class LayerStructure(ctypes.Structure):
    """`struct Layer` of lstm.h."""

    _fields_ = (
        *((name, c_int64) for name in ("input_dim", "dim", "projection_dim")),
        *((name, c_float) for name in ("cell_clip", "projection_clip")),
        *((name, c_void_p) for name in ("input_weight", "recurrent_weight", "bias")),
        ("projection_weight", c_void_p),
        *((name, PackedStructure) for name in ("input", "recurrent", "projection")),
        *((name, PackedStructure) for name in ("recurrent_transposed", "projection_transposed")),
    )


class PassStructure(ctypes.Structure):
    """`struct Pass` of lstm.h."""

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
        *((name, c_void_p) for name in ("maxima", "places")),
        *((name, c_void_p) for name in ("grad_maxima", "grad_char_vectors")),
    )


class HighwayStructure(ctypes.Structure):
    """`struct Highway` of highway.cpp."""

    _fields_ = (
        *((name, c_int64) for name in ("n_rows", "row_stride", "dim")),
        *((name, c_void_p) for name in ("rows", "weight", "bias", "gate_weight", "gate_bias")),
        ("packed", PackedStructure),
        ("out", c_void_p),
    )


class SoftmaxStructure(ctypes.Structure):
    """`struct Softmax` of softmax.cpp."""

    _fields_ = (
        *((name, c_int64) for name in ("n_rows", "dim", "n_words", "n_directions")),
        ("rows", c_void_p * 2),
        *((name, c_void_p) for name in ("weight", "bias")),
        ("n_skipped", c_int64),
        ("log_sums", c_void_p),
    )


# `enum Status` of parallel.h.
DONE, OUT_OF_MEMORY = 0, 1

# Every function takes an array of structures, its length, and a number of threads.
FUNCTIONS = {
    "pack": LayerStructure,
    "unpack": LayerStructure,
    "multiply_inputs": PassStructure,
    "run_forward": PassStructure,
    "run_backward": PassStructure,
    "gather_gradients": PassStructure,
    "conv_max_pool": WordsStructure,
    "conv_max_pool_backward": WordsStructure,
    "pack_highway": HighwayStructure,
    "unpack_highway": HighwayStructure,
    "run_highway": HighwayStructure,
    "sum_exponentials": SoftmaxStructure,
}


def load() -> ctypes.CDLL | None:
    """The library, built if necessary, or None if it is unavailable."""
    return _load()[0]


def why_unavailable() -> str | None:
    """Why there is no library, in one line, or None if there is one."""
    return None if load() is not None else _load()[1]


def describe() -> str:
    """Which library is used, or why none is."""
    library, words = _load()
    return words if library is not None else f"none, PyTorch is used ({words})"


@functools.cache
def _load() -> tuple[ctypes.CDLL | None, str]:
    """The library and its description, or None and the reason."""
    try:
        found = open_library()
    except (BuildError, OSError) as problem:
        warnings.warn(
            f"no compiled kernels: {problem}; PyTorch is used, which is slower",
            RuntimeWarning,
            stacklevel=2,
        )
        return None, str(problem)
    library = found.functions
    library.elmo_lanes.restype = library.elmo_multiplies_bfloat16.restype = c_int64
    library.elmo_packed_highway_size.restype = c_int64
    library.elmo_packed_highway_size.argtypes = (POINTER(HighwayStructure),)
    library.elmo_softmax_chunks.restype = c_int64
    library.elmo_softmax_chunks.argtypes = (POINTER(SoftmaxStructure),)
    library.elmo_packed_sizes.argtypes = (POINTER(LayerStructure), POINTER(c_int64))
    for name, structure in FUNCTIONS.items():
        function = getattr(library, f"elmo_{name}")
        function.argtypes, function.restype = (POINTER(structure), c_int64, c_int64), c_int64
    return library, found.description


def call(name: str, structures: Sequence[ctypes.Structure]) -> None:
    """Call a function that works on an array of structures, with torch's number of threads."""
    array = (type(structures[0]) * len(structures))(*structures)
    function = getattr(opened(), f"elmo_{name}")
    status = function(array, len(structures), torch.get_num_threads())
    if status == OUT_OF_MEMORY:
        raise MemoryError(f"elmo_{name}: no memory for its working space")
    if status != DONE:
        raise RuntimeError(f"elmo_{name} failed with status {status}")


def address(tensor: Tensor | None, dtype: torch.dtype = torch.float32) -> int | None:
    """The address of a tensor's data; the caller keeps the tensor alive."""
    if tensor is None:
        return None
    if tensor.device.type != "cpu" or tensor.dtype != dtype or not tensor.is_contiguous():
        raise ValueError(
            f"a tensor of {tensor.dtype} on {tensor.device} with strides {tensor.stride()}, "
            f"expected a contiguous one of {dtype} on the CPU"
        )
    return tensor.data_ptr()


@functools.cache
def lanes() -> int:
    """The number of floats in a SIMD vector."""
    return int(opened().elmo_lanes())


@functools.cache
def multiplies_bfloat16() -> bool:
    """Whether products with bfloat16 weights are computed in bfloat16; otherwise in float32."""
    return bool(opened().elmo_multiplies_bfloat16())


def opened() -> ctypes.CDLL:
    """The library, for callers that have checked that it is available."""
    library = load()
    assert library is not None, "callers ask is_available() first"
    return library


def allocate(*shape: int, dtype: torch.dtype = torch.float32) -> Tensor:
    """A tensor of undefined values in memory, whatever torch's default dtype and device are."""
    return torch.empty(shape, dtype=dtype, device="cpu")


# In the order of `enum Format` in matrix.h.
FORMATS = (torch.float32, torch.bfloat16)


def allocate_packed(size: int, dtype: torch.dtype) -> tuple[PackedStructure, Tensor]:
    """Allocate memory for packed weights: its structure, and the tensor that owns it."""
    held = allocate(size, dtype=dtype)
    return PackedStructure(address(held, dtype), FORMATS.index(dtype)), held
