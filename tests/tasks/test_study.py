"""The study: its plan, its runner on tiny runs, and the report on made-up results."""

import json
import logging
import re
import signal
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import pytest

from benchmarks.study import runner
from benchmarks.study.__main__ import main
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
from benchmarks.study.results import Cell, Results
from benchmarks.study.runner import Places, run_all
from benchmarks.study.tables import bilms, gain, longer, table_1, table_2
from benchmarks.study.weights import REPOSITORY
from elmo.tasks import find_task
from elmo.tasks.task_config import read_config
from tests.tasks.tiny_tasks import NAMES, SMALL_TAGGER, as_columns

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
    assert config.train.share == pytest.approx(variant.share)


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
            places = Places(shared / "data", tmp_path)
            assert name is None or places.find(name).exists()


# The runner


@pytest.fixture
def places(tmp_path, bilm_folder):
    (tmp_path / "data" / "ner" / "wnut17").mkdir(parents=True)
    for name in (TRAIN, DEV):
        (tmp_path / "data" / name).write_text(as_columns(NAMES), encoding="utf-8")
    return Places(tmp_path / "data", tmp_path / "out", bilm=bilm_folder)


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


def test_a_run_leaves_one_file_and_is_not_made_again(places):
    runs = [tiny_run("baseline"), tiny_run("elmo")]
    assert run_all(runs, places, studied={"ner": TINY}) == []
    files = sorted((places.out / "runs").iterdir())
    assert [path.name for path in files] == ["ner-baseline-1.json", "ner-elmo-1.json"]
    baseline, elmo = (json.loads(path.read_text()) for path in files)
    assert baseline["bilm_sha256"] is None
    assert len(elmo["bilm_sha256"]) == 64
    assert elmo["test_scores"] == pytest.approx(elmo["scores"])
    assert elmo["also"][TRAIN] == pytest.approx(elmo["scores"])
    for result in (baseline, elmo):
        assert {"task", "variant", "settings", "seed", "scores", "seconds"} <= set(result)
    assert not list((places.out / "work").iterdir())
    before = [path.stat().st_mtime_ns for path in files]
    run_all(runs, places, studied={"ner": TINY})
    assert [path.stat().st_mtime_ns for path in files] == before


def test_a_run_with_another_bilm_is_made_anew_and_one_without_is_not(places, other_bilm_folder):
    runs = [tiny_run("baseline"), tiny_run("elmo")]
    run_all(runs, places, studied={"ner": TINY})
    first = {run.variant: json.loads(places.result(run.key).read_text()) for run in runs}
    run_all(runs, replace(places, bilm=other_bilm_folder), studied={"ner": TINY})
    then = {run.variant: json.loads(places.result(run.key).read_text()) for run in runs}
    assert then["baseline"] == first["baseline"]
    assert then["elmo"]["bilm_sha256"] != first["elmo"]["bilm_sha256"]


def test_a_run_with_other_settings_is_made_anew_whatever_was_begun(places, caplog):
    caplog.set_level(logging.INFO)
    two, five = (tiny_run("baseline", n_epochs=number) for number in (2, 5))
    handler = StopAfter(epoch=1)
    trainer_log = logging.getLogger("elmo.tasks.task_trainer")
    trainer_log.addHandler(handler)
    run_all([five], places, studied={"ner": TINY})
    trainer_log.removeHandler(handler)
    for run, n_epochs in ((two, 2), (five, 5)):
        assert run_all([run], places, studied={"ner": TINY}) == []
        assert json.loads(places.result(run.key).read_text())["n_epochs"] == n_epochs
    assert not list((places.out / "work").iterdir())


def test_a_run_that_another_process_has_in_hand_is_left_to_it(places):
    run = tiny_run("baseline")
    with places.claim(run.key) as is_ours:
        assert is_ours
        run_all([run], places, studied={"ner": TINY})
    assert not places.result(run.key).exists()
    run_all([run], places, studied={"ner": TINY})
    assert places.result(run.key).exists()


class StopAfter(logging.Handler):
    """Asks the process to stop when an epoch has ended, as the clock of --max-minutes does."""

    def __init__(self, epoch):
        super().__init__()
        self._start = f"epoch {epoch}:"

    def emit(self, record):
        if record.getMessage().startswith(self._start):
            signal.raise_signal(signal.SIGTERM)


def test_a_run_that_was_stopped_goes_on_to_the_same_end(places, tmp_path, caplog):
    caplog.set_level(logging.INFO)
    run, handler = tiny_run("baseline", n_epochs=5), StopAfter(epoch=2)
    trainer_log = logging.getLogger("elmo.tasks.task_trainer")
    trainer_log.addHandler(handler)
    assert run_all([run, tiny_run("elmo")], places, studied={"ner": TINY}) == []
    trainer_log.removeHandler(handler)
    assert not list(places.out.glob("runs/*"))
    assert list(places.out.glob("work/*/*/checkpoints/*"))
    assert run_all([run], places, studied={"ner": TINY}) == []
    whole = Places(places.data, tmp_path / "whole", bilm=places.bilm)
    run_all([run], whole, studied={"ner": TINY})
    curves = [json.loads(p.result(run.key).read_text())["curve"] for p in (places, whole)]
    assert len(curves[0]) == 5
    assert curves[0] == curves[1]


def test_a_run_may_have_the_bilm_of_an_earlier_commit(places):
    run = tiny_run("perplexity-127")
    commit = f"{VARIANTS[run.variant].weights}^{{commit}}"
    looked = subprocess.run(["git", "-C", REPOSITORY, "cat-file", "-e", commit], check=False)
    if looked.returncode:
        pytest.skip("this clone has no history")
    assert run_all([run], places, studied={"ner": TINY}) == []
    result = json.loads(places.result(run.key).read_text())
    assert result["bilm_sha256"] == result["started_from"] != places.bilm_sha256
    assert places.has(run)


def test_a_tuned_bilm_is_made_once_and_its_perplexities_are_a_result(places):
    runs = [tiny_run("tuned"), tiny_run("tuned", seed=2)]
    assert run_all(runs, places, studied={"ner": TINY}) == []
    made = [json.loads(places.result(run.key).read_text()) for run in runs]
    hashes = {result["bilm_sha256"] for result in made}
    assert len(hashes) == 1
    results = Results.read(places.out, places.bilm_sha256)
    assert results.tuning("wnut")["before"]["mean"] > results.tuning("wnut")["after"]["mean"]
    plain = tiny_run("elmo")
    run_all([plain], places, studied={"ner": TINY})
    assert json.loads(places.result(plain.key).read_text())["bilm_sha256"] not in hashes


def test_a_task_that_is_not_there_is_skipped_and_a_failure_does_not_end_the_study(places, caplog):
    broken = StudiedTask("ner", "tiny", "absent.conll", "absent.conll", None, TINY.sets, 2, 2, 1)
    absent = Run("astrology", "elmo", 1, frozenset())
    assert run_all([absent, tiny_run("baseline")], places, studied={"ner": broken}) == [
        "ner-baseline-1"
    ]
    assert "astrology: no such task" in caplog.text
    split = replace(broken, train="wikigold/train.conll")  # of a file that is not there
    assert run_all([tiny_run("baseline")], places, studied={"ner": split}) == ["ner-baseline-1"]
    assert "ner-baseline-1 failed" in caplog.text


def test_the_time_is_up_outside_of_training_too(places, caplog, monkeypatch):
    caplog.set_level(logging.INFO)
    # A destructor or a callback of the garbage collector may swallow the first signal.
    monkeypatch.setattr(runner, "SECONDS_BETWEEN_SIGNALS", 0.3)
    # It takes longer than this to open the biLM and train for so many epochs.
    run_all([tiny_run("elmo", n_epochs=1000)], places, max_minutes=1e-4, studied={"ner": TINY})
    assert "the same command goes on" in caplog.text
    assert not (places.out / "runs").exists()


# The report


BILM = "ab" * 32


def made_up(task, variant, seed, score, metric="f1", **more):
    result = {
        "key": f"{task}-{variant}-{seed}",
        "task": STUDIED[task].task,
        "studied": task,
        "variant": variant,
        "seed": seed,
        "sets": Run(task, variant, seed, frozenset()).sets,
        "metric": metric,
        "scores": {metric: score},
        "test_scores": {metric: score - 1},
        "curve": [score - 10, score],
        "best_epoch": 2,
        "n_train": 100,
        "n_dev": 10,
        "seconds": 60.0,
        "mixes": {},
        "bilm_sha256": None if variant == "baseline" else BILM,
        "started_from": None if variant == "baseline" else BILM,
    }
    return {**result, **more}


MIX = {"input": {"weights": [0.2, 0.5, 0.3], "gamma": 1.5}}


@pytest.fixture
def results_folder(tmp_path):
    runs = [
        made_up("ner", "baseline", 1, 40.0),
        made_up("ner", "baseline", 2, 42.0),
        made_up("ner", "elmo", 1, 50.0, mixes=MIX),
        made_up("ner", "elmo", 2, 56.0, mixes=MIX),
        made_up("ner", "characters", 1, 45.0),
        made_up("coref", "elmo", 1, 40.0, also={"coref/gap/gap-test.tsv": {"f1": 33.0}}),
        made_up("ner", "tuned", 1, 58.0),
        *(made_up("nli", v, 1, s) for v, s in (("baseline", 80), ("elmo", 85), ("top", 83))),
        *(made_up("nli", v, 1, s) for v, s in (("at-input", 84), ("elmo-10-percent", 70))),
        {
            "key": "tune-wnut",
            "text": "wnut",
            "seconds": 1.0,
            "before": {"mean": 300.0},
            "after": {"mean": 150.0},
            "started_from": BILM,
        },
    ]
    folder = tmp_path / "study" / "runs"
    folder.mkdir(parents=True)
    for run in runs:
        (folder / f"{run['key']}.json").write_text(json.dumps(run))
    return tmp_path / "study"


def test_gains_are_counted_as_in_the_paper():
    assert gain(81.1, 85.8) == pytest.approx((4.7, 24.9), abs=0.05)
    assert str(Cell((40.0, 42.0))) == "41.00 ± 1.41"
    assert str(Cell((40.0,))) == "40.00"


def test_tables_have_means_spreads_and_the_papers_numbers(results_folder):
    results = Results.read(results_folder, BILM)
    row = next(line for line in table_1(results, "scores") if "NER" in line)
    # 53 - 41 = 12 of an error of 59.
    assert "| 41.00 ± 1.41 | 53.00 ± 4.24 | +12.00 / 20.3 % | 90.15 -> 92.22 |" in row
    assert row.endswith("| 2 / 2 |")
    test_row = next(line for line in table_1(results, "test_scores") if "NER" in line)
    assert "| 40.00 ± 1.41 | 52.00 ± 4.24 |" in test_row
    layers = table_2(results)
    assert "80.00 | 83.00 | – | 85.00 |" in layers[2]
    assert "*88.1* | *89.1* | *89.3* | *89.5*" in layers[3]


def test_runs_of_other_settings_are_left_out(results_folder, caplog):
    run = made_up("ner", "elmo", 3, 99.0, sets=["elmo.place=output"])
    (results_folder / "runs" / f"{run['key']}.json").write_text(json.dumps(run))
    assert Results.read(results_folder, BILM).cell("ner", "elmo") == Cell((50.0, 56.0))
    assert "ner-elmo-3 was made with other settings" in caplog.text


def test_runs_of_another_bilm_are_left_out(results_folder, caplog):
    other = {"started_from": "cd" * 32}
    runs = [
        made_up("ner", "elmo", 3, 99.0, **other),
        made_up("ner", "tuned", 2, 99.0, **other),
        made_up("ner", "perplexity-127", 1, 45.0, **other),  # which it says
    ]
    for run in runs:
        (results_folder / "runs" / f"{run['key']}.json").write_text(json.dumps(run))
    tuning = json.loads((results_folder / "runs" / "tune-wnut.json").read_text())
    (results_folder / "runs" / "tune-wnut.json").write_text(json.dumps({**tuning, **other}))
    results = Results.read(results_folder, BILM)
    assert results.cell("ner", "elmo") == Cell((50.0, 56.0))
    assert results.cell("ner", "tuned") == Cell((58.0,))
    assert results.cell("ner", "perplexity-127") == Cell((45.0,))
    assert results.tuning("wnut") is None
    for key in ("ner-elmo-3", "ner-tuned-2", "tune-wnut"):
        assert f"{key} was made with another biLM, cdcdcdcdcdcdcdcd" in caplog.text


def test_bilms_are_compared_by_the_seeds_that_all_have(results_folder):
    run = made_up("ner", "perplexity-127", 1, 45.0)
    (results_folder / "runs" / f"{run['key']}.json").write_text(json.dumps(run))
    row = bilms(Results.read(results_folder, BILM))[-1]
    assert row == (
        "| NER (WNUT 2017) | 40.00 | 45.00 (+5.00 / 8.3 %) | – | 50.00 (+10.00 / 16.7 %) |"
    )


def test_a_gain_of_nothing_has_no_sign(results_folder):
    for variant, score in (("baseline", 50.0), ("elmo", 50.0 - 1e-9)):
        run = made_up("sick", variant, 1, score)
        (results_folder / "runs" / f"{run['key']}.json").write_text(json.dumps(run))
    rows = table_1(Results.read(results_folder, BILM), "scores")
    assert "| +0.00 / 0.0 % |" in next(row for row in rows if "SICK" in row)


def test_a_longer_baseline_is_compared_by_its_seeds(results_folder):
    run = made_up("ner", "baseline-longer", 2, 45.0)
    (results_folder / "runs" / f"{run['key']}.json").write_text(json.dumps(run))
    row = longer(Results.read(results_folder, BILM))[-1]
    # 56 - 45 = 11 of an error of 55.
    assert row == "| NER (WNUT 2017) | 42.00 | 45.00 | 56.00 (+11.00 / 20.0 %) |"


def test_a_task_that_the_papers_table_lacks_has_its_row_alone(results_folder):
    run = made_up("wikigold", "top", 1, 75.0)
    (results_folder / "runs" / f"{run['key']}.json").write_text(json.dumps(run))
    layers = table_2(Results.read(results_folder, BILM))
    assert [line.split(" | ")[0] for line in layers[2:]] == [
        "| SNLI (counterfactual)",
        "| *the paper*",
        "| NER (Wikigold)",
    ]


def test_the_report_is_rebuilt_from_the_files_it_keeps(results_folder, tmp_path):
    pytest.importorskip("matplotlib")
    from benchmarks.study.report import write_report

    docs = tmp_path / "docs"
    old = made_up("ner", "elmo", 3, 99.0, sets=["elmo.place=output"])
    kept = {path.name for path in (results_folder / "runs").iterdir()}
    (results_folder / "runs" / f"{old['key']}.json").write_text(json.dumps(old))
    page = write_report(results_folder, docs, BILM)
    text = page.read_text(encoding="utf-8")
    for words in ("Table 1", "Table 2", "Table 3", "Ablations", "Figure 1", "Figure 2"):
        assert f"## {words}" in text
    assert "300.0 -> 150.0" in text
    assert "`coref/gap/gap-test.tsv` | – | 33.00 | – |" in text
    assert "| NER (WNUT 2017), input | 0.20 | 0.50 | 0.30 | 1.50 |" in text
    pictures = {path.name for path in (docs / "results").glob("*.png")}
    assert pictures == {Path(name).name for name in re.findall(r"\]\((results/\w+\.png)\)", text)}
    files = {path.name for path in (docs / "results" / "runs").iterdir()}
    assert files == kept
    again = write_report(docs / "results" / "runs", tmp_path / "again", BILM)
    assert again.read_text(encoding="utf-8") == text
    assert write_report(docs / "results" / "runs", docs, BILM).read_text(encoding="utf-8") == text


def test_a_report_of_nothing_is_refused_with_a_line(tmp_path, monkeypatch, capsys):
    pytest.importorskip("matplotlib")
    monkeypatch.setattr(sys, "argv", ["study", "report", str(tmp_path), "--docs", str(tmp_path)])
    with pytest.raises(SystemExit) as stopped:
        main()
    assert stopped.value.code == 2
    assert capsys.readouterr().err == (
        f"{tmp_path}: no results, expected runs/*.json; run the study first\n"
    )
    assert not list(tmp_path.iterdir())
