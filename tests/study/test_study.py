"""The study: its plan, and its runner on tiny runs."""

import json
import logging
import signal
import subprocess
from dataclasses import replace

import pytest

from benchmarks.study import runner
from benchmarks.study.plan import (
    RUNS,
    STUDIED,
    TABLES,
    VARIANTS,
    Run,
    StudiedTask,
    layered,
    make_runs,
)
from benchmarks.study.results import Results
from benchmarks.study.runner import StudyPaths, run_all
from benchmarks.study.weights import REPOSITORY
from elmo.tasks import find_task
from elmo.tasks.config import read_config
from tests.tasks.tiny_tasks import NAMES, SMALL_TAGGER, as_columns

STORED = sorted((REPOSITORY / "docs" / "results" / "runs").glob("*-[0-9].json"))
TRAIN, DEV = "ner/wnut17/train.conll", "ner/wnut17/dev.conll"
TINY = StudiedTask(
    *("ner", "tiny", TRAIN, DEV, DEV, ("elmo.place=input",), 2, 2, 1), also=(TRAIN,), text="wnut"
)


# The plan


def test_every_run_is_planned_once_and_every_table_has_some():
    assert len({run.key for run in RUNS}) == len(RUNS)
    for table in TABLES:
        assert any(table in run.tables for run in RUNS)
    assert make_runs() == RUNS


def test_the_first_runs_say_for_every_task_what_elmo_brings():
    first = RUNS[: 2 * len(STUDIED)]
    assert {(run.task, run.variant) for run in first} == {
        (task, variant) for task in STUDIED for variant in ("baseline", "elmo")
    }


def test_the_plan_fits_twelve_hours_of_two_cores():
    assert sum(run.minutes for run in RUNS) <= 2 * 12 * 60


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.key)
def test_the_settings_of_a_run_are_ones_that_its_task_has(run):
    variant, task = VARIANTS[run.variant], find_task(STUDIED[run.task].task)
    config = read_config(task.defaults(), None, run.sets, has_elmo=variant.has_elmo)
    assert (config.elmo is not None) == variant.has_elmo
    assert config.train.seed == run.seed
    assert config.train.train_fraction == pytest.approx(variant.share)


@pytest.mark.parametrize("path", STORED, ids=lambda path: path.stem)
def test_a_stored_result_is_of_its_run_by_the_setting_names_of_now(path):
    result = json.loads(path.read_text(encoding="utf-8"))
    assert Run(result["studied"], result["variant"], result["seed"], frozenset()).is_made_by(result)


@pytest.mark.parametrize("task", STUDIED)
def test_the_small_penalty_is_what_table_2_says(task):
    run = Run(task, layered(task, "lambda-small"), 1, frozenset())
    config = read_config(find_task(STUDIED[task].task).defaults(), None, run.sets)
    assert config.elmo.penalty == pytest.approx(0.001)


def test_runs_of_a_task_with_the_same_settings_are_planned_once():
    seen = {}
    for run in RUNS:
        variant, task = VARIANTS[run.variant], find_task(STUDIED[run.task].task)
        config = read_config(task.defaults(), None, run.sets, has_elmo=variant.has_elmo)
        identity = (run.task, repr(config), variant.has_glove, variant.is_tuned, variant.weights)
        assert seen.setdefault(identity, run.key) == run.key


def test_the_data_of_the_plan_is_there(shared, tmp_path):
    for studied in STUDIED.values():
        for name in (studied.train, studied.dev, studied.test, *studied.also):
            paths = StudyPaths(shared / "data", tmp_path)
            assert name is None or paths.find(name).exists()


# The runner


@pytest.fixture
def paths(tmp_path, bilm_folder):
    (tmp_path / "data" / "ner" / "wnut17").mkdir(parents=True)
    for name in (TRAIN, DEV):
        (tmp_path / "data" / name).write_text(as_columns(NAMES), encoding="utf-8")
    return StudyPaths(tmp_path / "data", tmp_path / "out", bilm=bilm_folder)


def tiny_run(variant, seed=1, n_epochs=2):
    """A run with settings small enough for a test."""

    class Tiny(Run):
        sets = (
            *(s for s in SMALL_TAGGER if VARIANTS[variant].has_elmo or not s.startswith("elmo.")),
            f"train.seed={seed}",
            f"train.n_epochs={n_epochs}",
            "train.patience=none",
        )

    return Tiny("ner", variant, seed, frozenset({"table1"}))


def test_a_run_leaves_one_file_and_is_not_made_again(paths):
    runs = [tiny_run("baseline"), tiny_run("elmo")]
    assert run_all(runs, paths, studied={"ner": TINY}) == []
    files = sorted((paths.out / "runs").iterdir())
    assert [path.name for path in files] == ["ner-baseline-1.json", "ner-elmo-1.json"]
    baseline, elmo = (json.loads(path.read_text()) for path in files)
    assert baseline["bilm_sha256"] is None
    assert len(elmo["bilm_sha256"]) == 64
    assert elmo["test_scores"] == pytest.approx(elmo["scores"])
    assert elmo["also"][TRAIN] == pytest.approx(elmo["scores"])
    for result in (baseline, elmo):
        assert {"task", "variant", "settings", "seed", "scores", "seconds"} <= set(result)
    assert not list((paths.out / "work").iterdir())
    before = [path.stat().st_mtime_ns for path in files]
    run_all(runs, paths, studied={"ner": TINY})
    assert [path.stat().st_mtime_ns for path in files] == before


def test_a_run_with_another_bilm_is_made_anew_and_one_without_is_not(paths, other_bilm_folder):
    runs = [tiny_run("baseline"), tiny_run("elmo")]
    run_all(runs, paths, studied={"ner": TINY})
    first = {run.variant: json.loads(paths.result(run.key).read_text()) for run in runs}
    run_all(runs, replace(paths, bilm=other_bilm_folder), studied={"ner": TINY})
    then = {run.variant: json.loads(paths.result(run.key).read_text()) for run in runs}
    assert then["baseline"] == first["baseline"]
    assert then["elmo"]["bilm_sha256"] != first["elmo"]["bilm_sha256"]


def test_a_run_with_other_settings_is_made_anew_whatever_was_begun(paths, caplog):
    caplog.set_level(logging.INFO)
    two, five = (tiny_run("baseline", n_epochs=number) for number in (2, 5))
    handler = StopAfter(epoch=1)
    trainer_log = logging.getLogger("elmo.training.loop")
    trainer_log.addHandler(handler)
    run_all([five], paths, studied={"ner": TINY})
    trainer_log.removeHandler(handler)
    for run, n_epochs in ((two, 2), (five, 5)):
        assert run_all([run], paths, studied={"ner": TINY}) == []
        assert json.loads(paths.result(run.key).read_text())["n_epochs"] == n_epochs
    assert not list((paths.out / "work").iterdir())


def test_a_run_that_another_process_has_in_hand_is_left_to_it(paths):
    run = tiny_run("baseline")
    with paths.claim(run.key) as is_ours:
        assert is_ours
        run_all([run], paths, studied={"ner": TINY})
    assert not paths.result(run.key).exists()
    run_all([run], paths, studied={"ner": TINY})
    assert paths.result(run.key).exists()


class StopAfter(logging.Handler):
    """Asks the process to stop when an epoch has ended, as the clock of --max-minutes does."""

    def __init__(self, epoch):
        super().__init__()
        self._epoch = f", epoch {epoch:.2f}, "

    def emit(self, record):
        if self._epoch in record.getMessage():
            signal.raise_signal(signal.SIGTERM)


def test_a_run_that_was_stopped_goes_on_to_the_same_end(paths, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    run, handler = tiny_run("baseline", n_epochs=5), StopAfter(epoch=2)
    trainer_log = logging.getLogger("elmo.training.loop")
    trainer_log.addHandler(handler)
    assert run_all([run, tiny_run("elmo")], paths, studied={"ner": TINY}) == []
    trainer_log.removeHandler(handler)
    assert not list(paths.out.glob("runs/*"))
    assert list(paths.out.glob("work/*/*/checkpoints/*"))
    assert run_all([run], paths, studied={"ner": TINY}) == []
    whole = StudyPaths(paths.data, tmp_path / "whole", bilm=paths.bilm)
    run_all([run], whole, studied={"ner": TINY})
    curves = [json.loads(p.result(run.key).read_text())["curve"] for p in (paths, whole)]
    assert len(curves[0]) == 5
    assert curves[0] == curves[1]


def test_a_run_may_have_the_bilm_of_an_earlier_commit(paths):
    run = tiny_run("perplexity-127")
    commit = f"{VARIANTS[run.variant].weights}^{{commit}}"
    looked = subprocess.run(["git", "-C", REPOSITORY, "cat-file", "-e", commit], check=False)
    if looked.returncode:
        pytest.skip("this clone has no history")
    assert run_all([run], paths, studied={"ner": TINY}) == []
    result = json.loads(paths.result(run.key).read_text())
    assert result["bilm_sha256"] == result["started_from"] != paths.bilm_sha256
    assert paths.has(run)


def test_a_tuned_bilm_is_made_once_and_its_perplexities_are_a_result(paths):
    runs = [tiny_run("tuned"), tiny_run("tuned", seed=2)]
    assert run_all(runs, paths, studied={"ner": TINY}) == []
    made = [json.loads(paths.result(run.key).read_text()) for run in runs]
    hashes = {result["bilm_sha256"] for result in made}
    assert len(hashes) == 1
    results = Results.read(paths.out, paths.bilm_sha256)
    assert results.tuning("wnut")["before"]["mean"] > results.tuning("wnut")["after"]["mean"]
    plain = tiny_run("elmo")
    run_all([plain], paths, studied={"ner": TINY})
    assert json.loads(paths.result(plain.key).read_text())["bilm_sha256"] not in hashes


def test_a_task_that_is_not_there_is_skipped_and_a_failure_does_not_end_the_study(paths, caplog):
    broken = StudiedTask("ner", "tiny", "absent.conll", "absent.conll", None, TINY.sets, 2, 2, 1)
    absent = Run("astrology", "elmo", 1, frozenset())
    assert run_all([absent, tiny_run("baseline")], paths, studied={"ner": broken}) == [
        "ner-baseline-1"
    ]
    assert "astrology: no such task" in caplog.text
    split = replace(broken, train="wikigold/train.conll")  # of a file that is not there
    assert run_all([tiny_run("baseline")], paths, studied={"ner": split}) == ["ner-baseline-1"]
    assert "ner-baseline-1 failed" in caplog.text


def test_the_time_is_up_outside_of_training_too(paths, caplog, monkeypatch):
    caplog.set_level(logging.INFO)
    # A destructor or a callback of the garbage collector may swallow the first signal.
    monkeypatch.setattr(runner, "SECONDS_BETWEEN_SIGNALS", 0.3)
    # It takes longer than this to open the biLM and train for so many epochs.
    run_all([tiny_run("elmo", n_epochs=1000)], paths, max_minutes=1e-4, studied={"ner": TINY})
    assert "run the same command to resume" in caplog.text
    assert not (paths.out / "runs").exists()
