"""Save and load model folders: config.json, model.safetensors, vocab.txt, README.md.

In: a `BiLM`, with its head and output vocabulary if it has them. Out: a folder, written atomically;
and the reverse. The format has a version; a newer version is rejected.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors import SafetensorError
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from elmo.errors import CheckpointError, ConfigError
from elmo.files.atomic import atomic_folder, why_not_replaceable, write_json, write_text
from elmo.network.bilm import BiLM
from elmo.network.config import BiLMConfig
from elmo.network.softmax import Head, HeadKind, build_head
from elmo.settings import from_mapping, to_mapping
from elmo.text.vocabulary import Vocabulary
from elmo.text.word_encoder import LISTS, Lexicon, LexiconConfig

FORMAT_VERSION = 1
VERSION = "format_version"  # the key in config.json
CONFIG, WEIGHTS, VOCABULARY, CARD = "config.json", "model.safetensors", "vocab.txt", "README.md"
ALIGNMENT = "alignment"  # alignment.N is the matrix of layer N


@dataclass(frozen=True, kw_only=True, slots=True)
class HeadSettings:
    """The kind and size of a model's head."""

    kind: HeadKind
    n_words: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Mix:
    """A learned mix of the layers of a model: gamma * sum_j softmax(weights)_j h_j."""

    name: str
    weights: tuple[float, ...]  # one for each layer, before the softmax
    gamma: float

    @property
    def layers(self) -> list[float]:
        """The factor of each layer, for `Embedded.vectors` and other uses of layer weights."""
        shares = torch.softmax(torch.tensor(self.weights), dim=0)
        return (self.gamma * shares).tolist()


@dataclass(frozen=True, kw_only=True, slots=True)
class ModelSettings:
    """The content of a model's config.json."""

    format_version: int = FORMAT_VERSION
    bilm: BiLMConfig
    head: HeadSettings | None = None
    mixes: tuple[Mix, ...] = ()


@dataclass(frozen=True)
class Model:
    """A biLM, with the head and the output vocabulary if it has them."""

    bilm: BiLM
    head: Head | None = None
    vocabulary: Vocabulary | None = None
    mixes: tuple[Mix, ...] = ()
    # Matrices (D, D) by layer, which map the layer's vectors into the space of another language.
    alignment: Mapping[int, NDArray[np.float32]] = field(default_factory=dict)

    def refuse_alignment(self, what: str, *layers: int) -> None:
        """Raise a ConfigError if one of `layers`, or any, is aligned: `what` would ignore it."""
        aligned = sorted(layer for layer in self.alignment if not layers or layer in layers)
        if aligned:
            raise ConfigError(
                f"{what}: alignment matrices are not supported, but layer {aligned[0]} has one; "
                "expected a model without alignment"
            )


def save(
    folder: Path,
    model: Model,
    *,
    card: str | None = None,
    dtype: torch.dtype = torch.float32,
) -> None:
    """Write a model folder; an older model is replaced when the new one is complete."""
    _check_replaceable(folder)
    state = {f"bilm.{name}": tensor for name, tensor in model.bilm.state_dict().items()}
    head = None
    if model.head is not None and model.vocabulary is not None:
        state |= {f"head.{name}": tensor for name, tensor in model.head.state_dict().items()}
        head = HeadSettings(kind=model.head.kind, n_words=len(model.vocabulary))
    state |= {
        f"{ALIGNMENT}.{layer}": torch.from_numpy(matrix)
        for layer, matrix in model.alignment.items()
    }
    settings = to_mapping(ModelSettings(bilm=model.bilm.config, head=head, mixes=model.mixes))
    with atomic_folder(folder, durable=True) as temporary:
        if head is not None and model.vocabulary is not None:
            model.vocabulary.write(temporary / VOCABULARY)
        model.bilm.word_encoder.lexicon.write(temporary)
        write_json(temporary / CONFIG, settings)
        write_text(temporary / CARD, card or default_card(model))
        write_tensors(temporary / WEIGHTS, {name: t.to(dtype) for name, t in state.items()})


def load(folder: Path) -> Model:
    """Read a model folder; weights are float32 in memory, whatever their type on disk."""
    settings = read_settings(folder)
    where = str(folder / WEIGHTS)
    parts = {"bilm", ALIGNMENT} if settings.head is None else {"bilm", "head", ALIGNMENT}
    state = _split(_read_tensors(folder / WEIGHTS), parts, where)
    lexicon = Lexicon.read(folder, settings.bilm.lexicon)
    bilm = assemble(settings.bilm, state["bilm"], where, lexicon)
    alignment = _read_alignment(state[ALIGNMENT], settings.bilm, where)
    if settings.head is None:
        return Model(bilm, mixes=settings.mixes, alignment=alignment)
    vocabulary = Vocabulary.read(folder / VOCABULARY)
    if len(vocabulary) != settings.head.n_words:
        raise CheckpointError(
            f"{folder / VOCABULARY}: {len(vocabulary)} words, expected "
            f"{settings.head.n_words} as {CONFIG} says"
        )
    with torch.device("meta"):
        head = build_head(settings.head.kind, len(vocabulary), settings.bilm.lstm.projection_dim)
    fill(head, state["head"], where)
    return Model(bilm, head.eval(), vocabulary, settings.mixes, alignment)


def _read_alignment(
    tensors: Mapping[str, Tensor], config: BiLMConfig, where: str
) -> dict[int, NDArray[np.float32]]:
    """The alignment matrices of a model by layer, after checking their layers and shapes."""
    layers = {str(layer): layer for layer in range(config.lstm.n_layers + 1)}
    shape = (config.output_dim, config.output_dim)
    for name, tensor in tensors.items():
        if name not in layers or tensor.shape != shape:
            raise CheckpointError(
                f"{where}: tensor {ALIGNMENT}.{name} has shape {tuple(tensor.shape)}, expected "
                f"{shape} for one of the layers 0 to {len(layers) - 1}"
            )
        if not torch.isfinite(tensor).all():
            raise CheckpointError(
                f"{where}: tensor {ALIGNMENT}.{name} contains NaN or Inf, expected finite numbers"
            )
    return {layers[name]: tensor.to(torch.float32).numpy() for name, tensor in tensors.items()}


def assemble(
    config: BiLMConfig, state: Mapping[str, Tensor], where: str, lexicon: Lexicon | None = None
) -> BiLM:
    """Build a network with these weights, without random initialization."""
    with torch.device("meta"):
        bilm = BiLM(config, lexicon)
    fill(bilm, state, where)
    return bilm.eval()


def fill(module: nn.Module, state: Mapping[str, Tensor], where: str) -> None:
    """Set the weights of a module after checking their names, shapes and values."""
    expected = {name: tuple(tensor.shape) for name, tensor in module.state_dict().items()}
    found = {name: tuple(tensor.shape) for name, tensor in state.items()}
    for name in expected | found:
        if expected.get(name) != found.get(name):
            raise CheckpointError(
                f"{where}: tensor {name} has shape {found.get(name, 'none (missing)')}, expected "
                f"{expected.get(name, 'no such tensor')}; use the config.json of these weights"
            )
    weights = {name: tensor.to(torch.float32) for name, tensor in state.items()}
    for name, tensor in weights.items():
        # A sum is thirty times as fast, but is also infinite if huge numbers overflow.
        if not tensor.sum().isfinite() and not tensor.isfinite().all():
            raise CheckpointError(f"{where}: tensor {name} holds NaN or Inf, expected numbers")
    module.load_state_dict(weights, assign=True)


def is_model_folder(folder: Path) -> bool:
    """Whether a folder has the files of a model."""
    return (folder / CONFIG).is_file() and (folder / WEIGHTS).is_file()


def read_settings(folder: Path) -> ModelSettings:
    """The checked config.json of a model folder."""
    path = folder / CONFIG
    try:
        settings = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{path}: cannot be read ({error}); expected the settings of a model"
        ) from error
    if not isinstance(settings, dict) or VERSION not in settings:
        raise CheckpointError(f"{path}: no {VERSION}, expected the config.json of an ELMo model")
    version = settings[VERSION]
    if type(version) is not int or not 1 <= version <= FORMAT_VERSION:
        raise CheckpointError(
            f"{path}: {VERSION} is {version!r}, expected {FORMAT_VERSION}; a larger one "
            "needs a newer version of this package"
        )
    return from_mapping(ModelSettings, settings, str(path))


def write_tensors(path: Path, tensors: Mapping[str, Tensor]) -> None:
    """Write a safetensors file; failures raise OSError, as for other files."""
    path.touch()
    mode = path.stat().st_mode
    try:
        save_file({name: t.detach().cpu().contiguous() for name, t in tensors.items()}, path)
    except SafetensorError as error:
        raise OSError(str(error)) from error
    path.chmod(mode)  # safetensors ignores the umask: it gives other users no access


def default_card(model: Model) -> str:
    """A model card with what is known from the model alone."""
    config, lstm = model.bilm.config, model.bilm.config.lstm
    words = "no head" if model.vocabulary is None else f"{len(model.vocabulary):,} output words"
    return (
        "# An ELMo model\n\n"
        f"A biLM that reads words by {' and '.join(_token_layer_parts(config))}; "
        f"{lstm.n_layers} layers of {lstm.dim} cells with a projection to {lstm.projection_dim}, "
        f"{' and '.join(config.directions)}; {model.bilm.n_parameters:,} parameters; "
        f"{words}.\n\n"
        '```python\nfrom elmo import Elmo\nelmo = Elmo.load("this folder")\n```\n'
    )


def _token_layer_parts(config: BiLMConfig) -> Iterator[str]:
    lists, cnn = config.lexicon or LexiconConfig(), config.char_cnn
    if lists.n_words is not None:
        yield f"a list of {lists.n_words:,} words"
    if cnn is not None:
        unit = "bytes" if lists.n_characters is None else f"{lists.n_characters:,} characters"
        yield f"a CNN over {unit} ({cnn.n_filters} filters, {cnn.n_highways} highways)"


def _read_tensors(path: Path) -> dict[str, Tensor]:
    try:
        return load_file(path)
    except (OSError, SafetensorError) as error:
        raise CheckpointError(f"{path}: not a complete safetensors file ({error})") from error


def _split(
    state: Mapping[str, Tensor], parts: set[str], where: str
) -> dict[str, dict[str, Tensor]]:
    """The tensors of each part of a model, by their names in that part."""
    split: dict[str, dict[str, Tensor]] = {part: {} for part in parts}
    for name, tensor in state.items():
        part, _, name_in_part = name.partition(".")
        if part not in parts:
            raise CheckpointError(
                f"{where}: tensor {name} has shape {tuple(tensor.shape)}, expected no such tensor; "
                "use the config.json of these weights"
            )
        split[part][name_in_part] = tensor
    return split


def _check_replaceable(folder: Path) -> None:
    # config.json cannot be the marker: Hugging Face's mixin removes it before saving a model again.
    reason = why_not_replaceable(folder, WEIGHTS, (CONFIG, WEIGHTS, VOCABULARY, CARD, *LISTS))
    config = folder / CONFIG
    if reason is None and config.exists() and not _is_of_elmo(config):
        reason = f"contains {CONFIG!r} of another kind of model"  # transformers has these names too
    if reason is not None:
        raise CheckpointError(
            f"{folder}: {reason}; expected a new folder, or a model to be replaced"
        )


def _is_of_elmo(config: Path) -> bool:
    try:
        return VERSION in json.loads(config.read_text(encoding="utf-8"))
    except (OSError, ValueError, TypeError, RecursionError):
        return False
