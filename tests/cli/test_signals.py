"""Ctrl-C and SIGTERM: the command ends immediately, and unfinished files are removed."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from elmo.files.atomic import is_temporary
from tests.pretraining.tiny_text import write_text

pytestmark = pytest.mark.skipif(os.name == "nt", reason="Windows has other signals")
CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}


def start(*arguments, **streams):
    return subprocess.Popen(
        [sys.executable, "-m", "elmo", *map(str, arguments)],
        env=os.environ | {"OMP_NUM_THREADS": "1"},
        stderr=subprocess.PIPE,
        text=True,
        # A program in the background of a script ignores Ctrl-C; its children would, too.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),
        **streams,
    )


def wait_for(condition, process):
    while not condition():
        assert process.poll() is None, process.stderr.read()
        time.sleep(0.01)


def end(process, number):
    """Send a signal to this process alone, and check that it ends as a shell expects."""
    process.send_signal(number)
    _, messages = process.communicate()
    # Python itself dies of SIGINT if it is interrupted within some of its own code.
    assert process.returncode in (CODES[number], -number), messages
    assert "Traceback" not in messages


@pytest.mark.parametrize("number", CODES)
@pytest.mark.parametrize("ending", ["h5", "jsonl", "npz", "parquet"])
def test_an_unfinished_file_is_removed(tmp_path, official, ending, number):
    out = tmp_path / "out"
    out.mkdir()
    process = start("embed", "-", "-o", out / f"v.{ending}", "-m", official, stdin=subprocess.PIPE)
    process.stdin.write("I took a bow.\n" * 100)
    process.stdin.flush()
    wait_for(lambda: list(out.iterdir()), process)
    end(process, number)
    assert not list(out.iterdir())


@pytest.mark.parametrize("number", CODES)
def test_an_unfinished_index_is_removed(tmp_path, official, number):
    out = tmp_path / "out"
    out.mkdir()
    write_text(tmp_path / "text.txt", 200_000, 1)
    process = start("index", tmp_path / "text.txt", "-o", out / "index", "-m", official)
    wait_for(lambda: list(out.glob(".*/sentences.jsonl")), process)
    end(process, number)
    assert not list(out.iterdir())


def test_an_unfinished_cache_of_text_is_removed(tmp_path):
    write_text(tmp_path / "text.txt", 200_000, 1)
    texts = "--train", tmp_path / "text.txt", "--heldout", tmp_path / "text.txt"
    process = start("pretrain", *texts, "--size", "tiny", "--out", tmp_path / "run")
    wait_for(lambda: list(tmp_path.glob("run/cache/.*/tokens.bin")), process)
    end(process, signal.SIGTERM)
    assert not (tmp_path / "run").exists()


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc, to see other processes")
@pytest.mark.parametrize("number", CODES)
def test_workers_end_with_a_parent_that_alone_gets_the_signal(tmp_path, official, number):
    corpus, out = tmp_path / "corpus", tmp_path / "out"
    corpus.mkdir()
    for k in range(300):
        write_text(corpus / f"{k}.txt", 100, k)
    process = start("embed", corpus, "-o", out, "-m", official, "--workers", 2)
    wait_for(lambda: list(out.glob("*.parquet")), process)
    lists = Path(f"/proc/{process.pid}/task").glob("*/children")
    children = [Path(f"/proc/{pid}") for found in lists for pid in found.read_text().split()]
    workers = [pid for pid in children if b"spawn_main" in (pid / "cmdline").read_bytes()]
    assert len(workers) == 2
    end(process, number)
    assert not any(worker.exists() for worker in workers)
    names = [path.name for path in out.iterdir()]
    assert 0 < len(names) < 300
    assert not [name for name in names if is_temporary(name)]


@pytest.mark.parametrize("number", CODES)
def test_a_signal_within_a_callback_of_a_weak_reference_is_not_lost(number):
    script = f"""
import os, sys, time, weakref
from elmo.cli.signals import INTERRUPTED, ended_by_signals

class Freed: pass

freed = Freed()
reference = weakref.ref(freed, lambda _: os.kill(os.getpid(), {int(number)}))
try:
    with ended_by_signals():
        del freed
        time.sleep(0.2)  # the rest of the work, which must not end as if nothing had happened
except KeyboardInterrupt:
    sys.exit(INTERRUPTED)
"""
    done = subprocess.run([sys.executable, "-c", script], stderr=subprocess.PIPE, check=False)
    assert done.returncode == CODES[number]
    assert not done.stderr


@pytest.mark.parametrize("number", CODES)
@pytest.mark.parametrize("method", ["write", "seek", "truncate"])
def test_a_signal_within_a_callback_of_hdf5_is_not_an_error(tmp_path, method, number):
    script = f"""
import io, os, sys
from elmo.cli.signals import INTERRUPTED, ended_by_signals
from elmo.files.hdf5 import hdf5_in

class Signaling(io.FileIO):
    def {method}(self, *arguments):
        os.kill(os.getpid(), {int(number)})
        return super().{method}(*arguments)

path = {str(tmp_path / "a.h5")!r}
try:
    with ended_by_signals(), Signaling(path, "w+") as raw, hdf5_in(raw) as file:
        file["numbers"] = list(range(1000))
except KeyboardInterrupt:
    sys.exit(INTERRUPTED)
"""
    done = subprocess.run([sys.executable, "-c", script], stderr=subprocess.PIPE, check=False)
    assert done.returncode == CODES[number], done.stderr


def test_a_signal_does_not_interrupt_the_removal_of_what_is_unfinished(tmp_path):
    script = f"""
import os, signal, time
from pathlib import Path
from elmo.cli.signals import ended_by_signals

with ended_by_signals():
    try:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(60)
    finally:
        os.kill(os.getpid(), signal.SIGTERM)
        time.sleep(0.1)
        Path({str(tmp_path / "removed")!r}).touch()
"""
    done = subprocess.run([sys.executable, "-c", script], check=False)
    assert done.returncode == CODES[signal.SIGTERM]
    assert (tmp_path / "removed").exists()
