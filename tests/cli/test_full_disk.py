"""Full disks: one line, exit code 2, nothing left behind, and the same command resumes."""

import subprocess
import sys

import pytest

pytest.importorskip("resource", reason="this system has no limits on files")

from tests.cli.small_disks import small_disk
from tests.pretraining.tiny_text import SETTINGS, write_text
from tests.tasks.tiny_tasks import TINY_TASKS

NER = TINY_TASKS[0]
FULL = ("No space left on device", "File too large")


@pytest.fixture
def disk(tmp_path):
    with small_disk(tmp_path / "disk") as disk:
        yield disk


@pytest.fixture
def inputs(tmp_path):
    folder = tmp_path / "in"
    folder.mkdir()
    write_text(folder / "text.txt", 600, 1)
    write_text(folder / "heldout.txt", 20, 2)
    (folder / NER.file_name).write_text(NER.content * 10, encoding="utf-8")
    return folder


COMMANDS = (
    "embed TEXT -o OUT/v.npz -m MODEL",
    "embed TEXT -o OUT/v.h5 -m MODEL",
    "embed TEXT -o OUT/v.jsonl -m MODEL",
    "embed TEXT -o OUT/v.parquet -m MODEL",
    "index TEXT -o OUT/index -m MODEL",
    "export-static --text TEXT -o OUT/static.txt -m MODEL",
    "export-static --text TEXT -o OUT/static.bin -m MODEL",
    "convert MODEL OUT/model",
    "convert MODEL OUT/weights.hdf5",
    "convert MODEL OUT/model.onnx",
)


def assert_refused(result, files=None):
    code, messages, left = result
    assert code == 2, messages
    assert messages.splitlines()[-1].startswith("error: ")
    assert any(reason in messages.splitlines()[-1] for reason in FULL), messages
    assert "Traceback" not in messages
    assert files is None or left == files


@pytest.mark.slow
def test_a_full_disk_leaves_the_earlier_result_and_nothing_else(disk, inputs, official):
    commands = []
    for command in COMMANDS:
        text, out = str(inputs / "text.txt"), str(disk.folder)
        words = command.replace("TEXT", text).replace("OUT", out).replace("MODEL", str(official))
        commands.append((words.split(), [None, 0, 0.5, 0.9, None]))
    for first, *refused, last in disk.runs(commands):
        assert first[0] == last[0] == 0, (first, last)
        assert first[2].keys() == last[2].keys()
        for result in refused:
            assert_refused(result, first[2])


def training_command(verb, inputs, model):
    sets = {"pretrain": SETTINGS, "finetune": (), "train": (*NER.sets, "train.n_epochs=3")}
    if verb == "train":
        data = inputs / NER.file_name
        words = ["train", "ner", "--train", data, "--dev", data, "-m", model]
    else:
        words = [verb, *([model] if verb == "finetune" else ["--size", "tiny"])]
        words += ["--train", inputs / "text.txt", "--heldout", inputs / "heldout.txt"]
        words += ["--lines", "tokens", "--max-steps", "12"]
    return [*words, *(word for entry in sets[verb] for word in ("--set", entry))]


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["pretrain", "finetune", "train"])
def test_a_run_on_a_full_disk_resumes_to_the_same_model(disk, inputs, scoring_model, verb):
    words = [*training_command(verb, inputs, scoring_model), "--out"]
    whole = [*words, disk.folder / "whole"], [None]
    full = [*words, disk.folder / "run"], [0.01, 0.3, 0.5, None]
    ((expected,), (*refused, last)) = disk.runs([whole, full])
    assert expected[0] == last[0] == 0, (expected, last)
    for result in refused:
        assert_refused(result)
    models = {
        name.replace("whole/", "run/"): value
        for name, value in expected[2].items()
        if name.startswith("whole/model/")
    }
    assert len(models) >= 2
    assert models.items() <= last[2].items()
    assert not [name for name in last[2] if name.endswith((".tmp", ".tmp.lock"))]


@pytest.mark.slow
@pytest.mark.parametrize("n_workers", [1, 2])
def test_shards_that_cannot_be_written_are_written_by_the_next_run(
    tmp_path, inputs, official, n_workers
):
    corpus = tmp_path / "corpus"
    corpus.mkdir()
    for k in range(3):
        write_text(corpus / f"text-{k}.txt", 100 + 500 * (k == 1), k)
    # Limit the size of files, because free space is checked before the first shard.
    with small_disk(tmp_path / "disk", may_mount=False) as disk:
        words = ["embed", corpus, "-o", disk.folder / "v", "-m", official, "--format", "parquet"]
        words += ["--workers", n_workers]
        whole = [*words[:3], disk.folder / "whole", *words[4:]], [None]
        ((first,), (refused, last)) = disk.runs([whole, (words, [0.7, None])])
    assert first[0] == last[0] == 0, (first, last)
    assert_refused(refused)
    shards = [name for name in refused[2] if name.startswith("v/")]
    assert not [name for name in shards if name.endswith(".tmp")]
    assert "v/text-1.txt-00000.parquet" not in shards
    names = {name.replace("whole", "v") for name in first[2]}
    assert names <= last[2].keys()


def test_output_that_a_full_disk_does_not_take_is_one_line():
    for words in (["models"], ["--help"]):
        with open("/dev/full", "w") as full:
            done = subprocess.run(
                [sys.executable, "-m", "elmo", *words], stdout=full, stderr=subprocess.PIPE
            )
        assert done.returncode == 2
        assert done.stderr == b"error: No space left on device\n"
