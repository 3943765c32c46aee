"""Alignment matrices of cross-lingual models, as MUSE writes them (`best_mapping.pth`).

In: a file that holds one matrix W (D, D), a tensor or a NumPy array. Out: W; a vector x of the
layer that it was learned for becomes W x in the space of the other language.
"""

import io
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from elmo.errors import CheckpointError, ConfigError
from elmo.models.formats.sources import read_bytes
from elmo.models.model_folder import Model

# The globals of a pickled array; none of them runs code from the file. NumPy 2 renamed a module.
_RECONSTRUCT: Any = np.zeros(0).__reduce__()[0]
NUMPY: list[Any] = [
    (_RECONSTRUCT, "numpy.core.multiarray._reconstruct"),
    (_RECONSTRUCT, "numpy._core.multiarray._reconstruct"),
    np.ndarray,
    np.dtype,
    *(type(np.dtype(kind)) for kind in ("f2", "f4", "f8")),
]
MAX_BYTES = 2**30


def align(model: Model, files: Mapping[int, Path]) -> Model:
    """The model with alignment matrices from files, by layer."""
    config = model.bilm.config
    for layer in files:
        if layer not in range(config.lstm.n_layers + 1):
            raise ConfigError(f"alignment of layer {layer}, expected 0 to {config.lstm.n_layers}")
    matrices = {layer: read_alignment(path, config.output_dim) for layer, path in files.items()}
    return replace(model, alignment={**model.alignment, **matrices})


def read_alignment(path: Path, dim: int) -> NDArray[np.float32]:
    """The matrix of a file, (D, D)."""
    content = read_bytes(path, "an alignment matrix", MAX_BYTES)
    try:
        with torch.serialization.safe_globals(NUMPY):
            found = torch.load(io.BytesIO(content), map_location="cpu", weights_only=True)
        matrix = np.asarray(found, dtype=np.float32)
    except Exception as error:  # damaged pickles fail anywhere inside torch's loader
        reason = (str(error) or type(error).__name__).split("\n", maxsplit=1)[0]
        raise CheckpointError(
            f"{path}: cannot be read with torch.load(weights_only=True) ({reason}), expected a "
            "best_mapping.pth"
        ) from error
    if matrix.shape != (dim, dim):
        raise CheckpointError(f"{path}: shape {matrix.shape}, expected ({dim}, {dim})")
    if not np.isfinite(matrix).all():
        raise CheckpointError(f"{path}: the matrix contains NaN or Inf, expected finite numbers")
    return matrix
