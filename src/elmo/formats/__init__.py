"""Foreign formats, a file each; and which of them a path is.

In: the path of a folder, an HDF5 file or a zip archive, official or ours. Out: a `Model`.
"""

import io
import zipfile
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import torch

from elmo import checkpoint
from elmo.checkpoint import Model
from elmo.errors import CheckpointError
from elmo.formats import bilm_hdf5
from elmo.softmax import build_head
from elmo.vocab import Vocabulary

HDF5_ENDINGS = (".hdf5", ".h5")


@dataclass(frozen=True)
class Source:
    """What a path was found to be."""

    kind: str  # "folder", "official" or "zip"
    weights: Path
    options: Path | None = None


def find(path: Path, options: Path | None = None) -> Source:
    """Say what a path is, without reading weights."""
    if path.is_dir():
        if checkpoint.is_model_folder(path):
            return Source("folder", path / checkpoint.WEIGHTS)
        weights = _weights_in(path)
        return Source("official", weights, options or _options_beside(weights))
    if not path.exists():
        raise CheckpointError(
            f"{path}: no such file or folder; expected a model folder, a weights.hdf5 or a .zip"
        )
    if path.suffix in HDF5_ENDINGS:
        return Source("official", path, options or _options_beside(path))
    if zipfile.is_zipfile(path):
        return Source("zip", path)
    raise CheckpointError(
        f"{path}: neither a model folder nor an HDF5 file nor a zip archive; "
        "name a model folder, a weights.hdf5 or a .zip that holds one"
    )


def read(path: Path, options: Path | None = None) -> Model:
    """Open any model."""
    source = find(path, options)
    if source.kind == "folder":
        return checkpoint.load(path)
    if source.kind == "zip":
        return _read_zip(path)
    assert source.options is not None
    try:
        text = source.options.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(
            f"{source.options}: cannot be read ({error}); name the model's options.json"
        ) from error
    config = bilm_hdf5.read_options(text, str(source.options))
    state = bilm_hdf5.read_weights(source.weights, config, str(source.weights))
    return Model(checkpoint.assemble(config, state, str(source.weights)))


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
    try:
        if path.suffix in HDF5_ENDINGS:
            write_official(path, model)
        else:
            checkpoint.save(path, model)
    except OSError as error:
        raise CheckpointError(
            f"{path}: cannot be written ({error}); expected a place with room that you may write "
            "to; name another one"
        ) from error


def write_official(weights: Path, model: Model) -> None:
    """Write a `weights.hdf5`, its `options.json` and, with a head, its vocabulary beside it."""
    config = model.bilm.config
    bilm_hdf5.write_weights(weights, config, model.bilm.state_dict())
    options = weights.with_name("options.json")
    options.write_text(bilm_hdf5.write_options(config), encoding="utf-8")
    if model.vocabulary is not None:
        model.vocabulary.write(weights.with_name("vocab.txt"))


def _weights_in(folder: Path) -> Path:
    found = sorted(p for p in folder.iterdir() if p.suffix in HDF5_ENDINGS)
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
    candidates = [
        weights.with_name("options.json"),
        weights.with_name(weights.name.replace("weights", "options")).with_suffix(".json"),
    ]
    candidates += sorted(weights.parent.glob("*options*.json"))
    for candidate in candidates:
        if candidate.is_file():
            return candidate
    raise CheckpointError(
        f"{weights}: no options.json beside it, which says its sizes; give it with options=..."
    )


def _read_zip(path: Path) -> Model:
    try:
        with zipfile.ZipFile(path) as archive:
            names = archive.namelist()
            for name in names:
                if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
                    raise CheckpointError(
                        f"{path}: member {name!r} points out of the archive; expected plain names; "
                        "do not trust this file"
                    )
            options = _one_member(path, names, "options.json")
            weights = _one_member(path, names, *HDF5_ENDINGS)
            text = archive.read(options).decode("utf-8")
            content = io.BytesIO(archive.read(weights))
    except (zipfile.BadZipFile, EOFError, UnicodeDecodeError) as error:
        raise CheckpointError(f"{path}: a broken archive ({error}); fetch it again") from error
    config = bilm_hdf5.read_options(text, f"{path}:{options}")
    where = f"{path}:{weights}"
    return Model(checkpoint.assemble(config, bilm_hdf5.read_weights(content, config, where), where))


def _one_member(path: Path, names: list[str], *endings: str) -> str:
    found = [name for name in names if name.endswith(endings)]
    if len(found) != 1:
        raise CheckpointError(
            f"{path}: {len(found)} members end with {' or '.join(endings)}, expected one; "
            "unpack it and name the folder"
        )
    return found[0]
