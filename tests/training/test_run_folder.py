"""The folder of a run: one run, one process, and nothing lost by a kill at any moment."""

import json
import os
import signal
import subprocess
import sys
from dataclasses import dataclass
from typing import Annotated

import pytest

from elmo.errors import CheckpointError, ConfigError, WriteError
from elmo.files.atomic import atomic_folder
from elmo.settings import PositiveInt, Renamed, checked, to_mapping
from elmo.training.run_folder import RunFolder

IDENTITY = {"config": {"lstm": {"dim": 8}, "train": {"n_epochs": 1}}, "train_sha256": "abc"}

# Killed when the temporary file of run.json is complete, and not yet renamed.
KILLED = """
import os, signal, sys
from pathlib import Path
from elmo.training.run_folder import RunFolder

os.replace = lambda *_: os.kill(os.getpid(), signal.SIGKILL)
with RunFolder(Path(sys.argv[1])).claim({"config": {}}):
    raise AssertionError("not killed")
"""


def test_a_start_that_was_killed_before_run_json_was_complete_can_be_repeated(tmp_path):
    path = tmp_path / "run"
    killed = subprocess.run([sys.executable, "-c", KILLED, str(path)])
    assert killed.returncode == -signal.SIGKILL
    assert not (path / "run.json").exists()
    assert list(path.glob(".run.json.*"))
    with RunFolder(path).claim(IDENTITY):
        assert sorted(os.listdir(path)) == ["run.json", "run.lock"]
    assert json.loads((path / "run.json").read_text())["train_sha256"] == "abc"


def test_a_kill_while_the_model_is_replaced_does_not_lose_it(tmp_path):
    run = RunFolder(tmp_path)
    with run.claim(IDENTITY), atomic_folder(run.model) as temporary:
        (temporary / "weights").write_text("best")
    # What a kill between the two renames of a replacement leaves.
    (tmp_path / "model").rename(tmp_path / ".model.0123.tmp.old")
    (tmp_path / ".model.0123.tmp").mkdir()
    (tmp_path / ".model.0123.tmp.lock").touch()
    with run.claim(IDENTITY):
        assert (run.model / "weights").read_text() == "best"
        assert sorted(os.listdir(tmp_path)) == ["model", "run.json", "run.lock"]


def test_a_run_is_resumed_with_its_own_settings_only(tmp_path):
    run = RunFolder(tmp_path)
    with run.claim(IDENTITY):
        pass
    longer = {**IDENTITY, "config": {"lstm": {"dim": 8}, "train": {"n_epochs": 2}}}
    with run.claim(longer):  # a setting that may differ
        pass
    wider = {**IDENTITY, "config": {"lstm": {"dim": 9}, "train": {"n_epochs": 1}}}
    with (
        pytest.raises(ConfigError, match=r"another run \(config\.lstm\.dim is 8 there and 9 here"),
        run.claim(wider),
    ):
        pytest.fail("another run was accepted")


@dataclass(frozen=True, kw_only=True)
@checked
class TinyConfig:
    batch_size: Annotated[PositiveInt, Renamed("n_rows")] = 32
    dropout: float = 0.0


def test_a_run_of_an_earlier_version_is_read_by_the_settings_of_now(tmp_path):
    run, now = RunFolder(tmp_path), {"config": to_mapping(TinyConfig(batch_size=4))}
    with run.claim({"config": {"batch_size": 4}}):  # `dropout` was added later
        pass
    with run.claim(now, TinyConfig):
        pass
    (tmp_path / "run.json").write_text(json.dumps({"config": {"n_rows": 4}}))
    message = r"run\.json: config: 'n_rows' was renamed to 'batch_size'"
    with pytest.raises(ConfigError, match=message), run.claim(now, TinyConfig):
        pytest.fail("the old name was accepted")


def test_a_folder_of_something_else_is_left_as_it_is(tmp_path):
    (tmp_path / "letters.txt").write_text("Dear")
    with (
        pytest.raises(ConfigError, match=r"contains 'letters\.txt' but no run\.json"),
        RunFolder(tmp_path).claim(IDENTITY),
    ):
        pytest.fail("the folder was accepted")
    assert os.listdir(tmp_path) == ["letters.txt"]


def test_a_path_that_is_a_file_is_one_error(tmp_path):
    (tmp_path / "file").touch()
    with (
        pytest.raises(WriteError, match="file: cannot be written"),
        RunFolder(tmp_path / "file").claim(IDENTITY),
    ):
        pytest.fail("the file was accepted")


def test_the_result_is_read_back(tmp_path):
    run = RunFolder(tmp_path)
    assert run.read_result() is None
    run.write_result({"n_steps": 3})
    assert run.read_result() == {"n_steps": 3}


@pytest.mark.parametrize("content", ["", "[]", '{"config"'])
def test_a_broken_file_of_a_run_is_one_error(tmp_path, content):
    run = RunFolder(tmp_path)
    with run.claim(IDENTITY):
        pass
    (tmp_path / "run.json").write_text(content)
    (tmp_path / "result.json").write_text(content)
    with (
        pytest.raises(CheckpointError, match=r"run\.json: .* expected the settings of a run"),
        run.claim(IDENTITY),
    ):
        pytest.fail("the folder was accepted")
    with pytest.raises(CheckpointError, match=r"result\.json: .* expected the result of a run"):
        run.read_result()
