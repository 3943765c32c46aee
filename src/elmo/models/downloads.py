"""Released models, downloaded once and kept in the user's cache.

In: the name of a model in the catalog, or `hf:owner/name`. Out: the folder of its files, all of
them complete. Environment: `ELMO_HOME` is the cache (default: `elmo` in the user's cache folder),
`ELMO_OFFLINE=1` forbids downloads, `ELMO_MIRROR` is an address under which files are found by host
and path.
"""

import hashlib
import json
import logging
import os
import warnings
from dataclasses import asdict, dataclass
from pathlib import Path
from urllib.parse import urlsplit

from elmo.errors import CheckpointError, ConfigError
from elmo.files.atomic import write_json
from elmo.files.locks import exclusive
from elmo.models import catalog
from elmo.models.catalog import HUGGING_FACE, Release
from elmo.models.identity import file_hash

RECORD = "download.json"  # what was downloaded: hashes by file name
LOCK = ".lock"
# The files of a Hugging Face repository that a model may consist of.
PATTERNS = [
    *("*.json", "*.hdf5", "*.h5", "*.safetensors", "*.th", "*.txt", "*.txt.gz", "*.pkl", "*.dic"),
    *("*.zip", "*.tar.gz", "*.tgz", "variables/*", "vocabulary/*", "saved_model.pb"),
]

logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Downloaded:
    """The record of a downloaded file."""

    url: str
    sha256: str
    n_bytes: int


def cache_folder() -> Path:
    """The folder of downloaded models."""
    home = os.environ.get("ELMO_HOME")
    if home:
        return Path(home).expanduser() / "models"
    try:
        cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    except RuntimeError as error:
        raise ConfigError("no home folder is known, expected one, or ELMO_HOME") from error
    return Path(cache) / "elmo" / "models"


def folder_of(release: Release) -> Path:
    """The folder of a model's files, which may not be downloaded yet."""
    return cache_folder() / release.name.replace(":", "-")


def is_here(release: Release) -> bool:
    """Whether all files of a model are in the cache."""
    names = release.file_names()
    return bool(names) and all((folder_of(release) / name).is_file() for name in names)


def fetch(name: str) -> Path:
    """Return the folder of a model's files; missing files are downloaded first."""
    if name.startswith(HUGGING_FACE):
        return _fetch_from_hub(name.removeprefix(HUGGING_FACE))
    return fetch_release(catalog.find(name))


def fetch_release(release: Release) -> Path:
    """Like `fetch`, for a release."""
    folder = folder_of(release)
    if not release.files:
        if folder.is_dir() and any(not p.name.startswith(".") for p in folder.iterdir()):
            return folder  # put there by hand
        raise CheckpointError(
            f"{release.name}: no download URL is known; download the model from {release.page} and "
            f"put its files into {folder}"
        )
    if is_here(release):
        return folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CheckpointError(f"{folder}: cannot be created ({error.strerror})") from error
    with exclusive(folder / LOCK, wait=True):
        for file_name, url in release.file_names().items():
            if not (folder / file_name).is_file():  # another process may have been first
                _download(release, file_name, url, folder)
    return folder


def _download(release: Release, file_name: str, url: str, folder: Path) -> None:
    path, partial = folder / file_name, folder / f".{file_name}.part"
    by_hand = f"download {url} yourself and put it at {path}"
    if os.environ.get("ELMO_OFFLINE", "0") not in ("", "0"):
        raise CheckpointError(f"{path}: no such file, and ELMO_OFFLINE is set; {by_hand}")
    address = _mirrored(url)
    logger.info("%s: %s (%s)", release.name, address, release.about)
    _get(address, partial, file_name, by_hand)
    found = file_hash(partial)
    record = _read_record(folder)
    known = release.hash_of(file_name)
    if known is not None and found != known:
        partial.unlink()
        raise CheckpointError(
            f"{address}: SHA-256 {found}, expected {known}; the file was damaged or changed, and "
            "is removed"
        )
    before = record.get(file_name)
    if known is None and before is not None and before.sha256 != found:
        warnings.warn(
            f"{address}: has changed since it was first downloaded (SHA-256 {found}, before "
            f"{before.sha256})",
            stacklevel=2,
        )
    record[file_name] = Downloaded(address, found, partial.stat().st_size)
    write_json(folder / RECORD, {name: asdict(each) for name, each in record.items()})
    os.replace(partial, path)


def _get(address: str, partial: Path, file_name: str, by_hand: str) -> None:
    """Download to a file; an interrupted download is resumed."""
    from huggingface_hub.file_download import http_get

    # A download from another address is not resumed.
    marker = partial.with_suffix(".address")
    digest = hashlib.sha256(address.encode()).hexdigest()
    if not marker.is_file() or marker.read_text() != digest:
        partial.unlink(missing_ok=True)
        marker.write_text(digest)
    try:
        with partial.open("ab") as file:
            http_get(
                address, file, resume_size=partial.stat().st_size, displayed_filename=file_name
            )
    except Exception as error:  # the type depends on the version of huggingface_hub
        status = getattr(getattr(error, "response", None), "status_code", None)
        if status == 416:  # the partial file is complete, or longer than the server's
            partial.unlink()
        what = f"HTTP {status}" if status else " ".join(str(error).split()) or type(error).__name__
        raise CheckpointError(
            f"{address}: not downloaded ({what}); try again, or {by_hand}"
        ) from None
    marker.unlink()


def _mirrored(url: str) -> str:
    mirror = os.environ.get("ELMO_MIRROR")
    if not mirror:
        return url
    parts = urlsplit(url)
    return f"{mirror.rstrip('/')}/{parts.netloc}{parts.path}"


def _read_record(folder: Path) -> dict[str, Downloaded]:
    try:
        record = json.loads((folder / RECORD).read_text(encoding="utf-8"))
        return {name: Downloaded(**each) for name, each in record.items()}
    except (OSError, ValueError, TypeError, AttributeError):
        return {}


def _fetch_from_hub(repository: str) -> Path:
    from huggingface_hub import snapshot_download

    name, _, revision = repository.partition("@")
    is_offline = os.environ.get("ELMO_OFFLINE", "0") not in ("", "0")
    try:
        return Path(
            snapshot_download(
                name,
                revision=revision or None,
                allow_patterns=PATTERNS,
                local_files_only=is_offline,
            )
        )
    except Exception as error:  # as in `_get`
        reason = " ".join(str(error).split())[:300]
        raise CheckpointError(
            f"{HUGGING_FACE}{repository}: not downloaded ({reason}), expected a public repository "
            "owner/name of Hugging Face"
        ) from None
