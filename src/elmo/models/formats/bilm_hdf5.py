"""The official files, both ways: `weights.hdf5` as bilm-tf writes it, with its `options.json`.

In: the two files, and the vocabulary of a model that reads words by a list. Out: a `Model`, bit for
bit; and back. What the datasets hold is said in bilm_layout.py.
"""

import io
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import IO

import h5py
import numpy as np
import torch
from torch import Tensor

from elmo.errors import CheckpointError
from elmo.models.formats.bilm_layout import Dataset, datasets, official_path
from elmo.models.formats.bilm_options import read_settings
from elmo.models.model_folder import Model, assemble
from elmo.network.config import BiLMConfig

ENDINGS = (".hdf5", ".h5")

# Datasets that may stand beside the network's own: the output words, a cache of token vectors.
OTHER_GROUPS = ("softmax", "embedding")
# What h5py raises, as it goes, where a file's bytes are not what they should be.
BROKEN_FILE = (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError)


def read(
    weights: Path | zipfile.Path,
    options: Path | zipfile.Path,
    vocabulary: Path | None = None,
) -> Model:
    """Open a model from its files, or from members of an archive."""
    config, lexicon = read_settings(options, vocabulary)
    source = weights if isinstance(weights, Path) else io.BytesIO(weights.read_bytes())
    state = read_weights(source, config, str(weights))
    return Model(assemble(config, state, str(weights), lexicon))


def read_weights(source: Path | IO[bytes], config: BiLMConfig, where: str) -> dict[str, Tensor]:
    """The state of a `BiLM` with this config from a `weights.hdf5`."""
    state: dict[str, Tensor] = {}
    with open_hdf5(source, where) as file:
        expected = {dataset.path: dataset for dataset in datasets(config)}
        found = _find_datasets(file)
        check_layout({path: item.shape for path, item in found.items()}, expected, where)
        for path, dataset in expected.items():
            values = np.asarray(found[path], dtype=np.float32)
            for name, part in zip(dataset.names, dataset.read(values), strict=True):
                state[name] = torch.from_numpy(np.ascontiguousarray(part))
    return state


def write_weights(path: Path, config: BiLMConfig, state: Mapping[str, Tensor]) -> None:
    """Write a `weights.hdf5`."""
    if config.directions == ("backward",):
        raise CheckpointError(
            "a model with the backward direction alone, expected both or forward: the official "
            "layout has no place for it; keep it in a model folder"
        )
    with h5py.File(path, "w") as file:
        for dataset in datasets(config):
            parts = [state[name].detach().cpu().float().numpy() for name in dataset.names]
            file[dataset.path] = np.ascontiguousarray(dataset.write(*parts))


def read_softmax(source: Path, n_words: int, projection_dim: int) -> dict[str, Tensor]:
    """The state of a `FullSoftmax` from an official file with `softmax/W` and `softmax/b`."""
    expected = {
        "weight": ("softmax/W", (n_words, projection_dim)),
        "bias": ("softmax/b", (n_words,)),
    }
    state: dict[str, Tensor] = {}
    with open_hdf5(source, str(source)) as file:
        for name, (path, shape) in expected.items():
            item = file.get(path)
            found = item.shape if isinstance(item, h5py.Dataset) else "none (missing)"
            if found != shape:
                raise CheckpointError(
                    f"{source}: {path} has shape {found}, expected {shape} as the vocabulary and "
                    "the network say; give the softmax and the vocabulary of these weights"
                )
            state[name] = torch.from_numpy(np.asarray(item, dtype=np.float32))
    return state


@contextmanager
def open_hdf5(source: Path | IO[bytes], where: str) -> Iterator[h5py.File]:
    """An HDF5 file for reading; what breaks while it is read is told as a broken file."""
    if isinstance(source, Path) and not source.is_file():
        raise CheckpointError(f"{where}: no such file; name the weights.hdf5 of an ELMo model")
    try:
        with h5py.File(source, "r") as file:
            yield file
    except BROKEN_FILE as error:
        what = " ".join(str(error).split())
        raise CheckpointError(
            f"{where}: not a whole HDF5 file ({what}); expected the weights of an ELMo model; "
            "fetch or copy it again"
        ) from error


def has_official_layout(source: Path) -> bool:
    """Whether an HDF5 file holds a network, not a cache of vectors or an output of one."""
    try:
        with h5py.File(source, "r") as file:
            return "RNN_0" in file or "rnn" in file
    except BROKEN_FILE:
        return False


def _find_datasets(file: h5py.File) -> dict[str, h5py.Dataset]:
    """All datasets of a file by their official paths."""
    found: dict[str, h5py.Dataset] = {}

    def note(path: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            found[official_path(path)] = item

    file.visititems(note)
    return found


def check_layout(
    found: Mapping[str, tuple[int, ...]], expected: Mapping[str, Dataset], where: str
) -> None:
    """Refuse weights that are not those of a config; all that differs is told."""
    problems = [
        f"{path} is missing, expected shape {dataset.shape}"
        if path not in found
        else f"{path} has shape {found[path]}, expected {dataset.shape}"
        for path, dataset in expected.items()
        if found.get(path) != dataset.shape
    ]
    problems += [
        f"{path} has shape {shape}, expected no such tensor with these options"
        for path, shape in found.items()
        if path not in expected and not path.startswith(OTHER_GROUPS)
    ]
    if problems:
        more = f" (and {len(problems) - 3} more)" if len(problems) > 3 else ""
        raise CheckpointError(
            f"{where}: {'; '.join(problems[:3])}{more}; give the options.json of these weights"
        )
