"""Foreign formats, a file each; and which of them a path is.

In: the path of a folder, of weights, of a checkpoint or of a zip archive. Out: a `Model`.
"""

import zipfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import h5py
import torch

from elmo import models
from elmo.errors import CheckpointError, ConfigError
from elmo.files.atomic import atomic_write
from elmo.models import model_folder
from elmo.models.formats import (
    bilm_hdf5,
    bilm_options,
    many_langs,
    tf_checkpoint,
    token_cache,
    zipped,
)
from elmo.models.model_folder import Model
from elmo.network.softmax import build_head
from elmo.text.vocabulary import Vocabulary

Kind = Literal["folder", "official", "many-langs", "tf-checkpoint", "token-cache", "zip"]


@dataclass(frozen=True)
class Source:
    """What a path was found to be, and the files that belong to it."""

    kind: Kind
    weights: Path
    options: Path | None = None
    vocabulary: Path | None = None


def find(path: Path, options: Path | None = None, vocabulary: Path | None = None) -> Source:
    """Say what a path, or the name of a shipped model, is, without reading weights."""
    path = models.locate(path)
    prefix = tf_checkpoint.find_prefix(path) if not _is_model_folder(path) else None
    if prefix is not None:
        weights = tf_checkpoint.data_file(prefix)
        words = vocabulary or _vocabulary_beside(prefix)
        return Source("tf-checkpoint", weights, options or _options_beside(prefix), words)
    if not path.exists():
        raise CheckpointError(
            f"{path}: no such file or folder, expected a model folder, a weights.hdf5, a .zip "
            f"or {models.ENGLISH!r}; name one that is there"
        )
    if path.is_dir():
        return _find_in_folder(path, options, vocabulary)
    if path.suffix in bilm_hdf5.ENDINGS or h5py.is_hdf5(path):
        return _find_hdf5(path, options, vocabulary)
    if zipfile.is_zipfile(path):
        return Source("zip", path, options)
    raise CheckpointError(
        f"{path}: no model, expected a model folder, a weights.hdf5 or a .zip that holds one; "
        "name one of these"
    )


def read(path: Path, options: Path | None = None, vocabulary: Path | None = None) -> Model:
    """Open any model; `vocabulary` is for those that know words by a file beside them."""
    path = models.locate(path)
    source = find(path, options, vocabulary)
    if vocabulary is not None and source.vocabulary is None:
        raise ConfigError(
            f"{path}: a vocabulary for a model that has no use for one, expected none; leave "
            f"{vocabulary} out, or give the softmax too"
        )
    if source.kind == "folder":
        return model_folder.load(path)
    if source.kind == "zip":
        return zipped.read(path, source.options)
    if source.kind == "many-langs":
        return many_langs.read(path, source.options)
    if source.kind == "token-cache":
        return token_cache.read(path, source.vocabulary)
    assert source.options is not None
    if source.kind == "tf-checkpoint":
        prefix = tf_checkpoint.find_prefix(path)
        assert prefix is not None
        return tf_checkpoint.read(prefix, source.options, source.vocabulary)
    return bilm_hdf5.read(source.weights, source.options, source.vocabulary)


def attach_softmax(model: Model, softmax: Path, vocabulary: Path) -> Model:
    """A model with the output words that were released, or kept, in files of their own."""
    words = Vocabulary.read(vocabulary)
    projection_dim = model.bilm.config.lstm.projection_dim
    state = bilm_hdf5.read_softmax(softmax, len(words), projection_dim)
    with torch.device("meta"):
        head = build_head("full", len(words), projection_dim)
    model_folder.fill(head, state, str(softmax))
    return Model(model.bilm, head.eval(), words)


def write(path: Path, model: Model, *, is_half: bool = False) -> None:
    """Write a model: as official files if the path ends like one, else as a folder of ours."""
    if path.suffix in bilm_hdf5.ENDINGS:
        write_official(path, model)
    else:
        model_folder.save(path, model, dtype=torch.float16 if is_half else torch.float32)


def write_official(weights: Path, model: Model) -> None:
    """Write a `weights.hdf5`, its `options.json` and, with a head, its vocabulary beside it."""
    config = model.bilm.config
    with ExitStack() as files:
        temporary = files.enter_context(atomic_write(weights))
        bilm_hdf5.write_weights(temporary, config, model.bilm.state_dict())
        beside = {"options.json": bilm_options.write_options(config)}
        words = model.bilm.word_encoder.lexicon.words or model.vocabulary
        if words is not None:
            beside["vocab.txt"] = "".join(f"{word}\n" for word in words.words)
        for name, text in beside.items():
            path = weights.with_name(name)
            _refuse_file_of_another_model(path, text, weights)
            files.enter_context(atomic_write(path)).write_bytes(text.encode("utf-8"))


def _is_model_folder(path: Path) -> bool:
    return model_folder.is_model_folder(path) or many_langs.is_model(path)


def _find_in_folder(folder: Path, options: Path | None, vocabulary: Path | None) -> Source:
    if model_folder.is_model_folder(folder):
        if options is not None:
            raise CheckpointError(
                f"{folder}: a model folder, expected without {options}, as it has its own "
                f"{model_folder.CONFIG}; leave the options out"
            )
        return Source("folder", folder / model_folder.WEIGHTS)
    if many_langs.is_model(folder):
        return Source("many-langs", folder / many_langs.LSTMS, options)
    return _find_hdf5(_weights_in(folder), options, vocabulary)


def _find_hdf5(weights: Path, options: Path | None, vocabulary: Path | None) -> Source:
    if token_cache.is_cache(weights):
        return Source("token-cache", weights, None, vocabulary or _vocabulary_beside(weights))
    options = options or _options_beside(weights)
    if bilm_options.reads_characters(options):
        return Source("official", weights, options)
    return Source("official", weights, options, vocabulary or _vocabulary_beside(weights))


def _weights_in(folder: Path) -> Path:
    found = sorted(p for p in folder.iterdir() if p.suffix in bilm_hdf5.ENDINGS)
    networks = [p for p in found if bilm_hdf5.has_official_layout(p)]
    if len(networks) == 1:
        return networks[0]
    if len(found) == 1:
        return found[0]  # broken perhaps: the reader says how
    names = ", ".join(p.name for p in networks) or "none"
    raise CheckpointError(
        f"{folder}: not a model folder; expected {model_folder.CONFIG} and {model_folder.WEIGHTS}, "
        f"or one official weights file (found: {names}); name a model folder or the file itself"
    )


def _options_beside(weights: Path) -> Path:
    namesake = weights.with_name(weights.name.replace("weights", "options")).with_suffix(".json")
    for candidate in (namesake, weights.with_name("options.json")):
        if candidate.is_file():
            return candidate
    others = sorted(weights.parent.glob("*options*.json"))
    if len(others) == 1:
        return others[0]
    found = ", ".join(other.name for other in others) or "none"
    raise CheckpointError(
        f"{weights}: no options.json beside it, expected one that says its sizes (found: {found}); "
        "name it as the options"
    )


def _vocabulary_beside(weights: Path) -> Path | None:
    found = sorted(weights.parent.glob("*vocab*.txt"))
    exact = weights.with_name("vocab.txt")
    return exact if exact.is_file() else found[0] if len(found) == 1 else None


def _refuse_file_of_another_model(path: Path, text: str, weights: Path) -> None:
    """Refuse to overwrite a file that belongs to other weights in the same folder."""
    if path.exists() and not weights.exists() and path.read_bytes() != text.encode("utf-8"):
        raise CheckpointError(
            f"{path}: belongs to another model, expected no such file beside {weights.name}; "
            "name another folder"
        )
