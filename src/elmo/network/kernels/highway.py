"""A highway layer without gradients, over weights packed once per layer.

In: rows (U, F). Out: rows (U, F). Torch packs the weights for every product, which for the few
words of one sentence takes longer than the arithmetic.
"""

from collections.abc import Sequence

import torch
from torch import Tensor, nn

from elmo.network.kernels import library
from elmo.network.kernels.library import HighwayStructure, address, allocate_packed
from elmo.network.kernels.packed_weight_cache import PackedWeightCache

# Rows a little more than a power of two apart do not compete for the same cache set.
GAP = 16

_packed: PackedWeightCache[tuple[HighwayStructure, list[Tensor]]] = PackedWeightCache()


def run_highway(transform: nn.Linear, gate: nn.Linear, rows: Tensor) -> Tensor:
    """A mixture of the rows and of their rectified transform, as the gate says."""
    n_rows, dim = rows.shape
    for linear in (transform, gate):
        if linear.weight.shape != (dim, dim) or linear.bias.shape != (dim,):
            raise ValueError(f"a weight of {tuple(linear.weight.shape)}, expected {(dim, dim)}")
    parameters = [transform.weight, transform.bias, gate.weight, gate.bias]
    packed, _ = _packed.get(transform, parameters, lambda: _pack(dim, parameters))
    spaced = torch.empty(n_rows, dim + GAP)
    spaced[:, :dim] = rows
    out = torch.empty(n_rows, dim)
    highway = HighwayStructure.from_buffer_copy(packed)
    highway.n_rows, highway.row_stride = spaced.shape
    highway.rows, highway.out = address(spaced), address(out)
    library.call("run_highway", [highway])
    return out


def _pack(dim: int, parameters: Sequence[Tensor]) -> tuple[HighwayStructure, list[Tensor]]:
    """What the C++ side reads, and the tensors that hold it."""
    held = [each.detach().float().contiguous() for each in parameters]
    highway = HighwayStructure(dim=dim)
    for name, tensor in zip(("weight", "bias", "gate_weight", "gate_bias"), held, strict=True):
        setattr(highway, name, address(tensor))
    size = library.opened().elmo_packed_highway_size(highway)
    highway.packed, buffer = allocate_packed(size, parameters[0].dtype)
    held.append(buffer)
    library.call("pack_highway", [highway])
    return highway, held
