"""Read and write the official files: `weights.hdf5`, as in bilm-tf, with its `options.json`.

In: the two files, and the vocabulary of a model that reads whole words. Out: a `Model`, bit for
bit; and the reverse. bilm_layout.py describes the content of the datasets.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import IO, Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.errors import CheckpointError
from elmo.files.hdf5 import new_hdf5
from elmo.models.formats.bilm_layout import (
    datasets,
    official_path,
    read_network,
    without_projections,
)
from elmo.models.formats.bilm_options import read_settings
from elmo.models.formats.hdf5 import find_datasets, open_hdf5, paths_in, read_arrays
from elmo.models.formats.sources import AnyPath
from elmo.models.formats.word_list import WordList
from elmo.models.model_folder import Model, assemble
from elmo.network.config import BiLMConfig
from elmo.network.softmax import Head
from elmo.text.word_encoder import Lexicon

SOFTMAX = {"weight": "softmax/W", "bias": "softmax/b"}  # our names and those in the file


def read(weights: AnyPath, options: AnyPath, vocabulary: AnyPath | None = None) -> Model:
    """Read a model from its files."""
    config, words = read_settings(options, vocabulary)
    config, state = read_weights(weights, config, str(weights))
    lexicon = Lexicon()
    if config.lexicon is not None and words is not None:
        lexicon = Lexicon(words.vocabulary)
        state["word_table.weight"] = words.reorder(state["word_table.weight"], str(weights))
    return Model(assemble(config, state, str(weights), lexicon))


def read_weights(
    source: AnyPath | IO[bytes], config: BiLMConfig, where: str
) -> tuple[BiLMConfig, dict[str, Tensor]]:
    """The state of a `BiLM` from a `weights.hdf5`, and the config that fits it."""
    with open_hdf5(source, where) as file:
        found = {official_path(path): item for path, item in find_datasets(file, where).items()}
        shapes = {path: item.shape for path, item in found.items()}

        def read(paths: Iterable[str]) -> Iterator[tuple[str, NDArray[Any]]]:
            return read_arrays({path: found[path] for path in paths}, where)

        return read_network(config, shapes, read, where)


def write_weights(path: Path, config: BiLMConfig, state: Mapping[str, Tensor]) -> None:
    if config.directions == ("backward",):
        raise CheckpointError(
            "a model with the backward direction only, expected both or forward, as in the "
            "official layout; save it as a model folder"
        )
    is_unprojected = without_projections(config, state)
    with new_hdf5(path) as file:
        for dataset in datasets(config):
            if is_unprojected and dataset.path.endswith("W_P_0"):
                continue
            parts = [state[name].detach().cpu().float().numpy() for name in dataset.names]
            file[dataset.path] = np.ascontiguousarray(dataset.write(*parts))


def write_softmax(path: Path, head: Head) -> None:
    """Write a head as an official softmax file, which `read_softmax` reads."""
    state = head.state_dict()
    with new_hdf5(path) as file:
        for name in ("weight", "bias"):
            file[SOFTMAX[name]] = state[name].detach().cpu().float().numpy()


def read_softmax(source: AnyPath, words: WordList, projection_dim: int) -> dict[str, Tensor]:
    """The state of a `FullSoftmax` from an official file with `softmax/W` and `softmax/b`."""
    paths = {path: name for name, path in SOFTMAX.items()}
    shapes = {"softmax/W": (words.n_rows, projection_dim), "softmax/b": (words.n_rows,)}
    where = str(source)
    with open_hdf5(source, where) as file:
        items = find_datasets(file, where)
        for path, shape in shapes.items():
            found = items[path].shape if path in items else "none (missing)"
            if found != shape:
                raise CheckpointError(
                    f"{where}: {path} has shape {found}, expected {shape} as the vocabulary and "
                    "the network say; give the softmax and the vocabulary of these weights"
                )
        return {
            paths[path]: words.reorder(torch.from_numpy(values), where)
            for path, values in read_arrays({path: items[path] for path in paths}, where)
        }


def has_official_layout(source: AnyPath) -> bool:
    """Whether an HDF5 file holds a network, rather than a softmax or a cache of vectors."""
    return any(path.lower().startswith(("rnn_0/", "rnn/")) for path in paths_in(source))
