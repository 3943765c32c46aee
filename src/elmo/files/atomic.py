"""Atomic writes: a file or folder appears complete at its path, or not at all.

In: a path, and the content to write. Out: the file or folder. Every writer uses its own temporary
path beside the target, so several processes may write the same target: the last one wins. Leftovers
of a killed writer (hidden `.NAME.*.tmp` files) are removed by the next writer of that target.
"""

import errno
import glob
import json
import os
import shutil
import stat
import uuid
from collections.abc import Collection, Iterable, Iterator
from contextlib import contextmanager, suppress
from fnmatch import fnmatchcase
from pathlib import Path

from filelock import FileLock

from elmo.errors import WriteError

# Hidden names beside `NAME`: `.NAME.TOKEN.tmp`, its lock, and a folder that is being replaced.
SUFFIX, LOCK_SUFFIX, OLD_SUFFIX = ".tmp", ".tmp.lock", ".tmp.old"
# A writer that looks for leftovers may briefly hold the new lock of another, which waits for it.
LOCK_SECONDS = 60
BUFFER_BYTES = 2**20
# Errors when a folder is renamed to an existing one; on Windows this is a permission error.
FOLDER_EXISTS = (errno.ENOTEMPTY, errno.EEXIST, *([errno.EACCES] if os.name == "nt" else []))


@contextmanager
def atomic_write(path: Path, *, durable: bool = False, overwrite: bool = True) -> Iterator[Path]:
    """Yield a temporary path for a new file or folder, which is renamed to `path` at the end.

    On any exception the temporary file is removed and `path` is unchanged. `durable` syncs the
    content to disk, so that a power failure after the return loses nothing. Without `overwrite` a
    target that another process has written in the meantime is kept.
    """
    target = Path(os.path.realpath(path))
    temporary = target.with_name(f".{target.name}.{uuid.uuid4().hex[:12]}{SUFFIX}")
    try:
        if _is_special(path):  # it would be replaced
            raise WriteError(f"{path}: cannot be written (a pipe or a device, expected a file)")
        _remove_leftovers(target.parent.glob(f".{glob.escape(target.name)}.*{LOCK_SUFFIX}"))
        with _marked_as_used(temporary):
            try:
                yield temporary
                if durable:
                    _sync_all(temporary)
                if overwrite or not target.exists():
                    _replace(temporary, target, overwrite=overwrite)
                if durable:
                    _sync(target.parent)
            finally:
                _remove(temporary)
    except WriteError as error:  # raised for a file in the temporary folder
        raise WriteError(str(error).replace(str(temporary), str(path))) from error
    except OSError as error:
        raise _write_error(path, error) from error


@contextmanager
def atomic_folder(path: Path, *, durable: bool = False, overwrite: bool = True) -> Iterator[Path]:
    """Yield an empty temporary folder, like `atomic_write`; create missing parent folders.

    On any exception these are removed again, unless they are no longer empty.
    """
    parent = Path(os.path.realpath(path)).parent
    missing = [folder for folder in (parent, *parent.parents) if not folder.exists()]
    try:
        try:
            parent.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise _write_error(path, error) from error
        with atomic_write(path, durable=durable, overwrite=overwrite) as temporary:
            temporary.mkdir()
            yield temporary
    except BaseException:
        for folder in missing:
            with suppress(OSError):
                folder.rmdir()
        raise


def why_not_replaceable(folder: Path, marker: str, own_files: Collection[str]) -> str | None:
    """Why a folder must not be replaced; None if it is new, empty, or of the same kind.

    A folder of the same kind has the file `marker` and nothing but `own_files`, names or globs.
    Without the marker, even a file with such a name, like README.md, may be the user's own.
    """
    if not folder.exists():
        return None
    if not folder.is_dir():
        return "is a file"
    is_of_kind = (folder / marker).is_file()
    for path in sorted(folder.iterdir()):
        is_own = path.is_file() and any(fnmatchcase(path.name, name) for name in own_files)
        if not (is_of_kind and is_own):
            return f"contains {path.name!r}"
    return None


def write_text(path: Path, text: str, *, durable: bool = False) -> None:
    """Write a text file atomically, as UTF-8."""
    with atomic_write(path, durable=durable) as temporary:
        temporary.write_text(text, encoding="utf-8", newline="\n")


def write_json(path: Path, value: object, *, durable: bool = False) -> None:
    """Write a JSON file atomically."""
    write_text(path, json.dumps(value, indent=2) + "\n", durable=durable)


def allocate(path: Path, n_bytes: int) -> None:
    """Write a file of zeros, to be changed through a memory map: with a sparse file, a full disk
    would kill the process.
    """
    with path.open("wb") as file:
        for start in range(0, n_bytes, BUFFER_BYTES):
            file.write(bytes(min(BUFFER_BYTES, n_bytes - start)))


def recover(folder: Path) -> None:
    """Remove leftovers of killed writers in a folder, and restore folders they were replacing."""
    _remove_leftovers(folder.rglob(f".*{LOCK_SUFFIX}"))


def is_temporary(name: str) -> bool:
    """Whether a file name is a temporary one of `atomic_write`."""
    return name.startswith(".") and name.endswith((SUFFIX, LOCK_SUFFIX, OLD_SUFFIX))


def _remove_leftovers(lock_paths: Iterable[Path]) -> None:
    for lock_path in list(lock_paths):
        # A lock that cannot be acquired belongs to a running writer.
        with suppress(OSError), FileLock(lock_path, timeout=0):
            temporary = lock_path.with_suffix("")
            target = temporary.with_name(temporary.name[1:].rsplit(".", 2)[0])
            _restore(temporary.with_suffix(OLD_SUFFIX), target)
            _remove(temporary)
            _remove_lock(lock_path)


def _is_special(path: Path) -> bool:
    # One call: between several, another writer may have replaced a folder.
    try:
        mode = path.stat().st_mode
    except (OSError, ValueError):  # nothing there
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))


def _write_error(path: Path, error: OSError) -> WriteError:
    return WriteError(f"{path}: cannot be written ({error.strerror or error})")


@contextmanager
def _marked_as_used(temporary: Path) -> Iterator[None]:
    """Hold a lock that shows other writers that this one is alive."""
    lock = FileLock(temporary.with_suffix(LOCK_SUFFIX), thread_local=False)
    try:
        # Without a lock the name is still unique, but leftovers are never removed.
        if temporary.parent.is_dir():  # filelock would create it
            with suppress(OSError):
                lock.acquire(timeout=LOCK_SECONDS, poll_interval=0.01)
        yield
    finally:
        lock.release()
        # No other writer uses this name, so no process still waits for the removed lock file.
        _remove_lock(Path(lock.lock_file))


def _replace(temporary: Path, target: Path, *, overwrite: bool) -> None:
    """Rename; a folder cannot be replaced in one step, so the old one is moved away first."""
    old = temporary.with_suffix(OLD_SUFFIX)
    while True:
        try:
            os.replace(temporary, target)
            break
        except OSError as error:
            # A permission error may have other causes.
            exists = error.errno in FOLDER_EXISTS and (
                error.errno != errno.EACCES or target.is_dir()
            )
            if not exists or not temporary.is_dir():
                _restore(old, target)
                raise
        if not overwrite:
            break
        _remove(old)
        with suppress(FileNotFoundError):  # another writer has moved it
            os.replace(target, old)
    _remove(old)


def _restore(old: Path, target: Path) -> None:
    """Move a folder back unless another one has taken its name."""
    if not target.exists():
        with suppress(OSError):  # there is no old one, or another writer was faster
            os.replace(old, target)
    if target.exists():  # otherwise the old one is the only copy
        _remove(old)


def _remove_lock(lock_path: Path) -> None:
    """Remove a writer's lock, unless it is needed to find a folder that must be moved back."""
    if not lock_path.with_suffix("").with_suffix(OLD_SUFFIX).exists():
        _remove(lock_path)


def _sync_all(path: Path) -> None:
    for below in path.rglob("*") if path.is_dir() else ():
        _sync(below)
    _sync(path)


def _sync(path: Path) -> None:
    if path.is_dir() and os.name == "nt":
        return  # Windows cannot open a folder
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _remove(path: Path) -> None:
    if path.is_dir():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()
