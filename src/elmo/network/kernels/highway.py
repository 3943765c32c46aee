"""A highway layer without gradients, over weights packed once per layer.

In: rows (U, F). Out: rows (U, F). Torch packs the weights for every product, which for the few
words of one sentence takes longer than the arithmetic.
"""

import functools
from collections.abc import Sequence

from torch import Tensor, nn

from elmo.network.kernels import library
from elmo.network.kernels.library import HighwayStructure, address, allocate, allocate_packed
from elmo.network.kernels.packed_parameters import PackedParameters, packed_of
from elmo.network.kernels.packed_weight_cache import PackedWeightCache

# Rows a little more than a power of two apart do not compete for the same cache set.
GAP = 16

PackedHighway = tuple[HighwayStructure, list[Tensor]]  # and the tensors that own its memory

_packed: PackedWeightCache[PackedHighway] = PackedWeightCache()


def run_highway(transform: nn.Linear, gate: nn.Linear, rows: Tensor) -> Tensor:
    """A gated mixture of the rows and their rectified transform."""
    n_rows, dim = rows.shape
    packed, _ = packed_highway(transform, gate)
    if packed.dim != dim:
        raise ValueError(f"weights of {(packed.dim, packed.dim)}, expected {(dim, dim)}")
    spaced = allocate(n_rows, dim + GAP)
    spaced[:, :dim] = rows
    out = allocate(n_rows, dim)
    highway = HighwayStructure.from_buffer_copy(packed)
    highway.n_rows, highway.row_stride = spaced.shape
    highway.rows, highway.out = address(spaced), address(out)
    library.call("run_highway", [highway])
    return out


def packed_highway(transform: nn.Linear, gate: nn.Linear) -> PackedHighway:
    """The packed weights of a highway layer, repacked if they have changed."""
    held: PackedHighway | None = packed_of(transform)
    if held is not None and packed_of(gate) is held:
        return held
    dim = transform.in_features
    for linear in (transform, gate):
        if linear.weight.shape != (dim, dim) or linear.bias.shape != (dim,):
            raise ValueError(f"a weight of {tuple(linear.weight.shape)}, expected {(dim, dim)}")
    parameters = [transform.weight, transform.bias, gate.weight, gate.bias]
    return _packed.get(transform, parameters, lambda: _pack(dim, parameters))


def hold_packed_highway(transform: nn.Linear, gate: nn.Linear) -> None:
    """Let both layers hold their weights packed until a parameter is accessed."""
    packed = packed_highway(transform, gate)
    for name, linear in (("weight", transform), ("gate_weight", gate)):
        unpack = functools.partial(_unpack, packed, name)
        parameters = PackedParameters(linear._parameters, packed, unpack)
        parameters.release(("weight",))
        linear.__dict__["_parameters"] = parameters


def _pack(dim: int, parameters: Sequence[Tensor]) -> PackedHighway:
    plain = [each.detach().float().contiguous() for each in parameters]
    highway = HighwayStructure(dim=dim)
    for name, tensor in zip(("weight", "bias", "gate_weight", "gate_bias"), plain, strict=True):
        setattr(highway, name, address(tensor))
    size = library.opened().elmo_packed_highway_size(highway)
    highway.packed, buffer = allocate_packed(size, parameters[0].dtype)
    library.call("pack_highway", [highway])
    highway.weight = highway.gate_weight = None
    return highway, [plain[1], plain[3], buffer]


def _unpack(packed: PackedHighway, which: str) -> dict[str, Tensor]:
    """Unpack one of the two weights, as the `weight` of its layer."""
    highway = HighwayStructure.from_buffer_copy(packed[0])
    found = {name: allocate(highway.dim, highway.dim) for name in ("weight", "gate_weight")}
    for name, tensor in found.items():
        setattr(highway, name, address(tensor))
    library.call("unpack_highway", [highway])
    return {"weight": found[which].to(library.FORMATS[highway.packed.format])}
