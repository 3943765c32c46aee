"""One projected, clipped LSTM layer of one direction, run over sentences of any lengths.

In: the distinct input rows (U, D), the index of each packed token's row (N,), and the state.
Out: a row per token (N, P) and the state after each sentence's last token. Tokens are packed as
in torch's PackedSequence: longest sentence first, step by step; `batch_sizes[t]` sentences run at
step t. Shapes: N tokens, B sentences, U distinct rows, D input, H cells, P projection.
"""

import math
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from elmo.network import kernels

# TensorFlow's cell adds this to the forget gate at run time, so the released biases do not include
# it. We add it at run time too: adding it to the stored bias would round, and a converted file
# would differ from the original.
FORGET_BIAS = 1.0


@dataclass(frozen=True)
class LayerState:
    """The recurrent state of a layer for each sentence."""

    hidden: Tensor  # (B, P), the clipped projection
    cell: Tensor  # (B, H)


class LstmLayer(nn.Module):
    """The parameters of one layer; gates are in the order input, candidate, forget, output."""

    def __init__(
        self,
        *,
        input_dim: int,
        dim: int,
        projection_dim: int,
        cell_clip: float | None,
        projection_clip: float | None,
    ) -> None:
        super().__init__()
        self.dim = dim
        self.projection_dim = projection_dim
        self.cell_clip = cell_clip
        self.projection_clip = projection_clip
        self.input_weight = nn.Parameter(torch.empty(4 * dim, input_dim))
        self.recurrent_weight = nn.Parameter(torch.empty(4 * dim, projection_dim))
        self.bias = nn.Parameter(torch.empty(4 * dim))
        self.projection_weight = nn.Parameter(torch.empty(projection_dim, dim))
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize like the original training code: Glorot uniform weights and zero biases."""
        with torch.no_grad():
            # The original holds both weights in one matrix, so they share one fan-in.
            n_inputs = self.input_weight.shape[1] + self.projection_dim
            bound = math.sqrt(6 / (n_inputs + 4 * self.dim))
            self.input_weight.uniform_(-bound, bound)
            self.recurrent_weight.uniform_(-bound, bound)
            self.bias.zero_()
            bound = math.sqrt(6 / (self.dim + self.projection_dim))
            self.projection_weight.uniform_(-bound, bound)

    @property
    def gate_bias(self) -> Tensor:
        """The bias of the gates with FORGET_BIAS added, (4H,)."""
        input_gate, candidate, forget_gate, output_gate = self.bias.chunk(4)
        return torch.cat([input_gate, candidate, forget_gate + FORGET_BIAS, output_gate])

    def initial_state(self, n_sentences: int) -> LayerState:
        """The initial state: zeros."""
        weight = self.projection_weight
        return LayerState(
            weight.new_zeros(n_sentences, self.projection_dim),
            weight.new_zeros(n_sentences, self.dim),
        )


def run_layers(
    layers: Sequence[LstmLayer],
    rows: Sequence[Tensor],
    index: Sequence[Tensor | None],
    batch_sizes: Sequence[int],
    states: Sequence[LayerState],
    resets: Sequence[Tensor | None] | None = None,
) -> tuple[list[Tensor], list[LayerState]]:
    """Run the same layer of each direction, each over the tokens in its own order.

    Token n of direction d reads `rows[d][index[d][n]]`, or `rows[d][n]` without an index, so that
    the input product is computed once per distinct row. Where `resets[d][n]` is true, the
    sentence's state is reset to zero before token n.
    """
    if kernels.can_run(layers, rows):
        outputs, after = kernels.run_layers(
            layers,
            rows,
            index,
            batch_sizes,
            [(state.hidden, state.cell) for state in states],
            resets,
        )
        return outputs, [LayerState(hidden, cell) for hidden, cell in after]
    resets = resets or [None] * len(layers)
    results = [
        _run_plain(*direction, batch_sizes)
        for direction in zip(layers, rows, index, states, resets, strict=True)
    ]
    return [outputs for outputs, _ in results], [state for _, state in results]


def _run_plain(
    layer: LstmLayer,
    rows: Tensor,
    index: Tensor | None,
    state: LayerState,
    reset: Tensor | None,
    batch_sizes: Sequence[int],
) -> tuple[Tensor, LayerState]:
    """The recurrence in plain PyTorch, on any device and with gradients."""
    # Weights may be stored in lower precision than the state.
    dtype = state.cell.dtype
    from_input = linear(rows, layer.input_weight.to(dtype), layer.gate_bias)  # (U, 4H)
    recurrent, projection = layer.recurrent_weight.to(dtype), layer.projection_weight.to(dtype)
    if index is not None:
        from_input = from_input[index]  # (N, 4H)
    hidden, cell = state.hidden, state.cell
    finished: list[tuple[Tensor, Tensor]] = []
    outputs = []
    start = 0
    for n_running in batch_sizes:
        if n_running < len(hidden):
            finished.append((hidden[n_running:], cell[n_running:]))
            hidden, cell = hidden[:n_running], cell[:n_running]
        step = slice(start, start + n_running)
        if reset is not None:
            keep = reset[step].logical_not()[:, None].to(cell.dtype)
            hidden, cell = hidden * keep, cell * keep
        gates = torch.addmm(from_input[step], hidden, recurrent.T)  # (B, 4H)
        exposed, cell = _gate(gates, cell, layer.cell_clip)  # (B, H), (B, H)
        hidden = _clip(linear(exposed, projection), layer.projection_clip)  # (B, P)
        outputs.append(hidden)
        start += n_running
    finished.append((hidden, cell))
    final_hidden, final_cell = (torch.cat(part) for part in zip(*reversed(finished), strict=True))
    joined = torch.cat(outputs) if outputs else rows.new_empty(0, layer.projection_dim)
    return joined, LayerState(final_hidden, final_cell)


def _gate(gates: Tensor, cell: Tensor, cell_clip: float | None) -> tuple[Tensor, Tensor]:
    # One sigmoid over all gates (the candidate's is unused) is one GPU kernel instead of three.
    input_gate, _, forget_gate, output_gate = torch.sigmoid(gates).chunk(4, dim=-1)
    candidate = torch.tanh(gates.chunk(4, dim=-1)[1])
    cell = _clip(torch.addcmul(forget_gate * cell, input_gate, candidate), cell_clip)
    return output_gate * torch.tanh(cell), cell


def _clip(x: Tensor, limit: float | None) -> Tensor:
    return x if limit is None else x.clamp(-limit, limit)
