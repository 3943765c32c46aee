"""Foreign formats, a file each; and which of them a path is.

In: the path of a folder, an HDF5 file or a zip archive, official or ours. Out: a `Model`.
"""

import zipfile
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

import h5py
import torch

from elmo import checkpoint
from elmo.checkpoint import Model, written_whole
from elmo.errors import CheckpointError
from elmo.formats import bilm_hdf5, many_langs, zipped
from elmo.softmax import build_head
from elmo.vocab import Vocabulary

Kind = Literal["folder", "official", "many-langs", "zip"]


@dataclass(frozen=True)
class Source:
    """What a path was found to be."""

    kind: Kind
    weights: Path
    options: Path | None = None


def find(path: Path, options: Path | None = None) -> Source:
    """Say what a path is, without reading weights."""
    if path.is_dir():
        return _find_in_folder(path, options)
    if not path.exists():
        raise CheckpointError(
            f"{path}: no such file or folder, expected a model folder, a weights.hdf5 or a .zip; "
            "name one that is there"
        )
    if path.suffix in bilm_hdf5.ENDINGS or h5py.is_hdf5(path):
        return Source("official", path, options or _options_beside(path))
    if zipfile.is_zipfile(path):
        return Source("zip", path, options)
    raise CheckpointError(
        f"{path}: no model, expected a model folder, a weights.hdf5 or a .zip that holds one; "
        "name one of these"
    )


def _find_in_folder(folder: Path, options: Path | None) -> Source:
    if checkpoint.is_model_folder(folder):
        if options is not None:
            raise CheckpointError(
                f"{folder}: a model folder, expected without {options}, as it has its own "
                f"{checkpoint.CONFIG}; leave the options out"
            )
        return Source("folder", folder / checkpoint.WEIGHTS)
    if many_langs.is_model(folder):
        return Source("many-langs", folder / many_langs.LSTMS, options)
    weights = _weights_in(folder)
    return Source("official", weights, options or _options_beside(weights))


def read(path: Path, options: Path | None = None) -> Model:
    """Open any model."""
    source = find(path, options)
    if source.kind == "folder":
        return checkpoint.load(path)
    if source.kind == "zip":
        return zipped.read(path, source.options)
    if source.kind == "many-langs":
        return many_langs.read(path, source.options)
    assert source.options is not None
    return bilm_hdf5.read(source.weights, source.options)


def attach_softmax(model: Model, softmax: Path, vocabulary: Path) -> Model:
    """A model with the output words that were released, or kept, in files of their own."""
    words = Vocabulary.read(vocabulary)
    projection_dim = model.bilm.config.lstm.projection_dim
    state = bilm_hdf5.read_softmax(softmax, len(words), projection_dim)
    with torch.device("meta"):
        head = build_head("full", len(words), projection_dim)
    checkpoint.fill(head, state, str(softmax))
    return Model(model.bilm, head.eval(), words)


def write(path: Path, model: Model) -> None:
    """Write a model: as official files if the path ends like one, else as a folder of ours."""
    if path.suffix in bilm_hdf5.ENDINGS:
        write_official(path, model)
    else:
        checkpoint.save(path, model)


def write_official(weights: Path, model: Model) -> None:
    """Write a `weights.hdf5`, its `options.json` and, with a head, its vocabulary beside it."""
    config = model.bilm.config
    with ExitStack() as files:
        unfinished = files.enter_context(written_whole(weights))
        bilm_hdf5.write_weights(unfinished, config, model.bilm.state_dict())
        beside = {"options.json": bilm_hdf5.write_options(config)}
        if model.vocabulary is not None:
            beside["vocab.txt"] = "".join(f"{word}\n" for word in model.vocabulary.words)
        for name, text in beside.items():
            path = weights.with_name(name)
            _refuse_file_of_another_model(path, text, weights)
            files.enter_context(written_whole(path)).write_bytes(text.encode("utf-8"))


def _weights_in(folder: Path) -> Path:
    found = sorted(p for p in folder.iterdir() if p.suffix in bilm_hdf5.ENDINGS)
    networks = [p for p in found if bilm_hdf5.has_official_layout(p)]
    if len(networks) == 1:
        return networks[0]
    if len(found) == 1:
        return found[0]  # broken perhaps: the reader says how
    names = ", ".join(p.name for p in networks) or "none"
    raise CheckpointError(
        f"{folder}: not a model folder; expected {checkpoint.CONFIG} and {checkpoint.WEIGHTS}, or "
        f"one official weights file (found: {names}); name a model folder or the file itself"
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


def _refuse_file_of_another_model(path: Path, text: str, weights: Path) -> None:
    """Refuse to overwrite a file that belongs to other weights in the same folder."""
    if path.exists() and not weights.exists() and path.read_bytes() != text.encode("utf-8"):
        raise CheckpointError(
            f"{path}: belongs to another model, expected no such file beside {weights.name}; "
            "name another folder"
        )
