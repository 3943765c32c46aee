"""The layout of the originals' weights: which of their datasets hold which tensors of ours.

In: a config. Out: `Dataset`s, by the paths of a `weights.hdf5`, each with both ways between its
numbers and our tensors. The foreign conventions (a table without its first row, input and recurrent
weights in one matrix, all of it transposed, a transform gate named "carry") are undone here and
nowhere else.
"""

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo.errors import CheckpointError
from elmo.network.config import BiLMConfig, CharCnnConfig, Direction, LstmConfig
from elmo.text.characters import N_CHARACTERS

Array = NDArray[Any]

# A cell's weights under the names that TensorFlow gives them, or that bilm's dump makes of these
# where a model has one layer or one direction.
CELL = re.compile(
    r"(?:RNN_(?P<direction>\d)/)?rnn/(?:multi_?rnn_?cell/cell_?(?P<depth>\d+)/)?lstm_?cell/"
    r"(?P<part>W_0|kernel|B|bias|W_P_0|projection/kernel)",
    re.IGNORECASE,
)
CELL_PARTS = {"kernel": "W_0", "bias": "B", "projection/kernel": "W_P_0"}


@dataclass(frozen=True)
class Dataset:
    """One dataset of the file, and the tensors of ours that it holds."""

    path: str
    shape: tuple[int, ...]
    names: tuple[str, ...]
    read: Callable[[Array], tuple[Array, ...]]
    write: Callable[..., Array]


def official_path(path: str) -> str:
    """The path that every model of two layers and two directions has for this one."""
    cell = CELL.fullmatch(path)
    if cell is None:
        return path
    part = CELL_PARTS.get(cell["part"], cell["part"])
    depth = int(cell["depth"] or 0)
    return f"RNN_{cell['direction'] or 0}/RNN/MultiRNNCell/Cell{depth}/LSTMCell/{part}"


def datasets(config: BiLMConfig) -> Iterator[Dataset]:
    """Every dataset that a model with this config has."""
    lstm = config.lstm
    if reads_words_alone(config):
        assert config.lexicon is not None
        assert config.lexicon.n_words is not None
        yield _same("embedding", (config.lexicon.n_words, lstm.projection_dim), "word_table.weight")
    else:
        yield from _char_cnn(char_cnn_of(config), lstm.projection_dim)
    for r, direction in enumerate(config.directions):
        for depth in range(lstm.n_layers):
            yield from _cell(r, direction, depth, lstm)


def reads_words_alone(config: BiLMConfig) -> bool:
    """Whether a model has nothing but a table of words' vectors below its LSTMs."""
    return config.char_cnn is None and not (config.lexicon and config.lexicon.has_projection)


def char_cnn_of(config: BiLMConfig) -> CharCnnConfig:
    """The settings of a model that reads bytes; others have no place in the layout."""
    if config.char_cnn is None or config.lexicon is not None:
        raise CheckpointError(
            "a model that reads words by lists of its own, expected one that reads bytes alone, as "
            "the official layout does; keep it in a folder of ours"
        )
    return config.char_cnn


def _char_cnn(cnn: CharCnnConfig, projection_dim: int) -> Iterator[Dataset]:
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
    if width != projection_dim:
        shape = (width, projection_dim)
        yield _transposed("CNN_proj/W_proj", shape, "char_cnn.projection.weight")
        yield _same("CNN_proj/b_proj", shape[1:], "char_cnn.projection.bias")


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
