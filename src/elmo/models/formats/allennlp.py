"""AllenNLP's models: the biLM inside them, fine-tuned or not, and the learned mixes of its layers.

In: a `weights.th`, alone or with the `config.json` and `vocabulary/` of a `model.tar.gz`; the name
of a biLM if there are several. Out: a `Model` with its mixes. Options are not needed: sizes come
from the shapes, and clips, relu and 50 characters are those of all released models, unless an
`options.json` is given.
"""

import re
from pathlib import Path

import torch
from torch import Tensor

from elmo.errors import CheckpointError
from elmo.models.formats.bilm_options import read_settings
from elmo.models.formats.sources import AnyPath
from elmo.models.formats.torch_files import TorchFile, read_convolutions, read_lstms
from elmo.models.model_folder import Mix, Model, assemble
from elmo.network.config import BiLMConfig, CharCnnConfig, LstmConfig
from elmo.text.characters import N_CHARACTERS

WEIGHTS = ("weights.th", "best.th")
ENDINGS = (".th", ".pt", ".pth", ".bin")
CHARACTERS = "_token_embedder._char_embedding_weights"


def find_weights(folder: AnyPath) -> AnyPath | None:
    """The weights file in the folder of an AllenNLP model; None if there is none."""
    return next((folder / name for name in WEIGHTS if (folder / name).is_file()), None)


def is_weights(path: Path) -> bool:
    """Whether a file may hold AllenNLP's weights, by its suffix."""
    return path.suffix in ENDINGS


def read(path: AnyPath, options: AnyPath | None = None, name: str | None = None) -> Model:
    """Read the biLM of a model, or one of several by its name; other tensors are ignored."""
    source = TorchFile(path)
    prefix = _find_prefix(source, name)
    config = _infer_config(source, prefix)
    if options is not None:
        config, _ = read_settings(options, None)
    assert config.char_cnn is not None
    tokens = f"{prefix}_token_embedder."
    table = source.take(prefix + CHARACTERS)
    if table.shape[0] != N_CHARACTERS:
        raise CheckpointError(
            f"{path}: {CHARACTERS} has shape {tuple(table.shape)}, expected {N_CHARACTERS} rows"
        )
    # Row 0, "no character", is zero; a task that fine-tunes the table may have changed it.
    state: dict[str, Tensor] = {
        "char_cnn.char_vectors.weight": torch.cat([torch.zeros_like(table[:1]), table[1:]])
    }
    state |= dict(
        read_convolutions(source, config.char_cnn, f"{tokens}char_conv_{{}}", f"{tokens}_highways")
    )
    for part in ("weight", "bias"):
        state[f"char_cnn.projection.{part}"] = source.take(f"{tokens}_projection.{part}")
    state |= read_lstms(source, f"{prefix}_elmo_lstm.", config.lstm)
    mixes = _mixes(source, prefix.removesuffix("_elmo_lstm."), config.lstm.n_layers + 1)
    return Model(assemble(config, state, str(path)), mixes=mixes)


def _find_prefix(source: TorchFile, name: str | None) -> str:
    """The prefix of the tensor names of the chosen biLM.

    The name of a biLM is that of its module without the last parts, which are always the same:
    `_text_field_embedder.token_embedder_elmo`, or `token_embedder_elmo` alone.
    """
    prefixes = [p.removesuffix(CHARACTERS) for p in source.names if p.endswith(CHARACTERS)]
    if not prefixes:
        raise CheckpointError(f"{source.path}: no biLM, expected one with a tensor {CHARACTERS!r}")
    if name is None and len(prefixes) == 1:
        return prefixes[0]
    names = {p.removesuffix("_elmo_lstm.").removesuffix("_elmo.").rstrip("."): p for p in prefixes}
    chosen = [p for full, p in names.items() if name in (full, full.rpartition(".")[2])]
    if len(chosen) != 1:
        found = f"{len(names)} biLMs" if name is None else f"no biLM {name!r}"
        raise CheckpointError(
            f"{source.path}: {found}, expected one of {', '.join(names)}; give its name after the "
            "path, as in model.tar.gz#NAME"
        )
    return chosen[0]


def _infer_config(source: TorchFile, prefix: str) -> BiLMConfig:
    names = set(source.names)
    tokens, cells = f"{prefix}_token_embedder.", f"{prefix}_elmo_lstm."
    n_filters = _count(names, f"{tokens}char_conv_{{}}.weight")
    filters = [source.shape(f"{tokens}char_conv_{k}.weight") for k in range(n_filters)]
    n_layers = _count(names, f"{cells}forward_layer_{{}}.state_projection.weight")
    table = source.shape(prefix + CHARACTERS)
    projection = source.shape(f"{cells}forward_layer_0.state_projection.weight")
    if len(table) != 2 or len(projection) != 2 or not all(len(shape) == 3 for shape in filters):
        raise CheckpointError(
            f"{source.path}: tensors of shapes {table}, {projection}, {filters}, expected those of "
            "an ELMo model"
        )
    return BiLMConfig(
        char_cnn=CharCnnConfig(
            char_dim=table[1],
            filters=tuple((shape[2], shape[0]) for shape in filters),
            n_highways=_count(names, f"{tokens}_highways._layers.{{}}.weight"),
        ),
        lstm=LstmConfig(dim=projection[1], projection_dim=projection[0], n_layers=n_layers),
    )


def _mixes(source: TorchFile, prefix: str, n_layers: int) -> tuple[Mix, ...]:
    pattern = re.compile(re.escape(prefix) + r"(scalar_mix_\d+)\.gamma")
    found = []
    for name in [match[1] for match in map(pattern.fullmatch, source.names) if match]:
        weights = [
            source.take(f"{prefix}{name}.scalar_parameters.{k}").reshape(-1)
            for k in range(n_layers)
        ]
        gamma = source.take(f"{prefix}{name}.gamma").reshape(-1)
        values = torch.cat([*weights, gamma]).tolist()
        if len(values) != n_layers + 1:
            raise CheckpointError(
                f"{source.path}: {name} has {len(values)} numbers, expected one "
                "for each layer and a gamma"
            )
        found.append(Mix(name=name, weights=tuple(values[:-1]), gamma=values[-1]))
    return tuple(found)


def _count(names: set[str], pattern: str) -> int:
    """The number of consecutive names `pattern` with 0, 1, 2, ... that exist."""
    n_found = 0
    while pattern.format(n_found) in names:
        n_found += 1
    return n_found
