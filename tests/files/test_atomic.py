"""Atomic writes: complete or not at all, with several writers, failures and kills."""

import errno
import os
import signal
import stat
import subprocess
import sys

import pytest

from elmo.errors import ElmoError, WriteError
from elmo.files.atomic import (
    atomic_folder,
    atomic_write,
    is_temporary,
    recover,
    write_json,
    write_text,
)


def names(folder):
    return sorted(path.name for path in folder.iterdir())


def write_folder(path, text):
    path.mkdir()
    (path / "a.txt").write_text(text)


def test_a_file_appears_when_it_is_complete(tmp_path):
    with atomic_write(tmp_path / "a.txt") as temporary:
        temporary.write_text("new")
        assert not (tmp_path / "a.txt").exists()
    assert (tmp_path / "a.txt").read_text() == "new"
    assert names(tmp_path) == ["a.txt"]


@pytest.mark.parametrize("durable", [False, True])
def test_a_folder_replaces_an_older_one_as_a_whole(tmp_path, durable):
    write_folder(tmp_path / "out", "old")
    (tmp_path / "out" / "more.txt").touch()
    with atomic_write(tmp_path / "out", durable=durable) as temporary:
        write_folder(temporary, "new")
        (temporary / "below").mkdir()
    assert names(tmp_path / "out") == ["a.txt", "below"]
    assert (tmp_path / "out" / "a.txt").read_text() == "new"
    assert names(tmp_path) == ["out"]


def test_text_and_json_are_written_as_utf_8_with_unix_line_ends(tmp_path):
    write_text(tmp_path / "a.txt", "naïve\n東京\n")
    assert (tmp_path / "a.txt").read_bytes() == "naïve\n東京\n".encode()
    write_json(tmp_path / "a.json", {"a": [1, 2.5, None]}, durable=True)
    assert (tmp_path / "a.json").read_bytes().startswith(b'{\n  "a": [\n')


def test_missing_folders_are_made_for_a_folder_and_not_for_a_file(tmp_path):
    with atomic_folder(tmp_path / "a" / "b" / "c") as temporary:
        (temporary / "d.txt").write_text("text")
    assert (tmp_path / "a" / "b" / "c" / "d.txt").read_text() == "text"
    with pytest.raises(WriteError, match=r"absent/a\.txt: cannot be written \(No such file"):
        write_text(tmp_path / "absent" / "a.txt", "text")
    assert names(tmp_path) == ["a"]


def test_folders_that_were_made_for_a_failed_write_are_removed(tmp_path):
    def fail(path, other):
        with atomic_folder(path):
            other.touch()
            raise ValueError("bad")

    for other in (tmp_path / "other", tmp_path / "a" / "other"):
        with pytest.raises(ValueError, match="bad"):
            fail(tmp_path / "a" / "b" / "c", other)
        assert not (tmp_path / "a" / "b").exists()
    assert names(tmp_path) == ["a", "other"]
    assert names(tmp_path / "a") == ["other"]


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="Windows has no such files")
@pytest.mark.parametrize("name", ["pipe", "link"])
def test_a_pipe_is_not_replaced(tmp_path, name):
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "link").symlink_to("pipe")
    with pytest.raises(WriteError, match=rf"{name}: cannot be written \(a pipe or a device"):
        write_text(tmp_path / name, "text")
    assert (tmp_path / "pipe").is_fifo()
    assert names(tmp_path) == ["link", "pipe"]


def test_a_link_is_followed(tmp_path):
    (tmp_path / "real").mkdir()
    (tmp_path / "link").symlink_to(tmp_path / "real" / "a.txt")
    write_text(tmp_path / "link", "text")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "real" / "a.txt").read_text() == "text"


@pytest.mark.parametrize("error", [ValueError("bad"), KeyboardInterrupt(), OSError("disk")])
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_failure_leaves_the_old_content_and_nothing_else(tmp_path, kind, error):
    def write(path, text):
        path.write_text(text) if kind == "file" else write_folder(path, text)

    write(tmp_path / "out", "old")
    expected = WriteError if isinstance(error, OSError) else type(error)

    def fail():
        with atomic_write(tmp_path / "out") as temporary:
            write(temporary, "new")
            raise error

    with pytest.raises(expected):
        fail()
    assert names(tmp_path) == ["out"]
    content = tmp_path / "out" if kind == "file" else tmp_path / "out" / "a.txt"
    assert content.read_text() == "old"


def test_a_file_never_replaces_a_folder_nor_a_folder_a_file(tmp_path):
    write_folder(tmp_path / "folder", "old")
    (tmp_path / "file").write_text("old")
    with pytest.raises(WriteError, match="folder: cannot be written"):
        write_text(tmp_path / "folder", "new")
    with (
        pytest.raises(WriteError, match="file: cannot be written"),
        atomic_write(tmp_path / "file") as temporary,
    ):
        write_folder(temporary, "new")
    assert (tmp_path / "folder" / "a.txt").read_text() == (tmp_path / "file").read_text() == "old"
    assert names(tmp_path) == ["file", "folder"]


def test_an_error_of_the_system_is_one_line_with_the_path_and_the_reason(tmp_path):
    def fail(path):
        with atomic_write(path) as temporary:
            temporary.mkdir()
            write_text(temporary / "a.txt", "text")
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(temporary / "b.txt"))

    with pytest.raises(ElmoError) as caught:
        fail(tmp_path / "out")
    assert str(caught.value) == f"{tmp_path}/out: cannot be written (No space left on device)"


def test_an_error_in_a_file_of_a_new_folder_names_the_folder_that_was_asked_for(tmp_path):
    def fail(path):
        with atomic_write(path) as temporary:
            temporary.write_text("a file where a folder was expected")
            write_text(temporary / "a.txt", "text")

    with pytest.raises(WriteError) as caught:
        fail(tmp_path / "out")
    assert str(caught.value).startswith(f"{tmp_path}/out/a.txt: cannot be written (")


def test_a_path_below_a_file_cannot_be_written(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(WriteError, match=r"file/a\.txt: cannot be written"):
        write_text(tmp_path / "file" / "a.txt", "text")
    with (
        pytest.raises(WriteError, match="file/out: cannot be written"),
        atomic_folder(tmp_path / "file" / "out"),
    ):
        pytest.fail("nothing can be written here")


@pytest.mark.parametrize("umask", [0o022, 0o027, 0o077])
def test_permissions_follow_the_umask(tmp_path, umask):
    before = os.umask(umask)
    try:
        write_text(tmp_path / "a.txt", "text")
        with atomic_write(tmp_path / "out") as temporary:
            write_folder(temporary, "text")
    finally:
        os.umask(before)
    assert stat.S_IMODE((tmp_path / "a.txt").stat().st_mode) == 0o666 & ~umask
    assert stat.S_IMODE((tmp_path / "out").stat().st_mode) == 0o777 & ~umask


# Several writers.


@pytest.mark.parametrize("kind", ["file", "folder"])
def test_two_writers_of_one_target_do_not_disturb_each_other(tmp_path, kind):
    def write(path, text):
        path.write_text(text) if kind == "file" else write_folder(path, text)

    with atomic_write(tmp_path / "out") as first:
        write(first, "first")
        with atomic_write(tmp_path / "out") as second:
            write(second, "second")
        assert first.exists()
    content = tmp_path / "out" if kind == "file" else tmp_path / "out" / "a.txt"
    assert content.read_text() == "first"
    assert names(tmp_path) == ["out"]


def test_without_overwrite_the_first_writer_wins(tmp_path):
    with atomic_write(tmp_path / "out", overwrite=False) as slow:
        write_folder(slow, "slow")
        with atomic_write(tmp_path / "out", overwrite=False) as fast:
            write_folder(fast, "fast")
    assert (tmp_path / "out" / "a.txt").read_text() == "fast"
    assert names(tmp_path) == ["out"]


REPLACE_AGAIN_AND_AGAIN = """
import sys
from pathlib import Path
from elmo.files.atomic import atomic_write
for number in range(100):
    with atomic_write(Path(sys.argv[1])) as temporary:
        temporary.mkdir()
        for name in "abc":
            (temporary / name).write_text(f"{sys.argv[2]} {number}")
"""


def test_processes_that_replace_one_folder_at_once_all_succeed(tmp_path):
    started = [
        subprocess.Popen(
            [sys.executable, "-c", REPLACE_AGAIN_AND_AGAIN, str(tmp_path / "out"), str(k)]
        )
        for k in range(3)
    ]
    assert [process.wait() for process in started] == [0, 0, 0]
    assert names(tmp_path) == ["out"]
    assert len({(tmp_path / "out" / name).read_text() for name in "abc"}) == 1


# Kills.

KILLED = """
import os, signal, sys
from pathlib import Path
from elmo.files.atomic import atomic_folder
with atomic_folder(Path(sys.argv[1])) as temporary:
    (temporary / "a.txt").write_text("half")
    os.kill(os.getpid(), signal.SIGKILL)
"""


def be_killed(path):
    assert subprocess.run([sys.executable, "-c", KILLED, str(path)]).returncode == -signal.SIGKILL


def test_what_a_killed_writer_left_is_removed_by_the_next_one(tmp_path):
    be_killed(tmp_path / "out")
    assert len(names(tmp_path)) == 2
    assert all(map(is_temporary, names(tmp_path)))
    write_text(tmp_path / "other", "text")
    assert len(names(tmp_path)) == 3
    with atomic_write(tmp_path / "out") as temporary:
        write_folder(temporary, "new")
    assert names(tmp_path) == ["other", "out"]


def test_recover_removes_what_is_left_of_killed_writers_and_of_no_others(tmp_path):
    be_killed(tmp_path / "below" / "out")
    with atomic_write(tmp_path / "below" / "out") as alive:
        write_folder(alive, "new")
        recover(tmp_path)
        assert alive.exists()
    be_killed(tmp_path / "below" / "out")
    recover(tmp_path)
    assert names(tmp_path / "below") == ["out"]
    assert (tmp_path / "below" / "out" / "a.txt").read_text() == "new"


def test_a_kill_between_the_two_renames_of_a_replacement_loses_nothing(tmp_path):
    write_folder(tmp_path / "out", "old")
    be_killed(tmp_path / "out")
    (temporary,) = tmp_path.glob(".*.tmp")
    (tmp_path / "out").rename(f"{temporary}.old")  # the first of the two renames
    recover(tmp_path)
    assert names(tmp_path) == ["out"]
    assert (tmp_path / "out" / "a.txt").read_text() == "old"


def test_a_folder_that_cannot_be_moved_back_is_kept_for_the_next_attempt(tmp_path, monkeypatch):
    write_folder(tmp_path / "out", "old")
    be_killed(tmp_path / "out")
    (temporary,) = tmp_path.glob(".*.tmp")
    (tmp_path / "out").rename(f"{temporary}.old")
    with monkeypatch.context() as denied:
        denied.setattr(os, "replace", raise_denied)
        recover(tmp_path)
    recover(tmp_path)
    assert names(tmp_path) == ["out"]
    assert (tmp_path / "out" / "a.txt").read_text() == "old"


def test_a_new_folder_that_cannot_be_moved_does_not_cost_the_old_one(tmp_path, monkeypatch):
    write_folder(tmp_path / "out", "old")
    replace = os.replace
    with monkeypatch.context() as denied:

        def only_aside(source, target):
            if not str(target).endswith(".old"):
                in_the_way = (tmp_path / "out").exists()
                raise_denied(code=errno.ENOTEMPTY if in_the_way else errno.EPERM)
            replace(source, target)

        denied.setattr(os, "replace", only_aside)
        with (
            pytest.raises(WriteError, match="cannot be written"),
            atomic_folder(tmp_path / "out") as temporary,
        ):
            (temporary / "a.txt").write_text("new")
    recover(tmp_path)
    assert names(tmp_path) == ["out"]
    assert (tmp_path / "out" / "a.txt").read_text() == "old"


def test_on_windows_a_folder_replaces_no_file_and_a_denied_rename_ends(tmp_path, monkeypatch):
    monkeypatch.setattr("elmo.files.atomic.FOLDER_EXISTS", (errno.EACCES,))
    (tmp_path / "file").write_text("mine")
    with monkeypatch.context() as denied:
        denied.setattr(os, "replace", raise_denied)
        for name in ("file", "absent"):
            with (
                pytest.raises(WriteError, match="cannot be written"),
                atomic_folder(tmp_path / name),
            ):
                pass
    assert names(tmp_path) == ["file"]
    assert (tmp_path / "file").read_text() == "mine"


def raise_denied(*paths, code=errno.EACCES):
    raise OSError(code, os.strerror(code), *map(str, paths[:1]))
