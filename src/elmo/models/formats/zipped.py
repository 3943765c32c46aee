"""A model in a zip archive, as releases are, read without unpacking it.

In: the archive of an official model or of ELMoForManyLangs. Out: a `Model`.
"""

import zipfile
import zlib
from pathlib import Path, PurePosixPath

from elmo.errors import CheckpointError
from elmo.models.formats import bilm_hdf5, many_langs
from elmo.models.model_folder import Model

# A damaged member fails in the decompressor; an encrypted one or a rare method cannot be read.
BROKEN_ARCHIVE = (
    zipfile.BadZipFile,
    zlib.error,
    EOFError,
    UnicodeDecodeError,
    RuntimeError,
    NotImplementedError,
)


def read(path: Path, options: Path | None = None) -> Model:
    """Open the one model of an archive; `options` stands for the file of its sizes."""
    try:
        with zipfile.ZipFile(path) as archive:
            _check_names(archive)
            if _members(archive, many_langs.LSTMS):
                folder = PurePosixPath(_one_member(archive, many_langs.LSTMS)).parent
                return many_langs.read(zipfile.Path(archive) / str(folder), options)
            return _read_official(archive, options)
    except BROKEN_ARCHIVE as error:
        raise CheckpointError(
            f"{path}: a broken archive ({error}), expected a whole .zip; fetch it again"
        ) from error


def _read_official(archive: zipfile.ZipFile, options: Path | None) -> Model:
    weights = zipfile.Path(archive) / _one_member(archive, *bilm_hdf5.ENDINGS)
    return bilm_hdf5.read(
        weights, options or zipfile.Path(archive) / _one_member(archive, "options.json")
    )


def _check_names(archive: zipfile.ZipFile) -> None:
    for name in archive.namelist():
        if PurePosixPath(name).is_absolute() or ".." in PurePosixPath(name).parts:
            raise CheckpointError(
                f"{archive.filename}: member {name!r} points out of the archive, expected plain "
                "names; do not trust this file"
            )


def _one_member(archive: zipfile.ZipFile, *endings: str) -> str:
    found = _members(archive, *endings)
    if len(found) != 1:
        raise CheckpointError(
            f"{archive.filename}: {len(found)} members end with {' or '.join(endings)}, expected "
            "one of an ELMo model; unpack it and name the folder"
        )
    return found[0]


def _members(archive: zipfile.ZipFile, *endings: str) -> list[str]:
    return [
        name
        for name in archive.namelist()
        # Macs put a hidden twin beside each file.
        if name.endswith(endings) and not PurePosixPath(name).name.startswith(".")
    ]
