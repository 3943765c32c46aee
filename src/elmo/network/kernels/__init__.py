"""The fast paths for CPUs: C++ built by the machine's own compiler on first use.

`run_layers` computes what the plain path of lstm.py computes, `conv_max_pool` and `run_highway`
what those of char_cnn.py do, to float rounding; the first two with gradients where they are wanted.
Each has its `can_...`, which says whether it may be called. Weights stored in bfloat16 take half
the memory; a processor that multiplies in bfloat16 (AVX512-BF16) does, with sums in float32, and
others compute with them as float32. Under autocast to bfloat16 `run_layers` trains so too.
"""

import ctypes
import sys
from collections.abc import Iterable, Sequence
from itertools import pairwise

import torch
from torch import Tensor, nn

from elmo.network.kernels import library
from elmo.network.kernels.char_windows import conv_max_pool
from elmo.network.kernels.highway import run_highway
from elmo.network.kernels.inference import infer
from elmo.network.kernels.library import describe, why_unavailable
from elmo.network.kernels.packed_weight_cache import forget_all
from elmo.network.kernels.recurrence import LayerParameters, PackedOrder, State, parameters_of
from elmo.network.kernels.training import train

__all__ = [
    "can_conv_max_pool",
    "can_run",
    "can_run_highway",
    "conv_max_pool",
    "describe",
    "forget_all",
    "is_available",
    "keep_freed_memory",
    "multiplies_bfloat16",
    "run_highway",
    "run_layers",
    "why_unavailable",
]

# Numbers of <malloc.h>.
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3


def is_available() -> bool:
    """Whether the library is there; the first call may build it, in about three seconds."""
    return library.load() is not None


def multiplies_bfloat16() -> bool:
    """Whether products with weights in bfloat16 are made in it, and so about twice as fast."""
    return is_available() and library.multiplies_bfloat16()


def can_run(layers: Sequence[LayerParameters], rows: Sequence[Tensor]) -> bool:
    """Whether `run_layers` may be called; weights in bfloat16 give no gradients."""
    weights = [each for layer in layers for each in parameters_of(layer)]
    return _can_compute(rows, weights, is_training=_wants_gradients([*rows, *weights]))


def can_conv_max_pool(char_ids: Tensor, char_vectors: Tensor) -> bool:
    """Whether `conv_max_pool` may be called."""
    return char_ids.device.type == "cpu" and _can_compute([char_vectors], [], is_training=True)


def can_run_highway(transform: nn.Linear, gate: nn.Linear, rows: Tensor) -> bool:
    """Whether `run_highway` may be called; it gives no gradients."""
    weights = [transform.weight, transform.bias, gate.weight, gate.bias]
    return not _wants_gradients([rows, *weights]) and _can_compute([rows], weights, False)


def _wants_gradients(tensors: Iterable[Tensor]) -> bool:
    return torch.is_grad_enabled() and any(each.requires_grad for each in tensors)


def _can_compute(rows: Iterable[Tensor], weights: Iterable[Tensor], is_training: bool) -> bool:
    """Float32 on a CPU, eager, and a library at hand; in training also autocast to bfloat16."""
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
    """Whether autocast wants what the kernels can do."""
    return torch.get_autocast_dtype("cpu") == torch.bfloat16 and library.multiplies_bfloat16()


def keep_freed_memory() -> None:
    """For a process that trains: let the C library keep what is freed, for the next step.

    Every step asks for the same hundreds of megabytes. Given back to the system in between, they
    come back as new pages, which took 14 % of a step at 1024 cells and 128 x 8 tokens.
    """
    if sys.platform != "linux":
        return
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # only glibc has it
    if mallopt is not None:
        mallopt(M_MMAP_THRESHOLD, 2**30)
        mallopt(M_TRIM_THRESHOLD, 2**31 - 1)


def run_layers(
    layers: Sequence[LayerParameters],
    rows: Sequence[Tensor],
    index: Sequence[Tensor | None],
    batch_sizes: Sequence[int],
    states: Sequence[State],
    resets: Sequence[Tensor | None] | None = None,
) -> tuple[list[Tensor], list[State]]:
    """Run the same layer of each direction side by side; see lstm.run_layers for the arguments."""
    sizes, n_tokens = torch.tensor(batch_sizes, dtype=torch.int64), sum(batch_sizes)
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
    given = [*rows]
    for layer, state in zip(layers, states, strict=True):
        given += [*state, *parameters_of(layer)]
    run = train if _wants_gradients(given) else infer
    return run(layers, rows, states, orders)


def _contiguous(tensor: Tensor | None) -> Tensor | None:
    return None if tensor is None else tensor.contiguous()


def _check(layer: LayerParameters, rows: Tensor, state: State, order: PackedOrder) -> PackedOrder:
    """The C++ side trusts its numbers, so all shapes and indices are checked here."""
    n_rows, n_tokens = rows.shape[0], order.n_tokens
    projection_dim, dim = layer.projection_weight.shape
    n_sentences = state[0].shape[0]
    expected: list[tuple[str, Tensor, tuple[int, ...]]] = [
        ("input weight", layer.input_weight, (4 * dim, rows.shape[1])),
        ("recurrent weight", layer.recurrent_weight, (4 * dim, projection_dim)),
        ("bias", layer.bias, (4 * dim,)),
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
    falls = all(n_later <= n for n, n_later in pairwise(sizes))
    if not falls or (sizes and not 0 < sizes[-1] <= sizes[0] <= n_sentences):
        raise ValueError(f"batch sizes are {sizes[:3]}..., expected {n_sentences} or less, falling")
    if order.index is not None and n_tokens:
        lowest, highest = (int(bound) for bound in order.index.aminmax())
        if lowest < 0 or highest >= n_rows:
            raise IndexError(f"rows {lowest}..{highest} are asked for, expected 0..{n_rows - 1}")
    return order
