"""Read untrusted PyTorch files as tensors only, and convert the layout of AllenNLP's layers.

In: a file that `torch.save` wrote. Out: its tensors, and from these the state of our layers.
AllenNLP's conventions, which ELMoForManyLangs shares (another order of gates, a forget bias that is
stored, a highway gate that carries the input), are converted in this module only.
"""

import io
import zipfile
from collections.abc import Iterator, Mapping

import torch
from torch import Tensor

from elmo.errors import CheckpointError
from elmo.models.formats.archives import FREE_BYTES, MAX_EXPANSION
from elmo.models.formats.sources import AnyPath, read_bytes
from elmo.network.config import CharCnnConfig, LstmConfig
from elmo.network.lstm import FORGET_BIAS

WHAT = "a whole file of tensors that torch.save wrote"


class TorchFile:
    """The tensors of a file; each is taken once, so that unused ones are detected."""

    def __init__(self, path: AnyPath) -> None:
        self.path = path
        content = read_bytes(path, WHAT)
        _check_size(content, path)
        try:
            # Only tensors and plain containers: a pickle could otherwise run arbitrary code.
            found = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        except Exception as error:  # damaged pickles fail anywhere inside torch's loader
            reason = (str(error) or type(error).__name__).split("\n", maxsplit=1)[0]
            raise CheckpointError(
                f"{path}: cannot be read with torch.load(weights_only=True) ({reason}), expected "
                f"{WHAT}; download it again from a source that you trust"
            ) from error
        self._tensors = dict(found) if isinstance(found, Mapping) else {}

    @property
    def names(self) -> list[str]:
        """The names of the tensors that have not been taken."""
        return [name for name in self._tensors if isinstance(name, str)]

    def shape(self, name: str) -> tuple[int, ...]:
        return tuple(self._check(name).shape)

    def take(self, name: str) -> Tensor:
        found = self._check(name)
        del self._tensors[name]
        return found

    def finish(self) -> None:
        """Raise a CheckpointError if any tensor has not been taken."""
        if self._tensors:
            raise CheckpointError(
                f"{self.path}: tensor {next(iter(self._tensors))}, expected no such tensor by the "
                "configuration; give the configuration of these weights"
            )

    def _check(self, name: str) -> Tensor:
        found = self._tensors.get(name)
        if not isinstance(found, Tensor) or found.layout != torch.strided:
            raise CheckpointError(
                f"{self.path}: no tensor {name}, expected one as the configuration says; give the "
                "configuration of these weights"
            )
        is_stored = found.numel() * found.element_size() <= found.untyped_storage().nbytes()
        if not found.is_floating_point() or not is_stored:
            raise CheckpointError(
                f"{self.path}: tensor {name} has type {found.dtype} and shape "
                f"{tuple(found.shape)}, expected floats and a storage that holds all values"
            )
        return found


def read_lstms(source: TorchFile, prefix: str, lstm: LstmConfig) -> dict[str, Tensor]:
    """The state of the LSTM layers of both directions."""
    state: dict[str, Tensor] = {}
    for direction in ("forward", "backward"):
        for depth in range(lstm.n_layers):
            theirs = f"{prefix}{direction}_layer_{depth}"
            ours = f"stacks.{direction}_layers.{depth}"
            bias = _reorder_gates(source.take(f"{theirs}.state_linearity.bias")).clone()
            if bias.ndim:  # their forget bias is stored, ours is added at run time
                bias[2 * lstm.dim : 3 * lstm.dim] -= FORGET_BIAS
            state |= {
                f"{ours}.input_weight": _reorder_gates(
                    source.take(f"{theirs}.input_linearity.weight")
                ),
                f"{ours}.recurrent_weight": _reorder_gates(
                    source.take(f"{theirs}.state_linearity.weight")
                ),
                f"{ours}.bias": bias,
                f"{ours}.projection_weight": source.take(f"{theirs}.state_projection.weight"),
            }
    return state


def read_convolutions(
    source: TorchFile, cnn: CharCnnConfig, convolution: str, highways: str
) -> Iterator[tuple[str, Tensor]]:
    """The state of a char CNN's filters and highways; `convolution` is a format string."""
    for k in range(len(cnn.filters)):
        for part in ("weight", "bias"):
            yield (
                f"char_cnn.convolutions.{k}.{part}",
                source.take(f"{convolution.format(k)}.{part}"),
            )
    for k in range(cnn.n_highways):
        for part in ("weight", "bias"):
            name = f"{highways}._layers.{k}.{part}"
            both = source.take(name)
            if not both.ndim or len(both) % 2:
                raise CheckpointError(
                    f"{source.path}: tensor {name} has shape {tuple(both.shape)}, expected an even "
                    "number of rows"
                )
            transform, carry = both.chunk(2)
            yield f"char_cnn.highways.{k}.transform.{part}", transform
            # Their gate scales the input, ours the transformed input.
            yield f"char_cnn.highways.{k}.gate.{part}", -carry


def _reorder_gates(weight: Tensor) -> Tensor:
    """From their order (input, forget, candidate, output) to ours, with the candidate second."""
    if not weight.ndim or len(weight) % 4:
        return weight  # of a wrong shape, which is reported when all shapes are compared
    entering, forgetting, candidate, leaving = weight.chunk(4)
    return torch.cat([entering, candidate, forgetting, leaving])


def _check_size(content: bytes, path: AnyPath) -> None:
    """Reject a zip file, PyTorch's current format, that unpacks to far more than its size."""
    if not zipfile.is_zipfile(io.BytesIO(content)):
        return
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            n_bytes = sum(item.file_size for item in archive.infolist())
    except (zipfile.BadZipFile, OSError, ValueError, RuntimeError, NotImplementedError) as error:
        raise CheckpointError(f"{path}: a broken archive ({error}), expected {WHAT}") from error
    if n_bytes > FREE_BYTES + MAX_EXPANSION * len(content):
        raise CheckpointError(
            f"{path}: {n_bytes:,} bytes from {len(content):,} stored, expected {WHAT}; do not "
            "trust it"
        )
