"""Find the compiled library to use: one shipped with the wheel, or one built on this machine.

Out: an open library and a line that describes it, or the reason why there is none.
`ELMO_KERNELS` chooses: `prebuilt`, `native` or `off`; without it, prebuilt comes first. A native
build is kept in the user's cache folder, which no other user can write to. It is only opened if its
hash is the one that was written when it was built.
"""

import contextlib
import ctypes
import hashlib
import os
import platform
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from elmo.errors import WriteError
from elmo.files.atomic import atomic_write, write_text
from elmo.files.locks import exclusive
from elmo.network.kernels.build import (
    FLAGS,
    HEADERS,
    SOURCES,
    VARIANTS,
    BuildError,
    compile_native,
    find_compiler,
)

SETTING = "ELMO_KERNELS"
PREBUILT = Path(__file__).parent / "prebuilt"


@dataclass(frozen=True)
class OpenLibrary:
    """An open library and a short description of it."""

    functions: ctypes.CDLL
    description: str


def open_library() -> OpenLibrary:
    """Open the library for this machine and ELMO_KERNELS; raise BuildError if there is none."""
    setting = os.environ.get(SETTING, "")
    if setting not in ("", "prebuilt", "native", "off"):
        raise BuildError(f"{SETTING} is {setting!r}, expected prebuilt, native or off")
    if setting == "off":
        raise BuildError(f"{SETTING} is off")
    if sys.platform == "win32":
        raise BuildError("there are no kernels for Windows")
    if setting != "native":
        try:
            if (found := _open_prebuilt()) is not None:
                return found
        except OSError:  # such as one that needs a newer C library
            if setting == "prebuilt":
                raise
    if setting == "prebuilt":
        raise BuildError("this installation has no prebuilt kernels for this processor")
    return _open_native()


def _open_prebuilt() -> OpenLibrary | None:
    """Open the wheel's best library for this processor, if there is one."""
    by_name = {path.stem: path for path in PREBUILT.glob("*.so")}
    name = platform.machine()
    if name == "x86_64":
        variants = list(VARIANTS[name])
        if variants[0] not in by_name:
            return None
        level = int(ctypes.CDLL(str(by_name[variants[0]])).elmo_cpu_level())
        name = next(each for each in reversed(variants[: level - 1]) if each in by_name)
    if name not in by_name:
        return None
    return OpenLibrary(ctypes.CDLL(str(by_name[name])), f"prebuilt {name}")


def _open_native() -> OpenLibrary:
    """Open the cached library, built first if it is missing or damaged."""
    for folder in _cache_folders():
        library = folder / f"kernels-{_key()}.so"
        try:
            folder.mkdir(parents=True, exist_ok=True)
            _check_owner(folder)
            folder.chmod(0o700)  # from now on no other user can write to it
            if not _is_intact(library):
                compiler = find_compiler()
                with exclusive(folder / "build.lock", wait=True):  # one process builds for all
                    if not _is_intact(library):
                        _build(compiler, library)
            return OpenLibrary(ctypes.CDLL(str(library)), "native build")
        except (OSError, WriteError):  # not writable, or files in it may not be executed
            continue
    # Build for this process only; an open library stays open when its file is deleted.
    with tempfile.TemporaryDirectory() as folder_name:
        library = Path(folder_name) / "kernels.so"
        compile_native(find_compiler(), library)
        try:
            return OpenLibrary(ctypes.CDLL(str(library)), "native build of this process")
        except OSError as error:
            raise BuildError(f"{library.parent}: cannot be executed ({error})") from error


def _build(compiler: list[str], library: Path) -> None:
    with atomic_write(library) as temporary:
        compile_native(compiler, temporary)
        temporary.chmod(0o700)
        digest = _sha256(temporary)
    write_text(_hash_path(library), digest)


def _is_intact(library: Path) -> bool:
    """Whether the file is unchanged since it was built: a damaged library can crash the process."""
    with contextlib.suppress(OSError):
        _check_owner(library)
        _check_owner(_hash_path(library))
        return _hash_path(library).read_text(encoding="ascii").strip() == _sha256(library)
    return False


def _check_owner(path: Path) -> None:
    """Raise PermissionError if another user owns the path."""
    if path.stat().st_uid != os.geteuid():
        raise PermissionError(f"{path}: another user's")


def _hash_path(library: Path) -> Path:
    return library.with_suffix(".sha256")


def _sha256(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _cache_folders() -> Iterator[Path]:
    """The folder where native builds are kept, if this user has one."""
    with contextlib.suppress(RuntimeError):  # no home folder
        home = os.environ.get("XDG_CACHE_HOME")
        yield (Path(home) if home else Path.home() / ".cache") / "elmo" / "kernels"


def _key() -> str:
    """A hash of what a build depends on: the sources, the flags, $CXX and the processor."""
    parts = [repr((FLAGS, os.environ.get("CXX"))), _describe_processor()]
    digest = hashlib.sha256("\n".join(parts).encode())
    for source in (*SOURCES, *HEADERS):
        digest.update((Path(__file__).parent / source).read_bytes())
    return digest.hexdigest()[:20]


def _describe_processor() -> str:
    """All that -march=native may depend on: machines of different kinds can share a home folder."""
    described = f"{platform.platform()} {platform.processor()}"
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as lines:
        names = ("model", "flags", "Features", "CPU part")
        described += "".join(sorted({line for line in lines if line.startswith(names)}))
    return described
