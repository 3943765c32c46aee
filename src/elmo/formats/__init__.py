"""Foreign formats, a file each; and which of them a path is.

In: the path of a folder, an HDF5 file or a zip archive, official or ours. Out: a `Model`.
"""

import io
import zipfile
import zlib
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path, PurePosixPath

import h5py
import torch

from elmo import checkpoint
from elmo.checkpoint import Model, written_whole
from elmo.errors import CheckpointError
from elmo.formats import bilm_hdf5
from elmo.softmax import build_head
from elmo.vocab import Vocabulary

HDF5_ENDINGS = (".hdf5", ".h5")
# A damaged member fails in the decompressor; an encrypted one or a rare method cannot be read.
BROKEN_ARCHIVE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    UnicodeDecodeError,
    RuntimeError,
    NotImplementedError,
)


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
            if options is not None:
                raise CheckpointError(
                    f"{path}: a model folder, expected without {options}, as it has its own "
                    f"{checkpoint.CONFIG}; leave the options out"
                )
            return Source("folder", path / checkpoint.WEIGHTS)
        weights = _weights_in(path)
        return Source("official", weights, options or _options_beside(weights))
    if not path.exists():
        raise CheckpointError(
            f"{path}: no such file or folder, expected a model folder, a weights.hdf5 or a .zip; "
            "name one that is there"
        )
    if path.suffix in HDF5_ENDINGS or h5py.is_hdf5(path):
        return Source("official", path, options or _options_beside(path))
    if zipfile.is_zipfile(path):
        return Source("zip", path, options)
    raise CheckpointError(
        f"{path}: no model, expected a model folder, a weights.hdf5 or a .zip that holds one; "
        "name one of these"
    )


def read(path: Path, options: Path | None = None) -> Model:
    """Open any model."""
    source = find(path, options)
    if source.kind == "folder":
        return checkpoint.load(path)
    if source.kind == "zip":
        return _read_zip(path, source.options)
    assert source.options is not None
    config = bilm_hdf5.read_options(_read_text(source.options), str(source.options))
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
    if path.suffix in HDF5_ENDINGS:
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


def _read_text(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(
            f"{path}: cannot be read ({error}), expected the model's options.json; name that file"
        ) from error


def _refuse_file_of_another_model(path: Path, text: str, weights: Path) -> None:
    """Refuse to overwrite a file that belongs to other weights in the same folder."""
    if path.exists() and not weights.exists() and path.read_bytes() != text.encode("utf-8"):
        raise CheckpointError(
            f"{path}: belongs to another model, expected no such file beside {weights.name}; "
            "name another folder"
        )


def _read_zip(path: Path, given_options: Path | None) -> Model:
    try:
        with zipfile.ZipFile(path) as archive:
            for name in archive.namelist():
                if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
                    raise CheckpointError(
                        f"{path}: member {name!r} points out of the archive; expected plain names; "
                        "do not trust this file"
                    )
            weights = _one_member(archive, *HDF5_ENDINGS)
            content = io.BytesIO(archive.read(weights))
            if given_options is None:
                options = _one_member(archive, "options.json")
                text, source = archive.read(options).decode("utf-8"), f"{path}:{options}"
            else:
                text, source = _read_text(given_options), str(given_options)
    except BROKEN_ARCHIVE as error:
        raise CheckpointError(
            f"{path}: a broken archive ({error}), expected a whole .zip; fetch it again"
        ) from error
    config = bilm_hdf5.read_options(text, source)
    where = f"{path}:{weights}"
    return Model(checkpoint.assemble(config, bilm_hdf5.read_weights(content, config, where), where))


def _one_member(archive: zipfile.ZipFile, *endings: str) -> str:
    found = [
        name
        for name in archive.namelist()
        # Macs put a hidden twin beside each file.
        if name.endswith(endings) and not PurePosixPath(name).name.startswith(".")
    ]
    if len(found) != 1:
        raise CheckpointError(
            f"{archive.filename}: {len(found)} members end with {' or '.join(endings)}, expected "
            "one of an ELMo model; unpack it and name the folder"
        )
    return found[0]
