"""Locks between processes: held by one process, and released however it ends."""

import errno
import signal
import subprocess
import sys
import threading

import pytest

from elmo.errors import ConfigError, WriteError
from elmo.files.locks import exclusive

HOLD = """
import sys
from pathlib import Path
from elmo.files.locks import exclusive
with exclusive(Path(sys.argv[1])):
    print("held", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def holder(tmp_path):
    command = [sys.executable, "-c", HOLD, str(tmp_path / "a.lock")]
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
    with subprocess.Popen(command, text=True, **pipes) as process:
        assert process.stdout.readline() == "held\n"
        yield process
        process.kill()


def test_a_lock_that_another_process_holds_is_refused_at_once(holder, tmp_path):
    with (
        pytest.raises(ConfigError, match="another process is writing here; wait until"),
        exclusive(tmp_path / "a.lock"),
    ):
        pytest.fail("two processes hold the lock")


def test_a_killed_process_frees_its_lock(holder, tmp_path):
    holder.kill()
    assert holder.wait() == -signal.SIGKILL
    with exclusive(tmp_path / "a.lock"):
        pass


def test_waiting_ends_when_the_other_process_does(holder, tmp_path):
    threading.Timer(0.2, holder.stdin.close).start()
    with exclusive(tmp_path / "a.lock", wait=True):
        assert holder.wait() == 0


def test_a_lock_is_held_against_the_same_process_too(tmp_path):
    with exclusive(tmp_path / "a.lock"), pytest.raises(ConfigError), exclusive(tmp_path / "a.lock"):
        pytest.fail("held twice")
    with exclusive(tmp_path / "a.lock"):
        pass


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has no flock")
def test_a_file_system_without_flock_has_locks(tmp_path, monkeypatch):
    import fcntl

    def flock(*_):
        raise OSError(errno.ENOSYS, "Function not implemented")

    monkeypatch.setattr(fcntl, "flock", flock)
    with (
        pytest.warns(UserWarning, match="flock not supported"),
        exclusive(tmp_path / "a.lock"),
        pytest.raises(ConfigError),
        exclusive(tmp_path / "a.lock"),
    ):
        pytest.fail("held twice")
    assert list(tmp_path.iterdir()) == []


def test_a_lock_that_cannot_be_made_is_one_error(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(WriteError, match="cannot be locked"), exclusive(tmp_path / "file" / "lock"):
        pytest.fail("there is no such folder")
