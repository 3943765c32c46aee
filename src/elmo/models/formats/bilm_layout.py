"""The layout of bilm-tf's weights: which of its datasets hold which of our tensors.

In: a config, and datasets by the paths of a `weights.hdf5`, from any file. Out: the state of a
`BiLM`, after all shapes were compared; and the reverse. Without a config, one is inferred from the
shapes. The foreign conventions (a table without its first row, input and recurrent weights in one
matrix, all of it transposed, a transform gate named "carry", no projection where it would not
change the width) are converted in this module only.
"""

import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.errors import CheckpointError
from elmo.network.config import BiLMConfig, CharCnnConfig, Direction, LstmConfig
from elmo.text.characters import N_CHARACTERS

Array = NDArray[Any]

# Names of a cell's weights: TensorFlow's, or those that bilm's dump derives from them if a model
# has one layer or one direction.
CELL = re.compile(
    r"(?:RNN_(?P<direction>\d)/)?rnn/(?:multi_?rnn_?cell/cell_?(?P<depth>\d+)/)?(?:rnn/)?lstm_?cell/"
    r"(?P<part>W_0|kernel|B|bias|W_P_0|projection/kernel)",
    re.IGNORECASE,
)
CELL_PARTS = {"kernel": "W_0", "bias": "B", "projection/kernel": "W_P_0"}
# Datasets that may be beside the network's own: the output words, a cache of token vectors.
OTHER_GROUPS = ("softmax", "embedding")

Shapes = Mapping[str, tuple[int, ...]]


@dataclass(frozen=True)
class Dataset:
    """One dataset of the file, and which of our tensors it holds."""

    path: str
    shape: tuple[int, ...]
    names: tuple[str, ...]
    read: Callable[[Array], tuple[Array, ...]]
    write: Callable[..., Array]


def official_path(path: str) -> str:
    """The equivalent path in a model with two layers and two directions."""
    cell = CELL.fullmatch(path)
    if cell is None:
        return path
    part = CELL_PARTS.get(cell["part"], cell["part"])
    depth = int(cell["depth"] or 0)
    return f"RNN_{cell['direction'] or 0}/RNN/MultiRNNCell/Cell{depth}/LSTMCell/{part}"


def read_network(
    config: BiLMConfig,
    shapes: Shapes,
    read: Callable[[Iterable[str]], Iterable[tuple[str, Array]]],
    where: str,
) -> tuple[BiLMConfig, dict[str, Tensor]]:
    """The state of a `BiLM` from datasets of these shapes, and the config that fits it.

    `read` returns the values of the requested datasets. In TensorFlow a cell without a projection
    does not clip its output; our equivalent is an identity projection without clipping.
    """
    is_masked = shapes.get("char_embed", ())[:1] == (N_CHARACTERS,)  # with a row for "no character"
    if is_masked:
        shapes = {**shapes, "char_embed": (N_CHARACTERS - 1, *shapes["char_embed"][1:])}
    dim = config.lstm.dim
    is_unprojected = dim == config.lstm.projection_dim and not any(map(_is_projection, shapes))
    expected = {
        dataset.path: dataset
        for dataset in datasets(config)
        if not (is_unprojected and _is_projection(dataset.path))
    }
    check_layout(shapes, expected, where)
    state: dict[str, Tensor] = {}
    for path, values in read(expected):
        parts = expected[path].read(values[1:] if is_masked and path == "char_embed" else values)
        for name, part in zip(expected[path].names, parts, strict=True):
            state[name] = torch.from_numpy(part.astype(np.float32, order="C"))
    if is_unprojected:
        for dataset in filter(lambda each: _is_projection(each.path), datasets(config)):
            state[dataset.names[0]] = _identity(dim)
        lstm = dataclasses.replace(config.lstm, projection_clip=None)
        config = dataclasses.replace(config, lstm=lstm)
    return config, state


def check_layout(found: Shapes, expected: Mapping[str, Dataset], where: str) -> None:
    """Raise a CheckpointError that lists the differences if the weights do not fit the config."""
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


def infer_config(shapes: Shapes, where: str) -> BiLMConfig:
    """Infer the config of weights without options: sizes from the shapes, all else as released.

    Released models have clips of 3, skip connections, relu and 50 characters.
    """
    try:
        kernels = [shapes[path] for path in _numbered(shapes, "CNN/W_cnn_{}")]
        biases = _numbered(shapes, "RNN_0/RNN/MultiRNNCell/Cell{}/LSTMCell/B")
        dim = shapes[biases[0]][0] // 4
        (projection_dim,) = {shape[0] // 2 for path, shape in shapes.items() if _is_kernel(path)}
        return BiLMConfig(
            char_cnn=CharCnnConfig(
                char_dim=shapes["char_embed"][1],
                filters=tuple((kernel[1], kernel[3]) for kernel in kernels),
                n_highways=len(_numbered(shapes, "CNN_high_{}/W_carry")),
            ),
            lstm=LstmConfig(dim=dim, projection_dim=projection_dim, n_layers=len(biases)),
            directions=("forward", "backward")
            if any(path.startswith("RNN_1/") for path in shapes)
            else ("forward",),
        )
    except (KeyError, IndexError, ValueError) as error:
        raise CheckpointError(
            f"{where}: {len(shapes)} tensors, expected those of an ELMo model (char_embed, "
            "CNN/W_cnn_0, RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell/B, ...)"
        ) from error


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
    """Whether a model has only a table of word vectors below its LSTMs."""
    return config.char_cnn is None and not (config.lexicon and config.lexicon.has_projection)


def char_cnn_of(config: BiLMConfig) -> CharCnnConfig:
    """The char CNN settings of a model that reads bytes; the layout has no other char CNNs."""
    if config.char_cnn is None or config.lexicon is not None:
        raise CheckpointError(
            "a model with its own lists of words or characters, expected one that reads bytes, as "
            "the official layout does; save it as a model folder"
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


def without_projections(config: BiLMConfig, state: Mapping[str, Tensor]) -> bool:
    """Whether a model's cells have no projection in bilm-tf's layout."""
    if config.lstm.dim != config.lstm.projection_dim or config.lstm.projection_clip is not None:
        return False
    projections = [d.names[0] for d in datasets(config) if _is_projection(d.path)]
    identity = _identity(config.lstm.dim)
    return all(torch.equal(state[name].cpu(), identity) for name in projections)


def _identity(dim: int) -> Tensor:
    """An identity matrix, whatever torch's default dtype and device are."""
    return torch.eye(dim, dtype=torch.float32, device="cpu")


def _numbered(shapes: Shapes, pattern: str) -> list[str]:
    """The consecutive paths `pattern` with 0, 1, 2, ... that exist."""
    found: list[str] = []
    while (path := pattern.format(len(found))) in shapes:
        found.append(path)
    return found


def _is_projection(path: str) -> bool:
    return path.endswith("/LSTMCell/W_P_0")


def _is_kernel(path: str) -> bool:
    return path.endswith("/LSTMCell/W_0")


def _same(path: str, shape: tuple[int, ...], name: str) -> Dataset:
    return Dataset(path, shape, (name,), lambda values: (values,), lambda values: values)


def _transposed(path: str, shape: tuple[int, ...], name: str) -> Dataset:
    return Dataset(path, shape, (name,), lambda values: (values.T,), lambda values: values.T)
