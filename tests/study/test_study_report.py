"""The study's report, on made-up results."""

import json
import re
import sys
from pathlib import Path

import pytest

from benchmarks.study.__main__ import main
from benchmarks.study.plan import STUDIED, VERSION, Run
from benchmarks.study.results import Cell, Results
from benchmarks.study.tables import (
    bilms,
    gain_shown,
    not_converged,
    summary,
    table_1,
    table_2,
    tries,
)
from elmo.api import Elmo
from elmo.errors import DataError
from elmo.models.identity import model_hash

BILM = "ab" * 32
ROOT = Path(__file__).parents[2]


def made_up(task, variant, seed, score, metric="f1", tried=0, fold=0, **more):
    run = Run(task, variant, tried, seed, fold)
    settings = run.settings
    n_last = settings["train"]["patience"] * settings["train"]["evaluate_every"]
    result = {
        "plan": VERSION,
        "key": run.key,
        "task": STUDIED[task].task,
        "studied": task,
        "variant": variant,
        "tried": tried,
        "seed": seed,
        "fold": fold,
        "sets": run.sets,
        "data_sha256": {"train": f"{task}-{fold}", "words": "glove"},
        "settings": settings,
        "metric": metric,
        "scores": {metric: score + 1},
        "test_scores": {metric: score},
        "also": {},
        "curve": [score - 9, score + 1, *[score] * settings["train"]["patience"]],
        "n_epochs": 2 + n_last,
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


def write(folder, *runs):
    (folder / "runs").mkdir(parents=True, exist_ok=True)
    for run in runs:
        (folder / "runs" / f"{run['key']}.json").write_text(json.dumps(run))


@pytest.fixture
def results_folder(tmp_path):
    write(
        tmp_path / "study",
        *(made_up("ner", "baseline", seed, 39.0 + seed) for seed in (1, 2)),
        *(made_up("ner", side, 1, 30.0, tried=1) for side in ("baseline", "elmo")),
        made_up("ner", "elmo", 1, 50.0, mixes=MIX),
        made_up("ner", "elmo", 2, 53.0, mixes=MIX),
        made_up("ner", "characters", 1, 45.0),
        made_up("ner", "tuned", 1, 58.0),
        made_up("ontogum", "elmo", 1, 40.0, also={"coref/gap/gap-test.tsv": {"f1": 33.0}}),
        *(made_up("nli", v, 1, s, tried=0) for v, s in (("baseline", 80), ("elmo", 85))),
        *(made_up("nli", v, 1, 70, tried=1) for v in ("baseline", "elmo")),
        *(made_up("nli", v, 1, s) for v, s in (("top", 83), ("at-input", 84))),
        made_up("nli", "elmo-10-percent", 1, 70),
        {
            "key": "tune-wnut",
            "text": "wnut",
            "seconds": 1.0,
            "before": {"mean": 300.0},
            "after": {"mean": 150.0},
            "started_from": BILM,
        },
    )
    return tmp_path / "study"


def test_gains_are_counted_as_in_the_paper(results_folder):
    difference = Results.read(results_folder, BILM).difference("ner", "baseline", "elmo")
    # 51.5 - 40.5 = 11 of an error of 59.5; the differences of the two seeds are 10 and 12.
    assert gain_shown(difference) == "+11.00 ± 1.41 / 18.5%"
    assert not difference.is_clear
    assert difference.p == pytest.approx(0.0577, abs=1e-4)  # t = 11 with one degree of freedom
    assert str(Cell((40.0, 42.0))) == "41.00 ± 1.41"
    assert str(Cell((40.0,))) == "40.00"


def test_test_scores_lead_with_dev_scores_and_the_papers_numbers_beside(results_folder):
    results = Results.read(results_folder, BILM)
    row = next(line for line in table_1(results) if "NER" in line)
    assert "| 40.50 ± 0.71 | 51.50 ± 2.12 | +11.00 ± 1.41 / 18.5% | 0.058 |" in row
    assert "| 41.50 ± 0.71 -> 52.50 ± 2.12 | 90.15 -> 92.22 |" in row
    assert row.endswith("| 2 of 3 |")
    layers = table_2(results)
    assert "80.00 | 83.00 (-2.00, p –) | – | 85.00 |" in layers[2]
    assert "*88.1* | *89.1* | *89.3* | *89.5*" in layers[3]


def test_the_settings_with_the_best_dev_score_are_used_on_each_side(results_folder):
    write(results_folder, made_up("ner", "elmo", 1, 60.0, tried=1))
    results = Results.read(results_folder, BILM)
    assert results.choices()["ner", "elmo"] == 1
    assert results.choices()["ner", "baseline"] == 0
    assert results.cell("ner", "elmo") == Cell((60.0,))
    shown = [line for line in tries(results) if "WNUT" in line]
    assert shown[0].endswith("| **41.00** | 51.00 |")
    assert shown[1].endswith("| 31.00 | **61.00** |")


def test_nothing_is_chosen_before_all_settings_were_tried(results_folder):
    (results_folder / "runs" / "ner-elmo-1-1.json").unlink()
    assert ("ner", "elmo") not in Results.read(results_folder, BILM).choices()


def test_folds_are_averaged_and_seeds_that_both_sides_have_are_paired(tmp_path):
    for seed in (1, 2, 3):
        for fold in range(5):
            write(tmp_path, made_up("wikigold", "baseline", seed, 60.0 + seed + fold, fold=fold))
            if seed < 3 or not fold:  # four folds of the third seed are missing
                score = 70.0 + 3 * seed - fold
                write(tmp_path, made_up("wikigold", "elmo", seed, score, fold=fold))
    results = Results.read(tmp_path, BILM)
    assert results.cell("wikigold", "baseline") == Cell((63.0, 64.0, 65.0))
    assert results.cell("wikigold", "elmo") == Cell((71.0, 74.0))
    difference = results.difference("wikigold", "baseline", "elmo")
    assert difference.before == Cell((63.0, 64.0))
    assert difference.differences == (8.0, 10.0)
    assert difference.p == pytest.approx(0.0704, abs=1e-4)  # t = 9 with one degree of freedom


def test_runs_with_other_data_or_word_vectors_are_refused(results_folder):
    other = made_up("ner", "elmo", 3, 53.0, data_sha256={"train": "ner-0", "words": "other"})
    write(results_folder, other)
    with pytest.raises(DataError, match="ner-elmo-0-3: words has hash other, expected glove"):
        Results.read(results_folder, BILM)


def test_a_run_that_patience_did_not_end_is_marked(results_folder):
    write(results_folder, made_up("ner", "baseline", 2, 41.0, best_epoch=5))
    results = Results.read(results_folder, BILM)
    assert str(results.cell("ner", "baseline")) == "40.50 ± 0.71 (!)"
    assert not_converged(results) == ["- `ner-baseline-0-2`"]


def test_the_summary_says_first_what_does_not_hold(results_folder):
    for seed, scores in ((1, (60, 66)), (2, (60, 61)), (3, (66, 60))):
        sides = zip(("baseline", "elmo"), scores, strict=True)
        write(results_folder, *(made_up("sick", side, seed, score) for side, score in sides))
    write(results_folder, *(made_up("sick", s, 1, 50, tried=1) for s in ("baseline", "elmo")))
    lines = summary(Results.read(results_folder, BILM))
    assert lines[0].startswith("- No conclusion")
    assert "SICK entailment (0.9%, paper 5.8%)" in lines[0]
    assert "SNLI" in lines[0]  # of one seed
    assert "NER (WNUT 2017) (18.5%, paper 21%)" in lines[0]  # p 0.058
    write(results_folder, made_up("ner", "baseline", 3, 42.0), made_up("ner", "elmo", 3, 53.0))
    lines = summary(Results.read(results_folder, BILM))  # 18.6%, with a spread of 1.7%
    assert lines[1].startswith("- ELMo is better, but")
    assert "NER (WNUT 2017) (18.6%, paper 21%)" in lines[1]
    write(results_folder, made_up("ner", "elmo", 2, 56.0, mixes=MIX))
    lines = summary(Results.read(results_folder, BILM))  # 20.3%, with a spread of 4.4%
    assert lines[1].startswith("- ELMo reduces the error about as much")
    assert "NER (WNUT 2017) (20.3%, paper 21%)" in lines[1]


def test_runs_of_other_settings_or_another_plan_are_left_out(results_folder, caplog):
    write(
        results_folder,
        made_up("ner", "elmo", 3, 99.0, settings=Run("ner", "at-output", 0, 3).settings),
        made_up("sick", "elmo", 1, 99.0, plan=1),
        {**made_up("ner", "elmo", 1, 99.0), "key": "astrology-elmo-1", "studied": "astrology"},
    )
    results = Results.read(results_folder, BILM)
    assert results.cell("ner", "elmo") == Cell((50.0, 53.0))
    assert results.cell("sick", "elmo") is None
    for key in ("ner-elmo-0-3", "sick-elmo-0-1", "astrology-elmo-1"):
        assert f"{key} was made with other settings" in caplog.text


def test_runs_of_another_bilm_are_left_out(results_folder, caplog):
    other = {"started_from": "cd" * 32}
    write(
        results_folder,
        made_up("ner", "elmo", 3, 99.0, **other),
        made_up("ner", "tuned", 2, 99.0, **other),
        made_up("ner", "perplexity-76", 1, 45.0, **other),  # a variant that names its biLM
    )
    tuning = json.loads((results_folder / "runs" / "tune-wnut.json").read_text())
    (results_folder / "runs" / "tune-wnut.json").write_text(json.dumps({**tuning, **other}))
    results = Results.read(results_folder, BILM)
    assert results.cell("ner", "elmo") == Cell((50.0, 53.0))
    assert results.cell("ner", "tuned") == Cell((58.0,))
    assert results.tuning("wnut") is None
    for key in ("ner-elmo-0-3", "ner-tuned-0-2", "tune-wnut"):
        assert f"{key} was made with another biLM, cdcdcdcdcdcdcdcd" in caplog.text
    assert [row.split(" | ")[1:] for row in bilms(results)[2:]] == [
        ["ELMo of a biLM of perplexity 76.0", "45.00", "+5.00 / 8.3%", "+5.00 / 8.3%", "– |"],
        ["ELMo", "51.50 ± 2.12", "+11.00 ± 1.41 / 18.5%", "+5.00 / 9.1%", "– |"],
    ]


def test_a_gain_of_nothing_has_no_sign(results_folder):
    for variant, score in (("baseline", 50.0), ("elmo", 50.0 - 1e-9)):
        write(results_folder, *(made_up("sick", variant, 1, score, tried=k) for k in (0, 1)))
    rows = table_1(Results.read(results_folder, BILM))
    assert "| +0.00 / 0.0% |" in next(row for row in rows if "SICK" in row)


def test_prose_has_its_numbers_from_the_results(results_folder):
    pytest.importorskip("matplotlib")
    from benchmarks.study.report import FINDINGS, fill_numbers

    results = Results.read(results_folder, BILM)
    text = "{test ner baseline}; {dev ner}; {gain ner}; {reduction ner elmo}; {gain sick}"
    assert fill_numbers(text, results) == "40.50 ± 0.71; 52.50 ± 2.12; 11.0; 18.5; –"
    assert fill_numbers("{gain nli top elmo}", results) == "-2.0"
    for wrong in ("{gain astrology}", "{gian ner}", "{gain ner elmo astrology}"):
        with pytest.raises(DataError, match=rf"{wrong}, expected one of test, dev, gain"):
            fill_numbers(wrong, results)
    prose = FINDINGS.read_text(encoding="utf-8")
    assert not re.search(r"\d", re.sub(r"\{[^}]*\}", "", prose))


def test_the_published_page_is_what_its_files_give(tmp_path):
    pytest.importorskip("matplotlib")
    from benchmarks.study.report import write_report

    runs = ROOT / "docs" / "results" / "runs"
    hashes = {
        result["started_from"]
        for result in (json.loads(path.read_text()) for path in runs.glob("*-elmo-*.json"))
        if result.get("plan") == VERSION
    }
    if not hashes:
        pytest.skip("the published results are of an earlier plan")
    (bilm_sha256,) = hashes
    page = write_report(runs, tmp_path, bilm_sha256)
    assert page.read_text() == (ROOT / "docs" / "results.md").read_text()


def test_the_report_is_rebuilt_from_the_files_it_keeps(results_folder, tmp_path):
    pytest.importorskip("matplotlib")
    from benchmarks.study.report import write_report

    docs = tmp_path / "docs"
    old = made_up("ner", "elmo", 3, 99.0, settings=Run("ner", "at-output", 0, 3).settings)
    kept = {path.name for path in (results_folder / "runs").iterdir()}
    (results_folder / "runs" / f"{old['key']}.json").write_text(json.dumps(old))
    page = write_report(results_folder, docs, BILM)
    text = page.read_text(encoding="utf-8")
    for words in ("Summary", "Table 1", "Settings tried", "Table 2", "Table 3", "Ablations"):
        assert f"## {words}" in text
    for words in ("Figure 1", "Figure 2", "Overlap"):
        assert f"## {words}" in text
    assert "300.0 -> 150.0" in text
    assert "`coref/gap/gap-test.tsv` | – | 33.00 |" in text
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
    packaged = model_hash(Elmo.load().bilm)
    assert capsys.readouterr().err == (
        f"{tmp_path}: no results with the biLM {packaged[:16]}, expected runs/*.json; run the "
        "study first, or name its biLM with -m\n"
    )
    assert not list(tmp_path.iterdir())


def test_a_report_with_another_bilm_deletes_nothing(results_folder, tmp_path):
    pytest.importorskip("matplotlib")
    from benchmarks.study.report import write_report

    docs = tmp_path / "docs"
    write_report(results_folder, docs, BILM)
    kept = docs / "results" / "runs"
    before = {path.name for path in kept.iterdir()}
    with pytest.raises(DataError, match="no results with the biLM cdcdcdcdcdcdcdcd"):
        write_report(kept, docs, "cd" * 32)
    assert {path.name for path in kept.iterdir()} == before


def test_a_study_with_some_folds_is_reported(results_folder, tmp_path):
    pytest.importorskip("matplotlib")
    from benchmarks.study.report import write_report

    write(results_folder, made_up("wikigold", "elmo", 1, 70.0))
    page = write_report(results_folder, tmp_path, BILM)
    assert "| NER (Wikigold) | f1 |" not in page.read_text(encoding="utf-8")


def test_the_overlap_is_that_of_the_text_of_the_bilm(tmp_path):
    pytest.importorskip("matplotlib")
    from benchmarks.study.report import overlap_section

    measured = json.loads((ROOT / "docs" / "benchmarks" / "overlap.json").read_text())
    (tmp_path / "overlap.json").write_text(json.dumps({**measured, "bilm_sha256": BILM}))
    found = overlap_section(Results([], bilm_sha256=BILM), tmp_path / "overlap.json")
    assert "SQuAD is scored without its 0 overlapping" in found[0]
    other = overlap_section(Results([], bilm_sha256="cd" * 32), tmp_path / "overlap.json")
    assert other == ["Not measured: `docs/benchmarks/overlap.json` is of the text of another biLM."]
