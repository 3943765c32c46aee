"""The study: its plan, and its runner on tiny runs."""

import json
import logging
import signal
import subprocess
from dataclasses import replace

import pytest

from benchmarks.study import runner
from benchmarks.study.plan import (
    SEEDS,
    SIDES,
    STUDIED,
    STUDIED_CLOSELY,
    TABLE1_TASKS,
    TABLES,
    VARIANTS,
    Run,
    StudiedTask,
    make_runs,
)
from benchmarks.study.results import Results
from benchmarks.study.runner import StudyPaths, run_all
from benchmarks.study.weights import REPOSITORY
from tests.study.test_study_report import made_up, write
from tests.tasks.tiny_tasks import NAMES, SMALL_TAGGER, as_columns

TRAIN, DEV = "ner/wnut17/train.conll", "ner/wnut17/dev.conll"
TINY = StudiedTask(
    *("ner", "tiny", TRAIN, DEV, DEV, ("elmo.place=input",), 2, 1), also=(TRAIN,), text="wnut"
)
FIRST = {(task, side): 0 for task in STUDIED for side in SIDES}
RUNS = make_runs(FIRST)


# The plan


def test_every_run_is_planned_once_and_every_table_has_some():
    assert len({run.key for run in RUNS}) == len(RUNS)
    for table in TABLES:
        assert any(table in run.tables for run in RUNS)


def test_before_anything_is_run_both_sides_try_the_same_settings():
    tries = [(run.task, run.variant, run.tried, run.seed) for run in make_runs({})]
    expected = {
        (task, side, tried, 1)
        for task in TABLE1_TASKS
        for side in SIDES
        for tried in range(len(STUDIED[task].tried))
    }
    assert set(tries) == expected


def test_later_runs_have_the_settings_that_were_chosen():
    runs = make_runs({("sick", "elmo"): 1, ("sick", "baseline"): 0})
    later = [run for run in runs if run.task == "sick" and run.seed > 1]
    assert {(VARIANTS[run.variant].side, run.tried) for run in later} == {
        ("elmo", 1),
        ("baseline", 0),
    }


def test_table_1_has_all_seeds_and_folds_of_both_sides():
    for task in TABLE1_TASKS:
        found = {
            (run.variant, run.seed, run.fold)
            for run in RUNS
            if run.task == task and "table1" in run.tables and run.tried == 0
        }
        assert found == {
            (side, seed, fold)
            for side in SIDES
            for seed in SEEDS[task]
            for fold in STUDIED[task].folds
        }


def test_the_plan_fits_thirteen_hours_of_two_cores():
    assert sum(run.minutes for run in RUNS) <= 2 * 13 * 60


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.key)
def test_the_settings_of_a_run_are_ones_that_its_task_has(run):
    variant, config = VARIANTS[run.variant], run.config
    assert (config.elmo is not None) == variant.has_elmo
    assert config.train.patience is not None
    assert config.train.seed == run.seed
    assert config.train.train_fraction == pytest.approx(variant.share)


@pytest.mark.parametrize("task", STUDIED_CLOSELY)
@pytest.mark.parametrize("share", ["10", "30"])
def test_evaluations_with_less_data_are_as_many_steps_apart(task, share):
    whole, part = (Run(task, name, 0, 1).config for name in ("elmo", f"elmo-{share}-percent"))
    n_epochs = part.train.train_fraction * part.train.evaluate_every
    assert n_epochs == pytest.approx(1, abs=0.15)
    assert part.train.patience == whole.train.patience


@pytest.mark.parametrize("table", TABLES)
def test_one_table_can_be_run_alone(table):
    first = [run for run in make_runs({}) if table in run.tables]
    known = {(run.task, run.variant) for run in first}
    needed = {(run.task, VARIANTS[run.variant].side) for run in RUNS if table in run.tables}
    assert known >= needed


@pytest.mark.parametrize("task", STUDIED)
def test_the_small_penalty_is_what_table_2_says(task):
    assert Run(task, "elmo", 0, 1).config.elmo.penalty == pytest.approx(0.001)


def test_runs_of_a_task_with_the_same_settings_are_planned_once():
    seen = {}
    for run in RUNS:
        variant = VARIANTS[run.variant]
        identity = (run.task, run.fold, repr(run.config))
        identity += (variant.has_glove, variant.is_tuned, variant.weights)
        assert seen.setdefault(identity, run.key) == run.key


def test_the_data_of_the_plan_is_there(shared, tmp_path):
    for studied in STUDIED.values():
        for name in (studied.train, studied.dev, studied.test, *studied.also):
            paths = StudyPaths(shared / "data", tmp_path, shared / "data/glove")
            assert all(paths.find(name, fold).exists() for fold in studied.folds)


# The runner


@pytest.fixture
def paths(tmp_path, bilm_folder):
    (tmp_path / "data" / "ner" / "wnut17").mkdir(parents=True)
    for name in (TRAIN, DEV):
        (tmp_path / "data" / name).write_text(as_columns(NAMES), encoding="utf-8")
    (tmp_path / "glove.txt").write_text("in 0.5 -0.5 0.1\nto 0.2 0.3 -0.1\n")
    glove = tmp_path / "glove.txt"
    return StudyPaths(tmp_path / "data", tmp_path / "out", glove, bilm_folder)


def tiny_run(variant, seed=1, n_epochs=2):
    """A run with settings small enough for a test."""

    class Tiny(Run):
        sets = (
            *(s for s in SMALL_TAGGER if VARIANTS[variant].has_elmo or not s.startswith("elmo.")),
            f"train.seed={seed}",
            f"train.n_epochs={n_epochs}",
            "train.patience=none",
        )

    return Tiny("ner", variant, 0, seed, 0, frozenset({"table1"}))


def run_tiny(runs, paths, studied=TINY, **more):
    """Run these and no others."""
    return run_all(paths, plan=lambda choices: runs, studied={"ner": studied}, **more)


def test_a_run_leaves_one_file_and_is_not_made_again(paths):
    runs = [tiny_run("baseline"), tiny_run("elmo")]
    assert run_tiny(runs, paths) == []
    files = sorted((paths.out / "runs").iterdir())
    assert [path.name for path in files] == ["ner-baseline-0-1.json", "ner-elmo-0-1.json"]
    baseline, elmo = (json.loads(path.read_text()) for path in files)
    assert baseline["bilm_sha256"] is None
    assert len(elmo["bilm_sha256"]) == 64
    assert elmo["test_scores"] == pytest.approx(elmo["scores"])
    assert elmo["also"][TRAIN] == pytest.approx(elmo["scores"])
    for result in (baseline, elmo):
        assert {"task", "variant", "settings", "seed", "scores", "seconds"} <= set(result)
        assert len(result["curve"]) == result["n_epochs"] == 2
        assert {"commit", "cpu", "threads", "torch"} <= set(result["environment"])
    assert not list((paths.out / "work").iterdir())
    before = [path.stat().st_mtime_ns for path in files]
    run_tiny(runs, paths)
    assert [path.stat().st_mtime_ns for path in files] == before


def test_a_run_with_another_bilm_is_made_anew_and_one_without_is_not(paths, other_bilm_folder):
    runs = [tiny_run("baseline"), tiny_run("elmo")]
    run_tiny(runs, paths)
    first = {run.variant: json.loads(paths.result(run.key).read_text()) for run in runs}
    run_tiny(runs, replace(paths, bilm=other_bilm_folder))
    then = {run.variant: json.loads(paths.result(run.key).read_text()) for run in runs}
    assert then["baseline"] == first["baseline"]
    assert then["elmo"]["bilm_sha256"] != first["elmo"]["bilm_sha256"]


def test_a_run_with_other_data_or_word_vectors_is_made_anew(paths):
    run = tiny_run("baseline")
    run_tiny([run], paths)
    assert paths.has(run, TINY)
    glove = paths.glove.with_name("other.txt")
    glove.write_text("in 0.1 0.2 0.3\n")
    assert not replace(paths, glove=glove).has(run, TINY)
    (paths.data / "other.conll").write_text(as_columns(NAMES) + "\n", encoding="utf-8")
    assert not paths.has(run, replace(TINY, test="other.conll"))


def test_a_run_with_other_defaults_of_its_task_is_made_anew(paths):
    run = tiny_run("baseline")
    run_tiny([run], paths)
    path = paths.result(run.key)
    result = json.loads(path.read_text())
    result["settings"]["model"]["n_layers"] += 1
    path.write_text(json.dumps(result))
    assert not paths.has(run, TINY)
    run_tiny([run], paths)
    assert paths.has(run, TINY)


def test_settings_are_chosen_among_runs_with_the_current_data(paths):
    studied = {"ner": TINY}

    def choices_with(glove):
        for tried, score in enumerate((40.0, 41.0)):
            run = Run("ner", "baseline", tried, 1)
            made_from = replace(paths, glove=glove if tried else paths.glove)
            data = made_from.data_sha256(run, TINY)
            write(paths.out, made_up("ner", "baseline", 1, score, tried=tried, data_sha256=data))
        return paths.choices(studied)

    assert choices_with(paths.glove) == {("ner", "baseline"): 1}
    other = paths.glove.with_name("other.txt")
    other.write_text("in 0.1 0.2 0.3\n")
    assert choices_with(other) == {}


def test_a_run_with_other_settings_is_made_anew_whatever_was_begun(paths, caplog):
    caplog.set_level(logging.INFO)
    two, five = (tiny_run("baseline", n_epochs=number) for number in (2, 5))
    handler = StopAfter(epoch=1)
    trainer_log = logging.getLogger("elmo.training.loop")
    trainer_log.addHandler(handler)
    run_tiny([five], paths)
    trainer_log.removeHandler(handler)
    for run, n_epochs in ((two, 2), (five, 5)):
        assert run_tiny([run], paths) == []
        assert json.loads(paths.result(run.key).read_text())["n_epochs"] == n_epochs
    assert not list((paths.out / "work").iterdir())


def test_a_run_that_another_process_has_in_hand_is_left_to_it(paths):
    run = tiny_run("baseline")
    with paths.claim(run.key) as is_ours:
        assert is_ours
        run_tiny([run], paths)
    assert not paths.result(run.key).exists()
    run_tiny([run], paths)
    assert paths.result(run.key).exists()


class StopAfter(logging.Handler):
    """Stops the process when an epoch has ended, with the signal that --max-minutes uses."""

    def __init__(self, epoch):
        super().__init__()
        self._epoch = f", epoch {epoch:.2f}, "

    def emit(self, record):
        if self._epoch in record.getMessage():
            signal.raise_signal(signal.SIGTERM)


def test_a_stopped_run_resumes_to_the_same_result(paths, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    run, handler = tiny_run("baseline", n_epochs=5), StopAfter(epoch=2)
    trainer_log = logging.getLogger("elmo.training.loop")
    trainer_log.addHandler(handler)
    assert run_tiny([run, tiny_run("elmo")], paths) == []
    trainer_log.removeHandler(handler)
    assert not list(paths.out.glob("runs/*"))
    assert list(paths.out.glob("work/*/*/checkpoints/*"))
    assert run_tiny([run], paths) == []
    whole = replace(paths, out=tmp_path / "whole")
    run_tiny([run], whole)
    curves = [json.loads(p.result(run.key).read_text())["curve"] for p in (paths, whole)]
    assert len(curves[0]) == 5
    assert curves[0] == curves[1]


def test_a_run_may_have_the_bilm_of_an_earlier_commit(paths):
    run = tiny_run("perplexity-76")
    commit = f"{VARIANTS[run.variant].weights}^{{commit}}"
    looked = subprocess.run(["git", "-C", REPOSITORY, "cat-file", "-e", commit], check=False)
    if looked.returncode:
        pytest.skip("this clone has no history")
    assert run_tiny([run], paths) == []
    result = json.loads(paths.result(run.key).read_text())
    assert result["bilm_sha256"] == result["started_from"] != paths.bilm_sha256
    assert paths.has(run, TINY)


def test_a_tuned_bilm_is_made_once_and_its_perplexities_are_a_result(paths):
    runs = [tiny_run("tuned"), tiny_run("tuned", seed=2)]
    assert run_tiny(runs, paths) == []
    made = [json.loads(paths.result(run.key).read_text()) for run in runs]
    hashes = {result["bilm_sha256"] for result in made}
    assert len(hashes) == 1
    results = Results.read(paths.out, paths.bilm_sha256)
    assert results.tuning("wnut")["before"]["mean"] > results.tuning("wnut")["after"]["mean"]
    plain = tiny_run("elmo")
    run_tiny([plain], paths)
    assert json.loads(paths.result(plain.key).read_text())["bilm_sha256"] not in hashes


def test_a_failure_does_not_end_the_study(paths, caplog):
    broken = replace(TINY, train="absent.conll")
    runs = [tiny_run("baseline"), tiny_run("baseline", seed=2)]
    assert run_tiny(runs, paths, broken) == ["ner-baseline-0-1", "ner-baseline-0-2"]
    split = replace(TINY, train="wikigold/0/train.conll")  # a split of a missing file
    assert run_tiny(runs[:1], paths, split) == ["ner-baseline-0-1"]
    assert "ner-baseline-0-1 failed" in caplog.text


def test_the_plan_is_made_anew_after_each_run(paths):
    asked = []

    def plan(choices):
        asked.append(choices)
        return [tiny_run("baseline"), *([tiny_run("elmo")] if len(asked) > 1 else [])]

    assert run_all(paths, plan=plan, studied={"ner": TINY}) == []
    assert len(asked) == 3  # before each run, and when none is left
    assert len(list((paths.out / "runs").iterdir())) == 2


def test_the_time_is_up_outside_of_training_too(paths, caplog, monkeypatch):
    caplog.set_level(logging.INFO)
    # A destructor or a callback of the garbage collector may swallow the first signal.
    monkeypatch.setattr(runner, "SECONDS_BETWEEN_SIGNALS", 0.3)
    # It takes longer than this to open the biLM and train for so many epochs.
    run_tiny([tiny_run("elmo", n_epochs=1000)], paths, max_minutes=1e-4)
    assert "run the same command to resume" in caplog.text
    assert not (paths.out / "runs").exists()
