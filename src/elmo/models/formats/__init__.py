"""Model formats of other projects, one module each, and the detection of a path's format.

In: the path of a folder, of weights, of a checkpoint or of an archive. Out: a `Model`.
"""

import warnings
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Literal

import h5py
import torch

from elmo import models
from elmo.errors import CheckpointError, ConfigError, WriteError
from elmo.files.atomic import atomic_write
from elmo.models import catalog, model_folder
from elmo.models.formats import (
    allennlp,
    bilm_hdf5,
    bilm_options,
    hdf5,
    many_langs,
    tf_checkpoint,
    token_cache,
)
from elmo.models.formats.archives import Archive, Member, is_archive
from elmo.models.formats.sources import AnyPath, files_like
from elmo.models.formats.word_list import read_word_list
from elmo.models.model_folder import Model
from elmo.network.softmax import build_head

Kind = Literal[
    "folder", "official", "many-langs", "tf-checkpoint", "tf-hub", "allennlp", "token-cache"
]
OPTIONS = ("*options*.json", "*options_file")  # the second is AllenNLP's, in archives
SOFTMAX = "softmax.hdf5"
AS_RELEASED = (
    "without options: sizes are those of the tensors; clips of 3, skip connections, relu and 50 "
    "characters are assumed, as in all released models"
)


@dataclass(frozen=True)
class Source:
    """The detected format of a path, and the files that belong to it."""

    kind: Kind
    weights: AnyPath
    options: AnyPath | None = None
    vocabulary: AnyPath | None = None
    archive: Path | None = None  # that contains all of these
    bilm: str | None = None  # the name of the biLM, if the file has several
    note: str | None = None  # what the user should know about the choice

    @property
    def file(self) -> Path:
        """The file on disk that holds the weights."""
        if self.archive is not None:
            return self.archive
        assert isinstance(self.weights, Path)
        return self.weights


def find(path: Path, options: Path | None = None, vocabulary: Path | None = None) -> Source:
    """Detect the format of a path or a named model, without reading weights.

    `model.tar.gz#NAME` is one of several biLMs in an AllenNLP model.
    """
    base, _, bilm = str(path).rpartition("#")
    if base and bilm and not path.exists() and Path(base).exists():
        found = find(Path(base), options, vocabulary)
        if found.kind != "allennlp":
            raise CheckpointError(f"{path}: expected no #{bilm}, as {base} is not AllenNLP's model")
        return replace(found, bilm=bilm)
    path = models.locate(path)
    if path.is_dir():
        source = _find_in_folder(path, options, vocabulary)
    elif (prefix := tf_checkpoint.find_prefix(path)) is not None:
        source = _find_checkpoint(prefix, options, vocabulary)
    elif not path.is_file():
        what = "not a plain file" if path.exists() else "no such file or folder"
        raise CheckpointError(
            f"{path}: {what}, expected a model folder, a weights.hdf5, an archive, or a name such "
            f"as {models.ENGLISH!r}{catalog.nearest(path.as_posix())}"
        )
    elif path.suffix in hdf5.ENDINGS or h5py.is_hdf5(path):
        source = _find_hdf5(path, options, vocabulary)
    elif is_archive(path):
        return _find_in_archive(path, options, vocabulary)
    elif allennlp.is_weights(path):
        source = Source("allennlp", path, options)
    else:
        source = None
    if source is None:
        raise CheckpointError(
            f"{path}: not a model, expected a model folder, a weights.hdf5, a weights.th, or an "
            "archive of one"
        )
    return source


def read(
    path: Path,
    options: Path | None = None,
    vocabulary: Path | None = None,
    softmax: Path | None = None,
) -> Model:
    """Read any model; `vocabulary` is for formats with a separate file of words.

    With a `softmax`, it is the vocabulary of that file.
    """
    if softmax is not None:
        if vocabulary is None:
            raise ConfigError("softmax is given without vocabulary, expected both")
        return attach_softmax(_read_alone(path, options), softmax, vocabulary)
    release = None if path.exists() else catalog.releases().get(path.as_posix())
    if release is None or not (release.softmax and release.vocabulary):
        return _read_alone(path, options, vocabulary)
    if vocabulary is not None:
        raise ConfigError(
            f"{path}: this model has its own vocabulary, but {vocabulary} was given; omit it, or "
            "load it with a softmax (softmax= or --softmax, where available)"
        )
    folder = models.locate(path)
    model = _read_alone(folder, options)
    return attach_softmax(model, folder / release.softmax, folder / release.vocabulary)


def _read_alone(path: Path, options: Path | None, vocabulary: Path | None = None) -> Model:
    """Read a model, without a softmax from another file."""
    source = find(path, options, vocabulary)
    if vocabulary is not None and source.vocabulary is None:
        raise ConfigError(
            f"{path}: this format has no separate vocabulary file, but {vocabulary} was given; "
            "omit it, or load it with a softmax (softmax= or --softmax, where available)"
        )
    if source.note is not None and source.note != AS_RELEASED:
        warnings.warn(f"{path}: {source.note}", stacklevel=2)
    if source.kind == "folder":
        return model_folder.load(source.file.parent)
    if source.kind == "many-langs":
        return many_langs.read(source.weights.parent, source.options)
    if source.kind == "token-cache":
        return token_cache.read(source.weights, source.vocabulary)
    if source.kind == "allennlp":
        return allennlp.read(source.weights, source.options, source.bilm)
    if source.kind in ("tf-checkpoint", "tf-hub"):
        prefix = tf_checkpoint.find_prefix(source.weights)
        assert prefix is not None
        return tf_checkpoint.read(prefix, source.options, source.vocabulary)
    assert source.options is not None
    return bilm_hdf5.read(source.weights, source.options, source.vocabulary)


def attach_softmax(model: Model, softmax: Path, vocabulary: Path) -> Model:
    """The model with a softmax and an output vocabulary from separate files."""
    words = read_word_list(vocabulary)
    projection_dim = model.bilm.config.lstm.projection_dim
    state = bilm_hdf5.read_softmax(softmax, words, projection_dim)
    with torch.device("meta"):
        head = build_head("full", len(words.vocabulary), projection_dim)
    model_folder.fill(head, state, str(softmax))
    return replace(model, head=head.eval(), vocabulary=words.vocabulary)


def write(path: Path, model: Model, *, is_half: bool = False) -> None:
    """Write a model: as official files if the path has an HDF5 suffix, else as a model folder."""
    if path.suffix in hdf5.ENDINGS:
        write_official(path, model)
    else:
        model_folder.save(path, model, dtype=torch.float16 if is_half else torch.float32)


def write_official(weights: Path, model: Model) -> None:
    """Write a `weights.hdf5`, and beside it its `options.json`, vocabulary and softmax."""
    model.refuse_alignment(f"{weights} (official format)")
    config = model.bilm.config
    if weights.is_dir():  # before the files beside it are written
        raise WriteError(f"{weights}: cannot be written (Is a directory)")
    with ExitStack() as files:
        temporary = files.enter_context(atomic_write(weights))
        bilm_hdf5.write_weights(temporary, config, model.bilm.state_dict())
        beside = {"options.json": bilm_options.write_options(config)}
        words = model.bilm.word_encoder.lexicon.words or model.vocabulary
        if words is not None:
            beside["vocab.txt"] = "".join(f"{word}\n" for word in words.words)
        written = set(beside)
        for name, text in beside.items():
            path = weights.with_name(name)
            _refuse_file_of_another_model(path, text, weights)
            files.enter_context(atomic_write(path)).write_bytes(text.encode("utf-8"))
        if model.head is not None and model.head.kind != "adaptive":
            path = weights.with_name(SOFTMAX)
            if path.exists() and not weights.exists():
                raise _of_another_model(path, weights)
            bilm_hdf5.write_softmax(files.enter_context(atomic_write(path)), model.head)
            written.add(SOFTMAX)
        elif model.head is not None:
            warnings.warn(
                f"{weights}: the adaptive softmax is not written; the official format does not "
                "support it",
                stacklevel=2,
            )
        for name in {"vocab.txt", SOFTMAX} - written:  # readers would take it for this model's
            if weights.with_name(name).exists():
                raise _of_another_model(weights.with_name(name), weights)


def _find_in_archive(path: Path, options: Path | None, vocabulary: Path | None) -> Source:
    """The only model of an archive, in any of its folders."""
    found: list[Source] = []
    folders = Archive(path).folders()
    while folders:
        folder = folders.pop(0)
        source = _find_kind(folder, options, vocabulary)
        if source is not None:
            found.append(source)
            folders = [f for f in folders if folder.inside not in f.inside.parents]
    if len(found) != 1:
        names = ", ".join(str(source.weights) for source in found) or "none"
        raise CheckpointError(
            f"{path}: {len(found)} models inside ({names}), expected one; unpack it and give the "
            "path of one"
        )
    return replace(found[0], archive=path)


def _find_in_folder(folder: Path, options: Path | None, vocabulary: Path | None) -> Source:
    if model_folder.is_model_folder(folder):
        if options is not None:
            raise CheckpointError(
                f"{folder}: a model folder, which has its own {model_folder.CONFIG}, expected no "
                f"options; leave {options} out"
            )
        return Source("folder", folder / model_folder.WEIGHTS)
    source = _find_kind(folder, options, vocabulary)
    if source is None:
        archives = [p for p in sorted(folder.iterdir()) if p.is_file() and is_archive(p)]
        if len(archives) == 1:
            return _find_in_archive(archives[0], options, vocabulary)
        raise CheckpointError(
            f"{folder}: not a model folder; expected {model_folder.CONFIG} and "
            f"{model_folder.WEIGHTS}, or one official weights file"
        )
    return source


def _find_kind(
    folder: AnyPath, options: AnyPath | None, vocabulary: AnyPath | None
) -> Source | None:
    """The format of the files of a folder; HDF5 weights take precedence over a checkpoint."""
    if many_langs.is_model(folder):
        return Source("many-langs", folder / many_langs.LSTMS, options)
    if (weights := allennlp.find_weights(folder)) is not None:
        options = options or next(iter(_options_in(weights)), None)
        return Source("allennlp", weights, options, note=None if options else AS_RELEASED)
    prefix = tf_checkpoint.find_prefix(folder)
    weights = _weights_in(folder)
    if weights is None:
        return None if prefix is None else _find_checkpoint(prefix, options, vocabulary)
    source = _find_hdf5(weights, options, vocabulary)
    if prefix is None:
        return source
    note = f"{weights.name} is read; the checkpoint {prefix.name} beside it is not"
    return replace(source, note=note)


def _find_checkpoint(
    prefix: AnyPath, options: AnyPath | None, vocabulary: AnyPath | None
) -> Source:
    weights = tf_checkpoint.data_file(prefix)
    if tf_checkpoint.is_module(prefix):
        return Source("tf-hub", weights, options, note=None if options else AS_RELEASED)
    words = vocabulary or _vocabulary_beside(prefix)
    return Source("tf-checkpoint", weights, options or _options_beside(prefix), words)


def _find_hdf5(weights: AnyPath, options: AnyPath | None, vocabulary: AnyPath | None) -> Source:
    if token_cache.is_cache(weights):
        return Source("token-cache", weights, None, vocabulary or _vocabulary_beside(weights))
    options = options or _options_beside(weights)
    if bilm_options.reads_characters(options):
        return Source("official", weights, options)
    return Source("official", weights, options, vocabulary or _vocabulary_beside(weights))


def _weights_in(folder: AnyPath) -> AnyPath | None:
    """The HDF5 file with a network; softmaxes and caches of vectors may be beside it."""
    found = files_like(folder, *(f"*{ending}" for ending in hdf5.ENDINGS))
    if len(found) == 1:
        return found[0]  # may be broken: the reader reports how
    networks = [path for path in found if bilm_hdf5.has_official_layout(path)]
    if len(networks) == 1:
        return networks[0]
    if not found:
        return None
    names = ", ".join(path.name for path in networks or found)
    raise CheckpointError(
        f"{folder}: {len(networks)} of its HDF5 files hold a network, expected one ({names}); give "
        "the path of the file"
    )


def _options_beside(weights: AnyPath) -> AnyPath:
    namesake = weights.name.replace("weights", "options").rpartition(".")[0] + ".json"
    for candidate in (weights.with_name(namesake), weights.with_name("options.json")):
        if candidate.is_file():
            return candidate
    others = _options_in(weights)
    if len(others) == 1:
        return others[0]
    found = ", ".join(other.name for other in others) or "none"
    raise CheckpointError(
        f"{weights}: no options.json beside it, expected one with its sizes (found: {found}); "
        "give it with options= or --options"
    )


def _options_in(weights: AnyPath) -> list[AnyPath]:
    """Options files in the folder of the weights, or else anywhere in their archive."""
    beside = files_like(weights.parent, *OPTIONS)
    if beside or not isinstance(weights, Member):
        return beside
    folders = weights.archive.folders()
    return [path for folder in folders for path in files_like(folder, *OPTIONS)]


def _vocabulary_beside(weights: AnyPath) -> AnyPath | None:
    found = files_like(weights.parent, "*vocab*.txt", "*vocab*.txt.gz")
    exact = [path for path in found if path.name in ("vocab.txt", "vocab.txt.gz")]
    return exact[0] if exact else found[0] if len(found) == 1 else None


def _refuse_file_of_another_model(path: Path, text: str, weights: Path) -> None:
    """Refuse to overwrite a file that belongs to other weights in the same folder."""
    if path.exists() and not weights.exists() and path.read_bytes() != text.encode("utf-8"):
        raise _of_another_model(path, weights)


def _of_another_model(path: Path, weights: Path) -> CheckpointError:
    return CheckpointError(
        f"{path}: belongs to another model and would be overwritten or read with {weights.name}; "
        "write to another folder"
    )
