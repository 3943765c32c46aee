"""The recurrence without gradients: weights packed once per layer, memory bounded for any length.

In and out as in `run_layers` of this package. Shapes as in recurrence.py.
"""

import threading
from collections.abc import Iterator, Sequence

import torch
from torch import Tensor, nn

from elmo.network.kernels import library
from elmo.network.kernels.packed_parameters import PackedParameters, packed_of
from elmo.network.kernels.packed_weight_cache import PackedWeightCache
from elmo.network.kernels.recurrence import (
    FORWARD_PARTS,
    WEIGHTS,
    LayerParameters,
    PackedLayer,
    PackedOrder,
    State,
    Weights,
    pack_weights,
    pad_dim,
    parameters_of,
    unpack_weights,
)

# Maximum number of floats in a direction's input products (32 MB); longer texts run in chunks.
MAX_FROM_INPUT_FLOATS = 8 * 1024 * 1024

_packed: PackedWeightCache[PackedLayer] = PackedWeightCache()


class _Scratch(threading.local):
    """Buffers for each direction's input products, reused by all calls of a thread.

    Allocating them for each call would cost a tenth of the total time in page faults.
    """

    def __init__(self) -> None:
        self._rooms: dict[int, Tensor] = {}

    def buffer(self, direction: int, n_floats: int) -> Tensor:
        known = self._rooms.get(direction)
        if known is None or known.numel() < n_floats:
            known = self._rooms[direction] = library.allocate(n_floats)
        return known


_scratch = _Scratch()


def infer(
    layers: Sequence[LayerParameters],
    rows: Sequence[Tensor],
    states: Sequence[State],
    orders: Sequence[PackedOrder],
) -> tuple[list[Tensor], list[State]]:
    """Run the layers, keeping only the outputs and the final states."""
    packed = [_packed_layer(layer) for layer in layers]
    states = [(_own(hidden), _own(cell)) for hidden, cell in states]
    gates_dim = 4 * pad_dim(states[0][1].shape[1])
    max_rows = MAX_FROM_INPUT_FLOATS // gates_dim
    outputs: list[list[Tensor]] = [[] for _ in layers]
    for steps in _cut(
        orders[0].batch_sizes, max_rows, is_whole=max(row.shape[0] for row in rows) <= max_rows
    ):
        directions = [
            _piece(row.detach().contiguous(), order, steps)
            for row, order in zip(rows, orders, strict=True)
        ]
        made = [
            {
                "from_input": _scratch.buffer(number, row.shape[0] * gates_dim),
                "hidden": hidden,
                "cell": cell,
                "outputs": library.allocate(order.n_tokens, hidden.shape[1]),
            }
            for number, ((row, order), (hidden, cell)) in enumerate(
                zip(directions, states, strict=True)
            )
        ]
        passes = [
            order.make_pass(weights, row, each["hidden"].shape[0], **each)
            for weights, (row, order), each in zip(packed, directions, made, strict=True)
        ]
        library.call("multiply_inputs", passes)
        library.call("run_forward", passes)
        for whole, each in zip(outputs, made, strict=True):
            whole.append(each["outputs"])
    return [torch.cat(whole) if len(whole) > 1 else whole[0] for whole in outputs], states


def _own(state: Tensor) -> Tensor:
    return state.detach().float().clone(memory_format=torch.contiguous_format)


def _cut(batch_sizes: Tensor, max_tokens: int, is_whole: bool) -> Iterator[slice]:
    """Split the steps, unless `is_whole`, into chunks of at most `max_tokens` or one step."""
    start, n_tokens = 0, 0
    for step, size in enumerate(batch_sizes.tolist()):
        if step > start and n_tokens + size > max_tokens and not is_whole:
            yield slice(start, step)
            start, n_tokens = step, 0
        n_tokens += size
    yield slice(start, len(batch_sizes))


def _piece(rows: Tensor, order: PackedOrder, steps: slice) -> tuple[Tensor, PackedOrder]:
    """The rows that one direction reads in these steps, and their order."""
    if steps.stop - steps.start == order.batch_sizes.shape[0]:
        return rows, order
    sizes = order.batch_sizes[steps]
    start, n_tokens = int(order.batch_sizes[: steps.start].sum()), int(sizes.sum())
    tokens = slice(start, start + n_tokens)
    resets = None if order.resets is None else order.resets[tokens]
    if order.index is None:
        return rows[tokens], PackedOrder(sizes, n_tokens, None, resets)
    distinct, index = torch.unique(order.index[tokens], return_inverse=True)
    return rows[distinct], PackedOrder(sizes, n_tokens, index, resets)


def hold_packed(layer: nn.Module) -> None:
    """Let a layer (a `LayerParameters`) hold its weights packed until one is accessed."""
    packed = _packed_layer(layer)  # type: ignore[arg-type]
    parameters = PackedParameters(layer._parameters, packed, lambda: unpack_weights(packed))
    parameters.release(WEIGHTS)
    layer.__dict__["_parameters"] = parameters


def _packed_layer(layer: LayerParameters) -> PackedLayer:
    held: PackedLayer | None = packed_of(layer)
    if held is not None:
        return held
    clips = layer.cell_clip, layer.projection_clip

    def make() -> PackedLayer:
        weights = layer.input_weight, layer.recurrent_weight, layer.gate_bias
        return pack_weights([Weights(*weights, layer.projection_weight, *clips)], FORWARD_PARTS)[0]

    return _packed.get(layer, parameters_of(layer), make, clips)
