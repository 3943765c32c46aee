"""Outputs that cannot be written: one line, exit code 2, and nothing is left behind."""

import os
import stat
import sys

import pytest

from tests.pretraining.tiny_text import SETTINGS, write_text
from tests.tasks.tiny_tasks import TINY_TASKS

NER = TINY_TASKS[0]
FILES = {
    "npz": "embed TEXT -m MODEL -o OUT",
    "h5": "embed TEXT -m MODEL -o OUT",
    "jsonl": "embed TEXT -m MODEL -o OUT",
    "parquet": "embed TEXT -m MODEL -o OUT",
    "txt": "export-static --text TEXT -m MODEL -o OUT",
    "hdf5": "convert MODEL OUT",
    "onnx": "convert MODEL OUT",
}
FOLDERS = {
    "shards": "embed TEXT --format parquet -m MODEL -o OUT",
    "index": "index TEXT -m MODEL -o OUT",
    "convert": "convert MODEL OUT",
    "pretrain": "pretrain --train TEXT --heldout TEXT --size tiny --max-steps 1 --out OUT",
    "finetune": "finetune SCORING --train TEXT --heldout TEXT --max-steps 1 --out OUT",
    "train": f"train ner --train DATA --dev DATA -m MODEL --out OUT --set {NER.sets[0]}",
}


@pytest.fixture
def words(tmp_path, official, scoring_model):
    """The arguments of a command with a given output."""
    inputs = tmp_path / "in"
    inputs.mkdir()
    write_text(inputs / "text.txt", 20, 1)
    (inputs / NER.file_name).write_text(NER.content, encoding="utf-8")
    places = {
        "TEXT": inputs / "text.txt",
        "MODEL": official,
        "SCORING": scoring_model,
        "DATA": inputs / NER.file_name,
    }

    def words(command, out):
        return [str((places | {"OUT": out}).get(word, word)) for word in command.split()]

    return words


def contents(folder):
    return {path: path.read_bytes() if path.is_file() else None for path in folder.rglob("*")}


def assert_refused_and_unchanged(refused, folder, words, out):
    before = contents(folder)
    message = refused(*words)
    assert str(out) in message
    assert contents(folder) == before


@pytest.mark.parametrize("ending", FILES)
def test_a_file_that_cannot_be_written_is_named(refused, words, tmp_path, ending):
    (tmp_path / "file").write_text("mine")
    folder = tmp_path / f"folder.{ending}"
    folder.mkdir()
    (folder / "mine.txt").write_text("mine")
    for out in (tmp_path / "file" / f"a.{ending}", tmp_path / "absent" / f"a.{ending}", folder):
        assert_refused_and_unchanged(refused, tmp_path, words(FILES[ending], out), out)


@pytest.mark.parametrize("verb", FOLDERS)
def test_a_folder_that_cannot_be_written_is_named(refused, words, tmp_path, verb):
    (tmp_path / "file").write_text("mine")
    (tmp_path / "photos").mkdir()
    (tmp_path / "photos" / "me.parquet").write_text("mine")
    for out in (tmp_path / "file", tmp_path / "file" / "a" / "b", tmp_path / "photos"):
        assert_refused_and_unchanged(refused, tmp_path, words(FOLDERS[verb], out), out)


@pytest.mark.skipif(sys.platform != "linux", reason="needs /proc, where root cannot write either")
@pytest.mark.parametrize("verb", [*FILES, *FOLDERS])
def test_a_place_without_permission_is_named(refused, words, verb):
    out = f"/proc/elmo/a.{verb}" if verb in FILES else "/proc/elmo"
    assert out in refused(*words((FILES | FOLDERS)[verb], out))


def test_the_folder_of_another_run_is_left_alone(run, refused, words, tmp_path):
    out = tmp_path / "run"
    sets = [word for entry in SETTINGS for word in ("--set", entry)]
    assert run(*words(FOLDERS["pretrain"], out), "--lines", "tokens", *sets).code == 0
    for verb in FOLDERS.keys() - {"shards"}:  # shards are refused only beside other shards
        assert_refused_and_unchanged(refused, tmp_path, words(FOLDERS[verb], out), out)


@pytest.mark.skipif(sys.platform == "win32", reason="Windows has other permissions")
def test_every_output_has_the_permissions_of_the_umask(run, words, tmp_path):
    out = tmp_path / "out"
    before = os.umask(0o027)
    try:
        out.mkdir()
        for ending, command in FILES.items():
            assert run(*words(command, out / f"a.{ending}")).code == 0
        for verb, command in FOLDERS.items():
            more = ["--set", "vocabulary.min_count=1"] if verb == "pretrain" else []
            more += ["--set", "train.n_epochs=1"] if verb == "train" else []
            assert run(*words(command, out / verb), *more).code == 0
    finally:
        os.umask(before)
    found = {path: stat.S_IMODE(path.stat().st_mode) for path in out.rglob("*")}
    wrong = {
        str(path.relative_to(out)): oct(mode)
        for path, mode in found.items()
        if mode != (0o750 if path.is_dir() else 0o640)
    }
    assert len(found) > 40
    assert wrong == {}
