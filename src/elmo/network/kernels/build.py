"""Compile the kernels for this processor, or the variants that a wheel ships.

In: a compiler and flags. Out: a shared library. `hatch_build.py` loads this file by its path, so it
imports nothing but the standard library.
"""

import os
import shlex
import shutil
import subprocess
from pathlib import Path

SOURCES = (
    "cpu.cpp",
    "lstm_forward.cpp",
    "lstm_backward.cpp",
    "char_cnn.cpp",
    "highway.cpp",
    "softmax.cpp",
)
HEADERS = ("amx.h", "parallel.h", "matrix.h", "pointwise.h", "lstm.h")
FLAGS = ("-std=c++17", "-O3", "-shared", "-fPIC", "-pthread")
BUILD_SECONDS = 120  # it takes three; a hanging compiler must not block the caller

# The variants that a wheel ships for each machine: name and compiler flags. Those of x86-64 are in
# the order of the levels that `elmo_cpu_level` returns, from 2.
VARIANTS: dict[str, dict[str, tuple[str, ...]]] = {
    "x86_64": {
        "x86-64-v2": ("-march=x86-64-v2",),
        "x86-64-v3": ("-march=x86-64-v3",),
        "x86-64-v4": ("-march=x86-64-v4",),
        "x86-64-v4-bf16": ("-march=x86-64-v4", "-mavx512bf16"),
    },
    "aarch64": {"aarch64": ("-march=armv8-a",)},
    "arm64": {"arm64": ("-mcpu=apple-m1",)},
}
# A library in a wheel must not depend on the target machine's version of the C++ library.
PORTABLE_FLAGS = {"linux": ("-static-libstdc++", "-static-libgcc")}


class BuildError(Exception):
    """The library is not available on this machine; the message says why in one line."""


def find_compiler() -> list[str]:
    """The C++ compiler's command: $CXX, or the first of the usual names."""
    named = shlex.split(os.environ.get("CXX", ""))
    for candidate in [named] if named else [["c++"], ["g++"], ["clang++"]]:
        if path := shutil.which(candidate[0]):
            return [path, *candidate[1:]]
    raise BuildError("no C++ compiler found (c++, g++, clang++ or $CXX)")


def compile_native(compiler: list[str], library: Path) -> None:
    """Compile for this processor or, if the compiler cannot, for its architecture."""
    try:
        compile_library([*compiler, "-march=native"], library)
    except BuildError:
        compile_library(compiler, library)


def compile_library(compiler: list[str], library: Path) -> None:
    """Compile all sources as one translation unit: reading the headers takes most of the time."""
    text = "".join(f'#include "{source}"\n' for source in SOURCES)
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
