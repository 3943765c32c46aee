"""The arguments of a layer's recurrence in C++: packed weights, and tokens in reading order.

Shapes as in lstm.h: N tokens, B sentences, U distinct rows, D input, H cells, P projection, and
padded for the processor's vectors: Q cells, G = 4Q interleaved gate columns.
"""

import math
from collections.abc import Sequence
from ctypes import c_int64
from dataclasses import dataclass
from typing import Protocol

import torch
from torch import Tensor, nn

from elmo.network.kernels import library
from elmo.network.kernels.library import (
    LayerStructure,
    PassStructure,
    address,
    allocate,
    allocate_packed,
)

State = tuple[Tensor, Tensor]  # hidden (B, P), cell (B, H)


class LayerParameters(Protocol):
    """The interface of a layer that the kernels can run, such as lstm.LstmLayer."""

    input_weight: nn.Parameter  # (4H, D), gates in the order input, candidate, forget, output
    recurrent_weight: nn.Parameter  # (4H, P)
    bias: nn.Parameter  # (4H,)
    projection_weight: nn.Parameter  # (P, H)
    cell_clip: float | None
    projection_clip: float | None

    @property
    def gate_bias(self) -> Tensor:
        """The bias of the gates at run time, computed from `bias`, (4H,)."""


def parameters_of(layer: LayerParameters) -> tuple[Tensor, ...]:
    """All parameters of a layer; much faster than `nn.Module.parameters`."""
    return layer.input_weight, layer.recurrent_weight, layer.bias, layer.projection_weight


@dataclass(frozen=True)
class Weights:
    """A layer's weights and clips, gate rows in the order input, candidate, forget, output."""

    input_weight: Tensor  # (4H, D)
    recurrent_weight: Tensor  # (4H, P)
    bias: Tensor  # (4H,)
    projection_weight: Tensor  # (P, H)
    cell_clip: float | None
    projection_clip: float | None

    @property
    def dtype(self) -> torch.dtype:
        """The dtype of the stored weights; activations are float32."""
        return self.recurrent_weight.dtype

    @property
    def dim(self) -> int:
        """The number of cells, H."""
        return self.projection_weight.shape[1]


@dataclass(frozen=True)
class PackedLayer:
    """The C++ structure of a layer, and the tensors that own its memory."""

    structure: LayerStructure
    held: tuple[Tensor, ...]


@dataclass(frozen=True)
class PackedOrder:
    """The order in which one direction reads its rows."""

    batch_sizes: Tensor  # (T,)
    n_tokens: int  # N, the sum of the batch sizes
    index: Tensor | None  # (N,)
    resets: Tensor | None  # (N,)

    def make_pass(
        self, packed: PackedLayer, rows: Tensor, n_sentences: int, **tensors: Tensor
    ) -> PassStructure:
        """Build the C++ structure of one direction; tensors are named as in lstm.h."""
        return PassStructure(
            layer=packed.structure,
            n_steps=self.batch_sizes.shape[0],
            n_sentences=n_sentences,
            n_rows=rows.shape[0],
            batch_sizes=address(self.batch_sizes, torch.int64),
            index=address(self.index, torch.int64),
            resets=address(self.resets, torch.bool),
            rows=address(rows),
            **{name: address(tensor) for name, tensor in tensors.items()},
        )


# The order of elmo_packed_sizes.
FORWARD_PARTS = ("input", "recurrent", "projection")
BACKWARD_PARTS = ("recurrent_transposed", "projection_transposed")
WEIGHTS = ("input_weight", "recurrent_weight", "projection_weight")


def pack_weights(
    weights: Sequence[Weights], parts: Sequence[str], dtype: torch.dtype | None = None
) -> list[PackedLayer]:
    """Pack the named parts of each layer's weights for the matrix products, in `dtype`.

    The default is the weights' own dtype.
    """
    packed = []
    plain = []  # kept alive until they are packed
    for weight in weights:
        tensors = [
            tensor.detach().float().contiguous()
            for tensor in (
                weight.input_weight,
                weight.recurrent_weight,
                weight.bias,
                weight.projection_weight,
            )
        ]
        structure = LayerStructure(
            weight.input_weight.shape[1],
            weight.dim,
            weight.projection_weight.shape[0],
            math.inf if weight.cell_clip is None else weight.cell_clip,
            math.inf if weight.projection_clip is None else weight.projection_clip,
            *map(address, tensors),
        )
        held = [tensors[2]]  # the bias is not packed
        sizes = (c_int64 * 5)()
        library.opened().elmo_packed_sizes(structure, sizes)
        for name, size in zip((*FORWARD_PARTS, *BACKWARD_PARTS), sizes, strict=True):
            if name in parts:
                part, room = allocate_packed(size, dtype or weight.dtype)
                setattr(structure, name, part)
                held.append(room)
        plain.append(tensors)
        packed.append(PackedLayer(structure, tuple(held)))
    library.call("pack", [each.structure for each in packed])
    for each in packed:
        for name in WEIGHTS:
            setattr(each.structure, name, None)
    return packed


def unpack_weights(packed: PackedLayer) -> dict[str, Tensor]:
    """Restore the weights, by name, from a layer that was packed for inference."""
    structure = LayerStructure.from_buffer_copy(packed.structure)
    dim, projection_dim = structure.dim, structure.projection_dim
    shapes = ((4 * dim, structure.input_dim), (4 * dim, projection_dim), (projection_dim, dim))
    found = {name: allocate(*shape) for name, shape in zip(WEIGHTS, shapes, strict=True)}
    for name, tensor in found.items():
        setattr(structure, name, address(tensor))
    library.call("unpack", [structure])
    dtype = library.FORMATS[structure.input.format]
    return {name: tensor.to(dtype) for name, tensor in found.items()}


def interleave(weight: Tensor) -> Tensor:
    """Gate rows (4H, K) in the order of the kernels' gate columns (G, K), zeros where padded."""
    dim, depth = len(weight) // 4, weight.shape[1]
    padded = torch.nn.functional.pad(weight.view(4, dim, depth), (0, 0, 0, pad_dim(dim) - dim))
    return padded.view(4, -1, library.lanes(), depth).transpose(0, 1).reshape(-1, depth)


def deinterleave(columns: Tensor, dim: int) -> Tensor:
    """The inverse of `interleave`, and transposed: gate columns (K, G) to gate rows (4H, K)."""
    depth = len(columns)
    by_gate = columns.view(depth, -1, 4, library.lanes()).permute(2, 1, 3, 0).reshape(4, -1, depth)
    return by_gate[:, :dim].reshape(-1, depth)


def pad_dim(dim: int) -> int:
    """H rounded up to whole SIMD vectors: Q."""
    return dim + -dim % library.lanes()
