"""The official files, both ways: `options.json` and `weights.hdf5`, as bilm-tf writes them.

In: the two files. Out: a config and the state of a `BiLM`, bit for bit; and back. The foreign
conventions (a table without its first row, input and recurrent weights in one matrix, all of it
transposed, a transform gate named "carry") are undone here and nowhere else.
"""

import io
import json
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import h5py
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.chars import N_CHARACTERS
from elmo.checkpoint import Model, assemble
from elmo.config import BiLMConfig, CharCnnConfig, Direction, LstmConfig, from_mapping, nearest
from elmo.errors import CheckpointError, ConfigError

Array = NDArray[Any]

ENDINGS = (".hdf5", ".h5")

# Settings of a group in options.json and ours. The file counts its characters with or without the
# row for "no character"; nobody needs that number.
LSTM_NAMES = {
    "dim": "dim",
    "projection_dim": "projection_dim",
    "n_layers": "n_layers",
    "cell_clip": "cell_clip",
    "proj_clip": "projection_clip",
    "use_skip_connections": "has_skip_connections",
}
CHAR_CNN_NAMES = {
    "filters": "filters",
    "n_highway": "n_highways",
    "activation": "activation",
    "max_characters_per_token": "max_characters",
    "embedding": "char_dim",
    "n_characters": None,
    "max_characters": None,
}
# Datasets that may stand beside the network's own: the output words, a cache of token vectors.
OTHER_GROUPS = ("softmax", "embedding")
# What h5py raises, as it goes, where a file's bytes are not what they should be.
BROKEN_FILE = (OSError, RuntimeError, KeyError, ValueError, TypeError, OverflowError)


@dataclass(frozen=True)
class Dataset:
    """One dataset of the file, and the tensors of ours that it holds."""

    path: str
    shape: tuple[int, ...]
    names: tuple[str, ...]
    read: Callable[[Array], tuple[Array, ...]]
    write: Callable[..., Array]


def read(weights: Path | zipfile.Path, options: Path | zipfile.Path) -> Model:
    """Open a model from its two files, or from members of an archive."""
    try:
        text = options.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(
            f"{options}: cannot be read ({error}), expected the model's options.json; name that "
            "file"
        ) from error
    config = read_options(text, str(options))
    source = weights if isinstance(weights, Path) else io.BytesIO(weights.read_bytes())
    return Model(assemble(config, read_weights(source, config, str(weights)), str(weights)))


def read_options(text: str, where: str) -> BiLMConfig:
    """The config that an `options.json` describes."""
    try:
        options = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"{where}: not JSON ({error}), expected the model's options.json; name that file"
        ) from error
    if not isinstance(options, dict) or not isinstance(options.get("lstm"), dict):
        raise ConfigError(
            f"{where}: no group 'lstm', expected the options.json of an ELMo model; name that file"
        )
    if not isinstance(options.get("char_cnn"), dict):
        raise ConfigError(
            f"{where}: no group 'char_cnn', expected a model that reads characters; use another one"
        )
    char_cnn = _rename(options["char_cnn"], CHAR_CNN_NAMES, f"{where}: char_cnn")
    char_cnn["char_dim"] = _char_dim(char_cnn.get("char_dim"), where)
    char_cnn.setdefault("n_highways", 0)
    lstm = _rename(options["lstm"], LSTM_NAMES, f"{where}: lstm")
    lstm.setdefault("n_layers", 1)
    lstm.setdefault("has_skip_connections", False)
    for clip in ("cell_clip", "projection_clip"):
        lstm[clip] = lstm.get(clip) or None  # zero is how the originals write "none"
    return BiLMConfig(
        char_cnn=from_mapping(CharCnnConfig, char_cnn, f"{where}: char_cnn"),
        lstm=from_mapping(LstmConfig, lstm, f"{where}: lstm"),
        directions=("forward", "backward") if options.get("bidirectional", True) else ("forward",),
    )


def write_options(config: BiLMConfig) -> str:
    """The `options.json` of a config."""
    lstm, char_cnn = config.lstm, _char_cnn(config)
    options = {
        "bidirectional": len(config.directions) == 2,
        "lstm": {theirs: getattr(lstm, ours) for theirs, ours in LSTM_NAMES.items()},
        "char_cnn": {
            "activation": char_cnn.activation,
            "embedding": {"dim": char_cnn.char_dim},
            "filters": [list(pair) for pair in char_cnn.filters],
            "max_characters_per_token": char_cnn.max_characters,
            "n_characters": N_CHARACTERS,  # what AllenNLP and bilm-tf want when they read
            "n_highway": char_cnn.n_highways,
        },
    }
    return json.dumps(options, indent=2) + "\n"


def read_weights(source: Path | IO[bytes], config: BiLMConfig, where: str) -> dict[str, Tensor]:
    """The state of a `BiLM` with this config from a `weights.hdf5`."""
    state: dict[str, Tensor] = {}
    with open_hdf5(source, where) as file:
        expected = {dataset.path: dataset for dataset in datasets(config)}
        _check_layout(file, expected, where)
        for dataset in expected.values():
            values = np.asarray(file[dataset.path], dtype=np.float32)
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


def datasets(config: BiLMConfig) -> Iterator[Dataset]:
    """Every dataset that a model with this config has."""
    cnn, lstm = _char_cnn(config), config.lstm
    width = cnn.n_filters
    # Row 0 of our table, "no character", is zero and not in the file.
    yield Dataset(
        "char_embed",
        (N_CHARACTERS - 1, cnn.char_dim),
        ("char_cnn.char_vectors.weight",),
        lambda table: (np.pad(table, ((1, 0), (0, 0))),),
        lambda table: table[1:],
    )
    for i, (span, number) in enumerate(cnn.filters):
        name = f"char_cnn.convolutions.{i}"
        yield Dataset(
            f"CNN/W_cnn_{i}",
            (1, span, cnn.char_dim, number),
            (f"{name}.weight",),
            lambda kernel: (kernel[0].transpose(2, 1, 0),),
            lambda kernel: kernel.transpose(2, 1, 0)[None],
        )
        yield _same(f"CNN/b_cnn_{i}", (number,), f"{name}.bias")
    for i in range(cnn.n_highways):
        # The file's "carry" is the gate that lets the transformed input through.
        for theirs, ours in (("carry", "gate"), ("transform", "transform")):
            name = f"char_cnn.highways.{i}.{ours}"
            yield _transposed(f"CNN_high_{i}/W_{theirs}", (width, width), f"{name}.weight")
            yield _same(f"CNN_high_{i}/b_{theirs}", (width,), f"{name}.bias")
    if width != lstm.projection_dim:
        shape = (width, lstm.projection_dim)
        yield _transposed("CNN_proj/W_proj", shape, "char_cnn.projection.weight")
        yield _same("CNN_proj/b_proj", shape[1:], "char_cnn.projection.bias")
    for r, direction in enumerate(config.directions):
        for depth in range(lstm.n_layers):
            yield from _cell(r, direction, depth, lstm)


def _cell(r: int, direction: Direction, depth: int, lstm: LstmConfig) -> Iterator[Dataset]:
    cell = f"RNN_{r}/RNN/MultiRNNCell/Cell{depth}/LSTMCell"
    layer = f"stacks.{direction}_layers.{depth}"
    n_inputs = lstm.projection_dim
    yield Dataset(
        f"{cell}/W_0",
        (2 * n_inputs, 4 * lstm.dim),
        (f"{layer}.input_weight", f"{layer}.recurrent_weight"),
        lambda both: (both[:n_inputs].T, both[n_inputs:].T),
        lambda from_input, recurrent: np.concatenate([from_input.T, recurrent.T]),
    )
    yield _same(f"{cell}/B", (4 * lstm.dim,), f"{layer}.bias")
    yield _transposed(f"{cell}/W_P_0", (lstm.dim, n_inputs), f"{layer}.projection_weight")


def _same(path: str, shape: tuple[int, ...], name: str) -> Dataset:
    return Dataset(path, shape, (name,), lambda values: (values,), lambda values: values)


def _transposed(path: str, shape: tuple[int, ...], name: str) -> Dataset:
    return Dataset(path, shape, (name,), lambda values: (values.T,), lambda values: values.T)


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
            return "char_embed" in file and "RNN_0" in file
    except BROKEN_FILE:
        return False


def _check_layout(file: h5py.File, expected: dict[str, Dataset], where: str) -> None:
    found: dict[str, tuple[int, ...]] = {}

    def note(path: str, item: object) -> None:
        if isinstance(item, h5py.Dataset):
            found[path] = item.shape

    file.visititems(note)
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


def _rename(group: dict[str, Any], names: Mapping[str, str | None], where: str) -> dict[str, Any]:
    for key in group:
        if key not in names:
            raise ConfigError(
                f"{where}: unknown key {key!r}{nearest(key, names)}; correct or remove it"
            )
    renamed = {names[key]: value for key, value in group.items()}
    renamed.pop(None, None)
    return {str(key): value for key, value in renamed.items()}


def _char_cnn(config: BiLMConfig) -> CharCnnConfig:
    if config.char_cnn is None or config.lexicon is not None:
        raise CheckpointError(
            "a model that reads words by lists of its own, expected one that reads bytes alone, as "
            "the official layout does; keep it in a folder of ours"
        )
    return config.char_cnn


def _char_dim(embedding: Any, where: str) -> Any:  # noqa: ANN401 - checked by the config
    if not isinstance(embedding, dict) or "dim" not in embedding:
        raise ConfigError(
            f"{where}: char_cnn.embedding is {embedding!r}, expected {{'dim': N}}; correct it"
        )
    return embedding["dim"]
