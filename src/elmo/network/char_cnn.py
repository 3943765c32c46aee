"""The character CNN: from the characters of a word to its token vector.

In: `char_ids` (U, C). Out: token vectors (U, P). Convolutions of several widths over character
embeddings, max-pooling over positions, highway layers, and a projection.
Shapes: U words, C characters, E width of a character embedding, F filters, P projection.
"""

import math
from collections.abc import Sequence

import torch
from torch import Tensor, nn
from torch.nn.functional import linear

from elmo.network import kernels
from elmo.text.characters import N_CHARACTERS, NO_CHARACTER

ACTIVATIONS = {"relu": torch.relu, "tanh": torch.tanh}


class Highway(nn.Module):
    """A highway layer: a gated sum of a transformed input and the input."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.gate = nn.Linear(dim, dim)
        self.transform = nn.Linear(dim, dim)

    def forward(self, x: Tensor) -> Tensor:
        """(U, F) -> (U, F)."""
        if kernels.can_run_highway(self.transform, self.gate, x):
            return kernels.run_highway(self.transform, self.gate, x)
        # Weights may be stored in lower precision than the input, and autocast returns lower
        # precision.
        gate = linear(x, self.gate.weight.to(x.dtype), self.gate.bias).to(x.dtype)
        transform = linear(x, self.transform.weight.to(x.dtype), self.transform.bias).to(x.dtype)
        return torch.lerp(x, torch.relu(transform), torch.sigmoid(gate))


class CharCNN(nn.Module):
    """Character convolutions with max-pooling, highway layers and a projection."""

    def __init__(
        self,
        *,
        char_dim: int,
        filters: Sequence[tuple[int, int]],
        n_highways: int,
        activation: str,
        output_dim: int | None,
        n_characters: int = N_CHARACTERS,
    ) -> None:
        """Build the layers; without `output_dim` there is no projection."""
        super().__init__()
        n_filters = sum(number for _, number in filters)
        self.activation = activation
        self.widest_filter = max(width for width, _ in filters)
        self.char_vectors = nn.Embedding(
            n_characters,
            char_dim,
            padding_idx=NO_CHARACTER,
            _weight=torch.empty(n_characters, char_dim),
        )
        self.convolutions = nn.ModuleList(
            nn.Conv1d(char_dim, number, width) for width, number in filters
        )
        self.highways = nn.ModuleList(Highway(n_filters) for _ in range(n_highways))
        # Like the original, no projection if it would not change the width.
        self.projection = (
            None if output_dim in (None, n_filters) else nn.Linear(n_filters, output_dim)
        )
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Initialize as the original training code does."""
        if self.char_vectors.weight.is_meta:
            return  # filled from a file later; torch would import its compiler for a meta tensor
        with torch.no_grad():
            self.char_vectors.weight.uniform_(-1, 1)
            self.char_vectors.weight[NO_CHARACTER] = 0
            for convolution in self.convolutions:
                assert isinstance(convolution, nn.Conv1d)
                if self.activation == "relu":
                    convolution.weight.uniform_(-0.05, 0.05)
                else:
                    convolution.weight.normal_(0, 1 / math.sqrt(convolution.weight[0].numel()))
                nn.init.zeros_(_bias(convolution))
            for highway in self.highways:
                assert isinstance(highway, Highway)
                _reset_linear(highway.transform)
                _reset_linear(highway.gate)
                # The gate starts closed: the input passes through.
                highway.gate.bias.fill_(-2)
            if self.projection is not None:
                _reset_linear(self.projection)

    def forward(self, char_ids: Tensor) -> Tensor:
        """(U, C) -> (U, P)."""
        x = ACTIVATIONS[self.activation](self._conv_max_pool(char_ids))  # (U, F)
        for highway in self.highways:
            x = highway(x)
        return x if self.projection is None else self.projection(x)  # (U, P)

    def _conv_max_pool(self, char_ids: Tensor) -> Tensor:
        """The maximum of each filter over all positions: (U, C) -> (U, F)."""
        vectors = self.char_vectors.weight
        if kernels.can_conv_max_pool(char_ids, vectors):
            parameters = list(self.convolutions.parameters())  # weight, bias, weight, bias, ...
            filters = list(zip(parameters[::2], parameters[1::2], strict=True))
            return kernels.conv_max_pool(char_ids, vectors, filters, NO_CHARACTER)
        characters = self.char_vectors(char_ids).transpose(1, 2)  # (U, E, C)
        pooled = [convolution(characters).amax(-1) for convolution in self.convolutions]
        return torch.cat(pooled, dim=-1)  # (U, F)


def _reset_linear(linear: nn.Linear) -> None:
    linear.weight.normal_(0, 1 / math.sqrt(linear.in_features))
    nn.init.zeros_(linear.bias)


def _bias(convolution: nn.Conv1d) -> Tensor:
    assert convolution.bias is not None
    return convolution.bias
