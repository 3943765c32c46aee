"""A bidirectional LSTM over padded rows, blind to the padding; dropout that spares its memory.

In: vectors (B, T, D) and lengths (B,). Out: (B, T, 2H), zero where padded.
"""

import torch
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class BiLstm(nn.Module):
    """Layers of LSTMs that read a row both ways."""

    def __init__(self, input_dim: int, dim: int, n_layers: int = 1, dropout: float = 0.0) -> None:
        """Build it; dropout is of what goes from layer to layer."""
        super().__init__()
        self.output_dim = 2 * dim
        self.lstm = nn.LSTM(
            input_dim,
            dim,
            n_layers,
            batch_first=True,
            bidirectional=True,
            dropout=dropout if n_layers > 1 else 0.0,
        )
        set_start_values(self.lstm)

    def forward(self, x: Tensor, lengths: Tensor) -> Tensor:
        """(B, T, D), (B,) -> (B, T, 2H)."""
        packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
        hidden, _ = self.lstm(packed)
        padded, _ = pad_packed_sequence(hidden, batch_first=True, total_length=x.shape[1])
        return torch.as_tensor(padded)


def set_start_values(lstm: nn.LSTM) -> None:
    """Orthogonal gates in the recurrence, and forget gates that are open at first."""
    for name, parameter in lstm.named_parameters():
        if name.startswith("weight_hh"):
            for gate in parameter.data.chunk(4):
                nn.init.orthogonal_(gate)
        elif name.startswith("weight_ih"):
            nn.init.xavier_uniform_(parameter)
        else:
            nn.init.zeros_(parameter)
            if name.startswith("bias_ih"):
                parameter.data[lstm.hidden_size : 2 * lstm.hidden_size] = 1


def drop_columns(x: Tensor, rate: float, is_training: bool) -> Tensor:
    """Dropout of whole columns of a row: (B, T, D), the same columns at all its tokens."""
    if not is_training or rate == 0:
        return x
    kept = torch.empty(x.shape[0], 1, x.shape[2], device=x.device).bernoulli_(1 - rate)
    return x * kept / (1 - rate)
