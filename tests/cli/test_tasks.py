"""The verbs of task models, with correct and incorrect arguments."""

import json

import pytest

from elmo.api import Elmo
from elmo.cli.main import main
from elmo.models.model_folder import Model
from tests.conftest import TINY_OPTIONS
from tests.random_models import build_bilm, random_weights
from tests.tasks.tiny_tasks import TINY_TASKS

NER = TINY_TASKS[0]


@pytest.fixture(scope="module")
def workplace(tmp_path_factory):
    """Two biLMs, a data file, and a tagger trained with the first."""
    folder = tmp_path_factory.mktemp("tagger")
    for seed in (1, 2):
        bilm = build_bilm(TINY_OPTIONS, random_weights(TINY_OPTIONS, seed))
        Elmo(Model(bilm)).save(folder / f"bilm-{seed}")
    (folder / NER.file_name).write_text(NER.content, encoding="utf-8")
    sets = [word for entry in (*NER.sets, "train.n_epochs=30") for word in ("--set", entry)]
    with pytest.raises(SystemExit):
        main([*map(str, train(folder)), *sets])
    return folder


def train(folder, task="ner", out="run"):
    data = folder / NER.file_name
    paths = ("--train", data, "--dev", data, "--out", folder / out)
    return ("train", task, *paths, "-m", folder / "bilm-1")


def test_raw_text_comes_back_labeled(run, workplace):
    text = b"Ann Lee saw a bow. Bob Ray met Ann.\n"
    result = run("predict", workplace / "run", "-", stdin=text)
    assert result.code == 0
    first, second = result.out.strip().split("\n\n")
    assert first.split("\n")[:3] == ["Ann\tB-PER", "Lee\tI-PER", "saw\tO"]
    assert second.count("\tB-PER") == 3
    result = run("predict", workplace / "run", "-", "--json", stdin=text)
    spans = json.loads(result.out.splitlines()[0])["spans"]
    assert spans == [{"start": 0, "end": 2, "label": "PER"}]


def test_scores_are_shown_as_a_table_or_json(run, workplace):
    data = workplace / NER.file_name
    shown = run("evaluate", workplace / "run", data).out.splitlines()
    measured = json.loads(run("evaluate", workplace / "run", data, "--json").out)
    assert [line.split()[0] for line in shown][:3] == ["f1", "precision", "recall"]
    assert list(measured)[:3] == ["f1", "precision", "recall"]


def test_a_bilm_that_was_moved_is_named_and_another_is_refused(run, refused, workplace):
    data = workplace / NER.file_name
    assert run("evaluate", workplace / "run", data, "-m", workplace / "bilm-1").code == 0
    for verb in ("evaluate", "predict"):
        line = refused(verb, workplace / "run", data, "-m", workplace / "bilm-2")
        assert "give that one with -m" in line


def test_options_of_a_bilm_are_refused_for_a_task(refused, workplace):
    line = refused("evaluate", workplace / "run", workplace / NER.file_name, "--lines", "tokens")
    assert "are for a biLM" in line


def test_the_option_of_a_task_is_refused_for_a_bilm(refused, workplace):
    bilm = workplace / "bilm-1"
    assert "is for a task model" in refused("evaluate", bilm, workplace / NER.file_name, "-m", bilm)


def test_the_format_of_text_is_refused_for_data(refused, workplace):
    words = ("predict", workplace / "run", workplace / NER.file_name, "--data", "--lines", "tokens")
    assert "--lines is for text" in refused(*words)


def test_an_unknown_task_is_named_with_the_nearest(refused, workplace):
    assert "did you mean 'chunk'" in refused(*train(workplace, "chunks", "other"))
    assert not (workplace / "other").exists()


def test_an_unknown_setting_is_named_with_the_nearest(refused, workplace):
    line = refused(*train(workplace, out="other"), "--set", "elmo.placed=input")
    assert "did you mean 'place'" in line
    assert not (workplace / "other").exists()


def test_broken_data_are_named_by_file_and_line_and_leave_nothing(refused, workplace):
    broken = workplace / "broken.conll"
    broken.write_text("Ann B-PER\nran\n")
    line = refused("train", "ner", "--train", broken, "--dev", broken, "--out", workplace / "other")
    assert f"{broken}:2: 1 column" in line
    assert not (workplace / "other").exists()


def test_a_folder_without_a_task_model_is_refused(refused, workplace):
    assert "expected the folder of a trained task model" in refused("predict", workplace, "-")


def test_the_help_lists_every_task(run):
    from elmo.tasks import TASKS

    shown = " ".join(run("train", "--help").out.split())
    assert f"Tasks: {', '.join(TASKS)}." in shown


def test_a_run_ends_after_its_steps_and_trains_the_bilm_if_asked(run, workplace):
    sets = [word for entry in NER.sets for word in ("--set", entry)]
    limits = ("--max-steps", "4", "--fine-tune", "--set", "fine_tune.n_frozen_epochs=0")
    assert run(*train(workplace, out="tuned"), *sets, *limits).code == 0
    result = json.loads((workplace / "tuned" / "result.json").read_text())
    assert result["n_steps"] == 4
    assert run("evaluate", workplace / "tuned", workplace / NER.file_name).code == 0
    other = Elmo.load(workplace / "tuned" / "model" / "bilm").bilm.state_dict()
    first = Elmo.load(workplace / "bilm-1").bilm.state_dict()
    assert any(not other[name].equal(first[name]) for name in first)
