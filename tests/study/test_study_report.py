"""The study's report, on made-up results."""

import json
import re
import sys
from pathlib import Path

import pytest

from benchmarks.study.__main__ import main
from benchmarks.study.plan import STUDIED, Run
from benchmarks.study.results import Cell, Results
from benchmarks.study.tables import bilms, gain, longer, table_1, table_2

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


def test_the_summary_of_the_published_results_has_the_numbers_of_table_1():
    page = (Path(__file__).parents[2] / "docs/results.md").read_text(encoding="utf-8")
    summary, _, tables = page.partition("## Table 1")
    reductions = re.findall(r"/ ([\d.]+) %.*/ ([\d.]+) %", tables)
    dev, test = reductions[:8], reductions[8:16]
    for row in re.findall(r"^\| [^|]+ \| ([\d.]+) \| ([\d.]+) \| ([\d.]+) \|$", summary, re.M):
        assert any((row[0], row[2]) == pair for pair in dev), row
        assert any((row[1], row[2]) == pair for pair in test), row
