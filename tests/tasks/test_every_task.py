"""What every task must be able to do, on ten examples of it with a tiny random biLM."""

import json
from itertools import islice

import pytest

from elmo.api import Elmo
from elmo.cli.main import main
from elmo.errors import CheckpointError, ConfigError, DataError
from elmo.models.model_folder import Model
from elmo.tasks import TASKS, find_task
from elmo.tasks.saved import is_task_folder, open_task
from tests.conftest import TINY_OPTIONS
from tests.random_models import build_bilm, random_weights
from tests.tasks.tiny_tasks import TINY_TASKS


def test_every_task_has_ten_examples_here():
    assert {tiny.name for tiny in TINY_TASKS} == set(TASKS)


def test_unknown_task_is_named_with_the_nearest():
    with pytest.raises(ConfigError, match="did you mean 'ner'"):
        find_task("nerr")


@pytest.mark.parametrize("has_elmo", [True, False], ids=["elmo", "baseline"])
def test_ten_examples_are_learned_by_heart(train, tiny, has_elmo):
    result = train(tiny, "train.n_epochs=80", "train.patience=25", has_elmo=has_elmo)
    assert result["scores"][result["metric"]] >= 95
    assert (result["bilm_sha256"] is not None) == has_elmo
    assert bool(result["mixes"]) == has_elmo


@pytest.mark.parametrize("place", ["input", "both"])
def test_a_saved_model_predicts_what_it_predicted(train, tiny, tmp_path, place):
    result = train(tiny, "train.n_epochs=3", f"elmo.place={place}")
    assert set(result["mixes"]) == ({"input", "output"} if place == "both" else {"input"})
    opened = open_task(tmp_path / "run")
    examples = opened.read(tmp_path / tiny.file_name)
    # Training measured with layers read from disk, in other batches.
    assert opened.measure(examples) == pytest.approx(result["scores"])
    alone = [next(iter(opened.predict([example]))) for example in examples]
    assert alone == list(opened.predict(examples))


def test_a_prediction_is_shown_as_text_and_as_json(trained, tiny):
    folder = trained(tiny)
    opened = open_task(folder / "run")
    examples = opened.read(folder / tiny.file_name)
    for example, prediction in zip(examples, opened.predict(examples), strict=True):
        assert opened.task.show(example, prediction).strip()
        assert json.loads(json.dumps(opened.task.to_mapping(example, prediction)))


def test_raw_text_is_predicted_or_refused(trained, tiny):
    folder = trained(tiny)
    opened = open_task(folder / "run")
    if tiny.raw_text is None:
        with pytest.raises(ConfigError, match="--data"):
            opened.task.read_text(["text"])
        return
    examples = list(opened.task.read_text(tiny.raw_text.splitlines()))
    assert (len(examples) == 1) == tiny.is_text_whole
    assert len(list(opened.predict(examples))) == len(examples)
    if tiny.is_text_whole:
        return
    # Any number of lines: none is read before it is needed.
    endless = opened.predict(opened.task.read_text(iter(lambda: tiny.raw_text.splitlines()[0], 0)))
    assert len(list(islice(endless, 3))) == 3


def test_another_bilm_is_refused(trained, tiny):
    folder = trained(tiny)
    other = Elmo(Model(build_bilm(TINY_OPTIONS, random_weights(TINY_OPTIONS, seed=2))))
    with pytest.raises(CheckpointError, match="give that one with -m"):
        open_task(folder / "run", other)


def test_an_empty_file_is_refused(tiny, tmp_path):
    task = find_task(tiny.name)
    (tmp_path / tiny.file_name).write_text("\n\n")
    with pytest.raises(DataError, match=str(tmp_path / tiny.file_name)):
        task.read(tmp_path / tiny.file_name, task.defaults(), is_training=True)


def test_from_the_command_line_to_predictions(tiny, tmp_path, bilm_folder, capsys):
    path = tmp_path / tiny.file_name
    path.write_text(tiny.content, encoding="utf-8")
    run = tmp_path / "run"
    sets = [word for entry in (*tiny.sets, "train.n_epochs=2") for word in ("--set", entry)]
    call("train", tiny.name, "--train", path, "--dev", path, "--out", run, "-m", bilm_folder, *sets)
    assert "dev" in capsys.readouterr().out
    assert is_task_folder(run)
    call("evaluate", run, path, "--json")
    measured = json.loads(capsys.readouterr().out)
    assert measured == pytest.approx(json.loads((run / "result.json").read_text())["scores"])
    call("predict", run, path, "--data", "--json")
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) >= 10
    assert all(json.loads(line) for line in lines)


def call(*arguments):
    with pytest.raises(SystemExit) as left:
        main([str(argument) for argument in arguments])
    assert not left.value.code
