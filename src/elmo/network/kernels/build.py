"""The compiled library: built by the machine's own compiler on first use, kept for the next time.

Out: the path of a shared library made of the C++ sources beside this file. It stands in the user's
cache folder under a name that says what it was built from, by and for, so it is never stale, and
two processes may build it at once.
"""

import contextlib
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

SOURCES = ("lstm_forward.cpp", "lstm_backward.cpp", "char_cnn.cpp", "highway.cpp")
HEADERS = ("parallel.h", "matrix.h", "pointwise.h", "lstm.h")
FLAGS = ("-std=c++17", "-O3", "-shared", "-fPIC", "-pthread")
BUILD_SECONDS = 120  # it takes three; a compiler that hangs must not hang the caller


class BuildError(Exception):
    """The library cannot be built here; the message says why in one line."""


@contextlib.contextmanager
def built_library() -> Iterator[Path]:
    """The path of the library, compiled unless it was kept; to be opened within the context."""
    compiler = _find_compiler()
    cache = _cache_folder()
    kept = cache / f"kernels-{_fingerprint(compiler)}.so"
    if not kept.exists():
        try:
            cache.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryDirectory(dir=cache) as folder:
                os.replace(_compile(compiler, Path(folder)), kept)
        except OSError:  # a cache that cannot be written: build for this process alone
            with tempfile.TemporaryDirectory() as folder:
                yield _compile(compiler, Path(folder))
            return
    yield kept


def _find_compiler() -> list[str]:
    named = shlex.split(os.environ.get("CXX", ""))
    for candidate in [named] if named else [["c++"], ["g++"], ["clang++"]]:
        if path := shutil.which(candidate[0]):
            return [path, *candidate[1:]]
    raise BuildError("no C++ compiler found (c++, g++, clang++ or $CXX); install one for speed")


def _cache_folder() -> Path:
    home = os.environ.get("XDG_CACHE_HOME")
    return (Path(home) if home else Path.home() / ".cache") / "elmo" / "kernels"


def _fingerprint(compiler: list[str]) -> str:
    """What the library depends on: the sources, the compiler, the flags and the processor."""
    found = Path(compiler[0]).resolve().stat()
    parts = [repr((compiler, found.st_size, found.st_mtime_ns, FLAGS)), _describe_processor()]
    digest = hashlib.sha256("\n".join(parts).encode())
    for source in (*SOURCES, *HEADERS):
        digest.update((Path(__file__).parent / source).read_bytes())
    return digest.hexdigest()[:20]


def _describe_processor() -> str:
    """All that -march=native may look at: a home folder can be shared by unlike machines."""
    described = f"{platform.platform()} {platform.processor()}"
    with contextlib.suppress(OSError), open("/proc/cpuinfo", encoding="utf-8") as lines:
        names = ("model", "flags", "Features", "CPU part")
        described += "".join(sorted({line for line in lines if line.startswith(names)}))
    return described


def _compile(compiler: list[str], folder: Path) -> Path:
    """For this very processor, or, where the compiler cannot, for all of its kind."""
    try:
        return _run_compiler([*compiler, "-march=native"], folder)
    except BuildError:
        return _run_compiler(compiler, folder)


def _run_compiler(compiler: list[str], folder: Path) -> Path:
    # Compiled as one text: the headers are read once, which is most of the time.
    text = "".join(f'#include "{source}"\n' for source in SOURCES)
    library = folder / "kernels.so"
    include = f"-I{Path(__file__).parent}"
    command = [*compiler, *FLAGS, include, "-x", "c++", "-", "-o", str(library), "-ldl"]
    try:
        done = subprocess.run(
            command, input=text, capture_output=True, text=True, timeout=BUILD_SECONDS
        )
    except subprocess.TimeoutExpired as problem:
        raise BuildError(f"{compiler[0]} did not finish in {BUILD_SECONDS} s") from problem
    if done.returncode != 0:
        first = next(iter(done.stderr.splitlines()), f"exit code {done.returncode}")
        raise BuildError(f"{compiler[0]} could not compile the kernels: {first}")
    return library
