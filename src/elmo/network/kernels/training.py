"""The recurrence with gradients: one autograd function for all directions of a layer.

In: per direction its distinct rows, weights and state. Out: per direction its outputs and final
state. The steps of both passes run in C++; the products that sum over all tokens are torch's. Under
torch's autocast to bfloat16, all of these products are computed in it, with sums in float32.
Shapes as in recurrence.py.
"""

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

from elmo.network.kernels import library
from elmo.network.kernels.library import PassStructure, allocate
from elmo.network.kernels.recurrence import (
    BACKWARD_PARTS,
    FORWARD_PARTS,
    LayerParameters,
    PackedOrder,
    State,
    Weights,
    deinterleave,
    interleave,
    pack_weights,
    pad_dim,
)

N_TENSORS = 7  # of one direction: rows, four parameters, hidden, cell
KEPT = ("outputs", "gates", "cells", "exposed", "previous_hidden")


# The clips of each direction's cell and projection.
Clips = Sequence[tuple[float | None, float | None]]


def train(
    layers: Sequence[LayerParameters],
    rows: Sequence[Tensor],
    states: Sequence[State],
    orders: Sequence[PackedOrder],
) -> tuple[list[Tensor], list[State]]:
    """Run the layers so that gradients flow to rows, weights and states."""
    tensors: list[Tensor] = []
    for layer, row, state in zip(layers, rows, states, strict=True):
        weights = layer.input_weight, layer.recurrent_weight, layer.gate_bias
        tensors += [row, *weights, layer.projection_weight, *state]
    clips = [(layer.cell_clip, layer.projection_clip) for layer in layers]
    contiguous = [each.float().contiguous() for each in tensors]
    dtype = torch.bfloat16 if torch.is_autocast_enabled("cpu") else torch.float32
    with torch.autocast("cpu", enabled=False):
        results = Recurrence.apply(  # type: ignore[no-untyped-call]
            orders, clips, dtype, *contiguous
        )
    return list(results[::3]), list(zip(results[1::3], results[2::3], strict=True))


class Recurrence(torch.autograd.Function):
    """`apply(orders, clips, dtype, *tensors)` returns each direction's outputs, hidden, cell."""

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401
        orders: Sequence[PackedOrder],
        clips: Clips,
        dtype: torch.dtype,
        *tensors: Tensor,
    ) -> tuple[Tensor, ...]:
        """Run the steps, keeping what the backward pass needs."""
        weights, directions = _split(clips, tensors)
        passes, results = [], []
        packed = pack_weights(weights, FORWARD_PARTS, dtype)
        for order, weight, pack, (rows, *_, hidden, cell) in zip(
            orders, weights, packed, directions, strict=True
        ):
            padded_dim, n_tokens = pad_dim(weight.dim), order.n_tokens
            made = {
                "from_input": allocate(len(rows), 4 * padded_dim),
                "hidden": hidden.clone(),
                "cell": cell.clone(),
                "outputs": allocate(n_tokens, hidden.shape[1]),
                "gates": allocate(n_tokens, 4 * padded_dim),
                "cells": allocate(n_tokens, padded_dim),
                "exposed": allocate(n_tokens, padded_dim),
                "previous_hidden": allocate(n_tokens, hidden.shape[1]),
            }
            passes.append(order.make_pass(pack, rows, len(hidden), **made))
            results.append(made)
        library.call("multiply_inputs", passes)
        library.call("run_forward", passes)
        ctx.orders, ctx.clips, ctx.dtype = orders, clips, dtype
        ctx.save_for_backward(*tensors, *(made[name] for made in results for name in KEPT))
        return tuple(made[name] for made in results for name in ("outputs", "hidden", "cell"))

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        """Run the steps in reverse; each weight's gradient is then one product over all tokens."""
        orders: Sequence[PackedOrder] = ctx.orders
        n_given = N_TENSORS * len(orders)
        weights, directions = _split(ctx.clips, ctx.saved_tensors[:n_given])
        all_kept = [
            dict(zip(KEPT, ctx.saved_tensors[start : start + len(KEPT)], strict=True))
            for start in range(n_given, len(ctx.saved_tensors), len(KEPT))
        ]
        passes, results = [], []
        packed = pack_weights(weights, BACKWARD_PARTS, ctx.dtype)
        for number, (order, pack, (rows, *_, initial_cell), kept) in enumerate(
            zip(orders, packed, directions, all_kept, strict=True)
        ):
            grad_outputs, grad_hidden, grad_cell = grads[3 * number : 3 * number + 3]
            made = {
                "grad_outputs": grad_outputs.contiguous(),
                "grad_hidden": grad_hidden.clone(memory_format=torch.contiguous_format),
                "grad_cell": grad_cell.clone(memory_format=torch.contiguous_format),
                "grad_gates": torch.empty_like(kept["gates"]),
                "grad_projected": torch.empty_like(kept["outputs"]),
            }
            given = {"initial_cell": initial_cell, **kept, **made}
            passes.append(order.make_pass(pack, rows, len(initial_cell), **given))
            results.append(made)
        library.call("run_backward", passes)
        _gather_over_index(orders, passes, results, [rows for rows, *_ in directions])
        found: list[Tensor | None] = [None, None, None]
        for number, direction in enumerate(
            zip(weights, directions, all_kept, results, strict=True)
        ):
            needed = ctx.needs_input_grad[3 + N_TENSORS * number :][:N_TENSORS]
            found += _sum_over_tokens(needed, *direction, ctx.dtype)
        return tuple(found)


def _split(clips: Clips, tensors: Sequence[Tensor]) -> tuple[list[Weights], list[Sequence[Tensor]]]:
    directions = [tensors[start : start + N_TENSORS] for start in range(0, len(tensors), N_TENSORS)]
    weights = [
        Weights(direction[1], direction[2], direction[3], direction[4], *clip)
        for clip, direction in zip(clips, directions, strict=True)
    ]
    return weights, directions


def _gather_over_index(
    orders: Sequence[PackedOrder],
    passes: Sequence[PassStructure],
    results: Sequence[dict[str, Tensor]],
    rows: Sequence[Tensor],
) -> None:
    """Add `grad_from_input` to the results: the sum over the tokens that read the same row."""
    indexed = []
    for order, each, made, inputs in zip(orders, passes, results, rows, strict=True):
        if order.index is None:
            made["grad_from_input"] = made["grad_gates"]
        else:
            gathered = allocate(len(inputs), made["grad_gates"].shape[1]).zero_()
            made["grad_from_input"] = gathered
            each.grad_from_input = library.address(gathered)
            indexed.append(each)
    if indexed:
        library.call("gather_gradients", indexed)


def _sum_over_tokens(
    needed: Sequence[bool],
    weights: Weights,
    direction: Sequence[Tensor],
    kept: dict[str, Tensor],
    made: dict[str, Tensor],
    dtype: torch.dtype,
) -> list[Tensor | None]:
    """The gradients of one direction's tensors, in their order; None where none is needed."""
    dim, rows = weights.dim, direction[0]
    by_token = made["grad_gates"].to(dtype)
    is_indexed = made["grad_from_input"] is not made["grad_gates"]
    by_row = made["grad_from_input"].to(dtype) if is_indexed else by_token
    makers: list[Callable[[], Tensor]] = [
        lambda: (by_row @ interleave(weights.input_weight.to(dtype))).float(),
        # The narrow matrix is on the left: a third faster than the transposed product.
        lambda: deinterleave(rows.to(dtype).T @ by_row, dim).float(),
        lambda: deinterleave(kept["previous_hidden"].to(dtype).T @ by_token, dim).float(),
        lambda: deinterleave(made["grad_from_input"].sum(0, keepdim=True), dim).flatten(),
        lambda: (made["grad_projected"].to(dtype).T @ kept["exposed"].to(dtype))[:, :dim].float(),
        lambda: made["grad_hidden"],
        lambda: made["grad_cell"],
    ]
    return [make() if is_needed else None for make, is_needed in zip(makers, needed, strict=True)]
