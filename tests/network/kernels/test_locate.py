"""Which kernel library is opened; each case has its own process and its own cache."""

import os
import platform
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from elmo.network.kernels import locate
from elmo.network.kernels.build import VARIANTS

pytestmark = pytest.mark.needs("compiler")

COMPILER = shutil.which(os.environ.get("CXX", "c++")) or "c++"
PROGRAM = "from elmo.network import kernels; print(kernels.describe())"


@pytest.fixture
def cache(tmp_path):
    return tmp_path / "cache"


@pytest.fixture
def counting_compiler(tmp_path):
    """A compiler that writes a line for each call."""
    script, calls = tmp_path / "counting-c++", tmp_path / "calls"
    script.write_text(f'#!/bin/sh\necho called >> "{calls}"\nexec {COMPILER} "$@"\n')
    script.chmod(0o755)
    calls.touch()
    return script, calls


def start(cache, **environment):
    kept = {name: value for name, value in os.environ.items() if name != "ELMO_KERNELS"}
    return subprocess.Popen(
        [sys.executable, "-c", PROGRAM],
        env=kept | {"XDG_CACHE_HOME": str(cache), "ELMO_KERNELS": "native"} | environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def described(cache, **environment):
    process = start(cache, **environment)
    out, err = process.communicate()
    assert process.returncode == 0, err
    return out.strip()


def library_in(cache) -> Path:
    (library,) = (cache / "elmo/kernels").glob("*.so")
    return library


def test_a_build_is_kept_and_used_where_no_compiler_is_left(cache, tmp_path, monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    assert described(cache) == "native build"
    (tmp_path / "empty").mkdir()
    assert described(cache, PATH=str(tmp_path / "empty")) == "native build"


@pytest.mark.parametrize(
    "damage", [lambda b: b[: len(b) // 2], lambda b: b[:5000] + b"\xff" * 8 + b[5008:]]
)
def test_a_damaged_library_is_built_again(cache, counting_compiler, damage):
    script, calls = counting_compiler
    assert described(cache, CXX=str(script)) == "native build"
    n_calls = len(calls.read_text().splitlines())
    library = library_in(cache)
    intact = library.read_bytes()
    library.write_bytes(damage(intact))
    assert described(cache, CXX=str(script)) == "native build"
    assert library.read_bytes() == intact
    assert len(calls.read_text().splitlines()) == 2 * n_calls


def test_processes_that_start_together_build_once(cache, counting_compiler):
    script, calls = counting_compiler
    processes = [start(cache, CXX=str(script)) for _ in range(4)]
    assert [process.communicate()[0].strip() for process in processes] == ["native build"] * 4
    assert calls.read_text().splitlines() == ["called"]


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() != 0,
    reason="only root can give a file to another user",
)
def test_a_library_of_another_user_is_not_opened(cache):
    assert described(cache) == "native build"
    os.chown(library_in(cache).parent, 12345, 12345)
    assert described(cache) == "native build of this process"


def test_nobody_else_can_write_to_the_cache(cache):
    (cache / "elmo/kernels").mkdir(parents=True)
    (cache / "elmo/kernels").chmod(0o777)
    described(cache)
    assert (cache / "elmo/kernels").stat().st_mode & 0o077 == 0
    assert library_in(cache).stat().st_mode & 0o077 == 0


def test_a_cache_that_is_a_file_is_survived(cache):
    cache.write_text("a file where a folder should be")
    assert described(cache) == "native build of this process"


def test_without_a_compiler_the_reason_is_given(cache, tmp_path):
    assert "no C++ compiler found" in described(cache, PATH=str(tmp_path), CXX="")
    assert "could not compile the kernels" in described(cache, CXX="false")


def test_a_prebuilt_library_that_cannot_be_opened_is_passed_over(tmp_path, monkeypatch):
    for name in VARIANTS.get(platform.machine(), [platform.machine()]):
        (tmp_path / f"{name}.so").write_bytes(b"for another C library")
    monkeypatch.setattr(locate, "PREBUILT", tmp_path)
    monkeypatch.delenv(locate.SETTING, raising=False)
    assert locate.open_library().description == "native build"
    monkeypatch.setenv(locate.SETTING, "prebuilt")
    with pytest.raises(OSError, match=str(tmp_path)):
        locate.open_library()


def test_the_setting_chooses(cache):
    assert described(cache, ELMO_KERNELS="off").startswith("none, PyTorch is used (ELMO_KERNELS is")
    assert "expected prebuilt, native or off" in described(cache, ELMO_KERNELS="fast")


def test_the_slow_path_is_one_warning(cache):
    process = start(cache, ELMO_KERNELS="off")
    _, err = process.communicate()
    assert err.count("RuntimeWarning: no compiled kernels") == 1
