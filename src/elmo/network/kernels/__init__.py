"""The fast paths for CPUs: C++ kernels, prebuilt in the wheel or compiled on first use.

`run_layers` computes the same as the plain path of lstm.py, `conv_max_pool` and `run_highway` the
same as those of char_cnn.py, up to float rounding; the first two with gradients if needed. Each has
a `can_...` function, which says whether it may be called. Weights stored in bfloat16 take half the
memory; processors with bfloat16 products (AVX512-BF16, AMX) multiply in bfloat16, with sums in
float32, and others convert to float32. Under autocast to bfloat16, `run_layers` also trains this
way.
"""

import ctypes
import sys
from collections.abc import Callable, Iterable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from elmo.network.kernels import library
from elmo.network.kernels.char_windows import conv_max_pool
from elmo.network.kernels.highway import hold_packed_highway, run_highway
from elmo.network.kernels.inference import hold_packed, infer
from elmo.network.kernels.library import describe, why_unavailable
from elmo.network.kernels.packed_parameters import (
    count_numbers,
    packed_of,
    plain_tensors,
    sorted_parameters,
    wants_gradients,
)
from elmo.network.kernels.packed_weight_cache import forget_all
from elmo.network.kernels.recurrence import (
    LayerParameters,
    PackedLayer,
    PackedOrder,
    State,
    parameters_of,
)
from elmo.network.kernels.softmax import log_sum_exp
from elmo.network.kernels.training import train

__all__ = [
    "can_conv_max_pool",
    "can_log_sum_exp",
    "can_run",
    "can_run_highway",
    "conv_max_pool",
    "count_numbers",
    "describe",
    "forget_all",
    "hold_packed",
    "hold_packed_highway",
    "is_available",
    "keep_freed_memory",
    "log_sum_exp",
    "multiplies_bfloat16",
    "plain_tensors",
    "run_highway",
    "run_layers",
    "sorted_parameters",
    "why_unavailable",
]

# With fewer rows, packing the weights takes longer than the product.
MIN_SOFTMAX_ROWS = 8

# Constants of <malloc.h>.
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3


def is_available() -> bool:
    """Whether the library is available; the first call may build it, in about three seconds."""
    return library.load() is not None


def multiplies_bfloat16() -> bool:
    """Whether products with bfloat16 weights are computed in bfloat16, about twice as fast."""
    return is_available() and library.multiplies_bfloat16()


def can_run(layers: Sequence[LayerParameters], rows: Sequence[Tensor]) -> bool:
    """Whether `run_layers` may be called; weights in bfloat16 have no gradients."""
    is_learning = _is_learning(layers, rows)
    weights = [
        each
        for layer in layers
        if is_learning or packed_of(layer) is None
        for each in parameters_of(layer)
    ]
    return _can_compute(rows, weights, is_learning)


def can_conv_max_pool(char_ids: Tensor, char_vectors: Tensor) -> bool:
    """Whether `conv_max_pool` may be called."""
    return char_ids.device.type == "cpu" and _can_compute([], [char_vectors], is_training=True)


def can_run_highway(transform: nn.Linear, gate: nn.Linear, rows: Tensor) -> bool:
    """Whether `run_highway` may be called; it computes no gradients."""
    if _is_learning([], [rows]) or any(_learns(linear) for linear in (transform, gate)):
        return False
    if packed_of(transform) is not None and packed_of(gate) is not None:
        return _can_compute([rows], [], is_training=False)
    weights = [transform.weight, transform.bias, gate.weight, gate.bias]
    return not _is_learning([], weights) and _can_compute([rows], weights, is_training=False)


def can_log_sum_exp(rows: Sequence[Tensor], weight: Tensor, bias: Tensor) -> bool:
    """Whether `log_sum_exp` may be called and is faster; it computes no gradients."""
    given = [*rows, weight, bias]
    return (
        len(rows[0]) >= MIN_SOFTMAX_ROWS
        and not _is_learning([], given)
        and _can_compute(given, [], is_training=False)
    )


def _is_learning(layers: Sequence[LayerParameters], tensors: Iterable[Tensor]) -> bool:
    """Whether gradients are needed for any of these."""
    if not torch.is_grad_enabled():
        return False
    return any(each.requires_grad for each in tensors) or any(
        wants_gradients(layer)
        if packed_of(layer) is not None
        else any(each.requires_grad for each in parameters_of(layer))
        for layer in layers
    )


def _learns(linear: nn.Linear) -> bool:
    """Whether gradients are needed for a layer whose weights are held packed."""
    return torch.is_grad_enabled() and packed_of(linear) is not None and wants_gradients(linear)


def _can_compute(rows: Iterable[Tensor], weights: Iterable[Tensor], is_training: bool) -> bool:
    """Whether the library is available and supports these tensors: on a CPU, in eager mode.

    Weights are float32 or, in inference, bfloat16; rows are float32 or, under autocast, bfloat16.
    Autocast to bfloat16 is supported in training only.
    """
    stored = (torch.float32,) if is_training else library.FORMATS
    is_autocast = torch.is_autocast_enabled("cpu")
    given = library.FORMATS if is_autocast else (torch.float32,)
    return (
        all(each.device.type == "cpu" and each.dtype in given for each in rows)
        and all(each.device.type == "cpu" and each.dtype in stored for each in weights)
        and (is_training or not is_autocast)
        and not torch.compiler.is_compiling()
        and not torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
        and is_available()
        and (not is_autocast or _autocasts_to_bfloat16())
    )


def _autocasts_to_bfloat16() -> bool:
    """Whether autocast is to bfloat16 and the kernels multiply in bfloat16."""
    return torch.get_autocast_dtype("cpu") == torch.bfloat16 and library.multiplies_bfloat16()


def keep_freed_memory() -> None:
    """Let the C library keep freed memory for the next training step.

    Every step allocates the same hundreds of megabytes. If they are returned to the system in
    between, page faults take 14% of a step, measured at 1024 cells and 128 x 8 tokens.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # only glibc has it
    if mallopt is not None:
        raise_thresholds(mallopt)


def raise_thresholds(mallopt: Callable[[int, int], int]) -> None:
    """Call the C library's `mallopt`, which returns 1 if it accepts a value."""
    # Setting one threshold ends the automatic growth of both from 128 KB. Older versions of glibc
    # refuse more than 32 MB for the first; then the second alone would do harm.
    if mallopt(M_MMAP_THRESHOLD, 2**30) == 1 or mallopt(M_MMAP_THRESHOLD, 2**25) == 1:
        mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


def run_layers(
    layers: Sequence[LayerParameters],
    rows: Sequence[Tensor],
    index: Sequence[Tensor | None],
    batch_sizes: Sequence[int],
    states: Sequence[State],
    resets: Sequence[Tensor | None] | None = None,
) -> tuple[list[Tensor], list[State]]:
    """Run the same layer of all directions in parallel; see lstm.run_layers for the arguments."""
    sizes = torch.tensor(batch_sizes, dtype=torch.int64, device="cpu")
    n_tokens = sum(batch_sizes)
    orders = [
        _check(
            layer,
            row,
            state,
            PackedOrder(sizes, n_tokens, _contiguous(which), _contiguous(reset)),
        )
        for layer, row, state, which, reset in zip(
            layers, rows, states, index, resets or [None] * len(layers), strict=True
        )
    ]
    given = [*rows, *(part for state in states for part in state)]
    run = train if _is_learning(layers, given) else infer
    return run(layers, rows, states, orders)


def _contiguous(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.contiguous()


def _check(layer: LayerParameters, rows: Tensor, state: State, order: PackedOrder) -> PackedOrder:
    """Check all shapes and indices, as the C++ code does not."""
    n_rows, n_tokens = rows.shape[0], order.n_tokens
    n_sentences = state[0].shape[0]
    expected: list[tuple[str, Tensor, tuple[int, ...]]] = []
    packed: PackedLayer | None = packed_of(layer)
    if packed is None:
        projection_dim, dim = layer.projection_weight.shape
        expected += [
            ("input weight", layer.input_weight, (4 * dim, rows.shape[1])),
            ("recurrent weight", layer.recurrent_weight, (4 * dim, projection_dim)),
            ("bias", layer.bias, (4 * dim,)),
        ]
    else:  # packed weights: only the width of the rows can differ
        projection_dim, dim = packed.structure.projection_dim, packed.structure.dim
        expected.append(("rows", rows, (n_rows, packed.structure.input_dim)))
    expected += [
        ("hidden state", state[0], (n_sentences, projection_dim)),
        ("cell state", state[1], (n_sentences, dim)),
    ]
    if order.index is None:
        expected.append(("rows", rows, (n_tokens, rows.shape[1])))
    else:
        expected.append(("index", order.index, (n_tokens,)))
    if order.resets is not None:
        expected.append(("resets", order.resets, (n_tokens,)))
    for name, tensor, shape in expected:
        if tensor.shape != shape:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}, expected {shape}")
    sizes = order.batch_sizes.tolist()
    is_descending = all(n_later <= n for n, n_later in pairwise(sizes))
    if not is_descending or (sizes and not 0 < sizes[-1] <= sizes[0] <= n_sentences):
        raise ValueError(
            f"batch sizes are {sizes[:3]}..., expected {n_sentences} or less, in descending order"
        )
    if order.index is not None and n_tokens:
        lowest, highest = (int(bound) for bound in order.index.aminmax())
        if lowest < 0 or highest >= n_rows:
            raise IndexError(f"rows {lowest}..{highest} are read, expected 0..{n_rows - 1}")
    return order
