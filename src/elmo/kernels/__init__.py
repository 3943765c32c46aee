"""The fast recurrence for CPUs: C++ built by the machine's own compiler on first use.

`run_layers` computes what the plain path of lstm.py computes, to float rounding, with gradients
where they are wanted; `can_run` says whether it may be asked. In: per direction a layer, distinct
rows (U, D), an index (N,), a state. Out: per direction outputs (N, P) and the state, all float32.
"""

import ctypes
from collections.abc import Sequence

import torch
from torch import Tensor

from elmo.kernels import library
from elmo.kernels.inference import infer
from elmo.kernels.library import LayerParameters, Reading, State, why_unavailable
from elmo.kernels.training import train

__all__ = ["can_run", "is_available", "keep_freed_memory", "run_layers", "why_unavailable"]


# Numbers of <malloc.h>.
M_TRIM_THRESHOLD = -1
M_MMAP_THRESHOLD = -3


def is_available() -> bool:
    """Whether the library is there; the first call may build it, in about three seconds."""
    return library.load() is not None


def can_run(layers: Sequence[LayerParameters], rows: Sequence[Tensor]) -> bool:
    """Whether `run_layers` may be called: float32 on a CPU, eager, and a library at hand."""
    tensors = [*rows, *(tensor for layer in layers for tensor in layer.parameters())]
    return (
        all(each.device.type == "cpu" and each.dtype == torch.float32 for each in tensors)
        and not torch.is_autocast_enabled("cpu")
        and not torch.compiler.is_compiling()
        and not torch.jit.is_tracing()  # type: ignore[attr-defined, no-untyped-call]
        and is_available()
    )


def keep_freed_memory() -> None:
    """For a process that trains: let the C library keep what is freed, for the next step.

    Every step asks for the same hundreds of megabytes. Given back to the system in between, they
    come back as new pages, which took 14 % of a step at 1024 cells and 128 x 8 tokens.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None)  # of glibc; elsewhere nothing is done
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
    sizes = torch.tensor(batch_sizes, dtype=torch.int64)
    readings = [
        Reading(
            sizes,
            None if which is None else which.contiguous(),
            None if reset is None else reset.contiguous(),
        )
        for which, reset in zip(index, resets or [None] * len(layers), strict=True)
    ]
    given = [*rows]
    for layer, state in zip(layers, states, strict=True):
        given += [*state, *layer.parameters()]
    is_training = torch.is_grad_enabled() and any(each.requires_grad for each in given)
    return (train if is_training else infer)(layers, rows, states, readings)
