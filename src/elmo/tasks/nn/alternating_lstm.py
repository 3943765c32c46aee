"""LSTM layers that read a row in turns from its start and from its end, with highways around them.

In: vectors (B, T, D) and lengths (B,). Out: (B, T, H). A layer sees what the one before, which read
the other way, has made of the whole row. Each layer is one call of torch's LSTM: He et al. (2017)
have the highway inside of the cell, so that the gated sum goes on to the next token; here the LSTM
hands on its own state, and the gate is on its way to the next layer. A loop in Python over tokens
is what that costs less. Dropout is of what goes from layer to layer, the same at all tokens of a
row, and not of the recurrence.
Shapes: B rows, T tokens, D input width, H cells.
"""

import torch
from torch import Tensor, nn

from elmo.tasks.nn.encoder import drop_columns, set_start_values, take_places, turn_around


class AlternatingLstm(nn.Module):
    """Layers of LSTMs, the first one from the start."""

    def __init__(self, input_dim: int, dim: int, n_layers: int, dropout: float = 0.0) -> None:
        super().__init__()
        self.output_dim = dim
        widths = [input_dim] + [dim] * (n_layers - 1)
        self.layers = nn.ModuleList(_HighwayLstm(width, dim) for width in widths)
        self._dropout = dropout

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """(B, T, D), (B,) -> (B, T, H); where padded, anything."""
        turned = turn_around(lengths, x.shape[1])
        for layer in self.layers:
            x = drop_columns(layer(x), self._dropout, self.training)
            # The next one reads from the other side. Padding stays last, where no token sees it.
            x = take_places(x, turned)
        is_reversed = len(self.layers) % 2 == 1
        return take_places(x, turned) if is_reversed else x


class _HighwayLstm(nn.Module):
    """r * LSTM(x) + (1 - r) * W x, where the gate r reads both; W only where widths differ."""

    def __init__(self, input_dim: int, dim: int) -> None:
        super().__init__()
        self.lstm = nn.LSTM(input_dim, dim, batch_first=True)
        self.carry = nn.Linear(input_dim, dim, bias=False) if input_dim != dim else nn.Identity()
        self.gate = nn.Linear(input_dim + dim, dim)
        nn.init.ones_(self.gate.bias)
        set_start_values(self.lstm)

    def forward(self, x: Tensor) -> Tensor:
        """(B, T, D) -> (B, T, H)."""
        hidden, _ = self.lstm(x)
        gate = torch.sigmoid(self.gate(torch.cat([x, hidden], dim=-1)))
        return torch.lerp(self.carry(x), hidden, gate)
