"""docs/results.md and its pictures, from the files of runs.

In: a folder of results; findings.md for what they say. Out: DOCS/results.md, DOCS/results/*.png,
and the files themselves in DOCS/results/runs, so that the same command with that folder writes the
same page again.
"""

import shutil
from collections.abc import Callable
from pathlib import Path

from benchmarks.study import tables
from benchmarks.study.plan import RUNS
from benchmarks.study.results import Results
from elmo.errors import DataError

INTRODUCTION = """\
# Results

The paper's tables, measured here: small task models on two CPU cores, open data in place of what is
licensed, and a biLM of this project. Scores are in percent, of dev data unless said otherwise, as
the mean ± standard deviation over seeds; one number is one seed. *Less error* is the gain's share
of what the baseline gets wrong, the paper's relative error reduction. Both have the same GloVe
vectors, sizes, epochs and settings, ELMo aside. The paper's numbers are of other data and larger
models: what can be compared is the direction and the size of a gain, not the score.

`python -m benchmarks.study run` made these runs, and `python -m benchmarks.study report
docs/results/runs` this page, of their files in `docs/results/runs`."""

# What a reader makes of the tables, written by hand.
FINDINGS = Path(__file__).with_name("findings.md")

SECTIONS: list[tuple[str, str, str | None, Callable[[Results], list[str]]]] = [
    (
        "Table 1: with and without ELMo",
        "Dev data, by which training was stopped:",
        "table1",
        lambda results: tables.table_1(results, "scores"),
    ),
    (
        "",
        "Test data, where there is such, with the same models:",
        None,
        lambda results: tables.table_1(results, "test_scores"),
    ),
    ("", "Further data, with the same models:", None, tables.further_data),
    (
        "Table 2: which layers",
        "The last layer alone, or a learned mix of all with a penalty λ on its weights.",
        "table2",
        tables.table_2,
    ),
    (
        "Table 3: where",
        "Beside the words at the input, beside what the task's own LSTM gives, or both.",
        "table3",
        tables.table_3,
    ),
    ("Ablations", "What is left when a part is taken away.", "ablations", tables.ablations),
    (
        "Figure 1: how much data, how many epochs",
        "A share of the training data, drawn by the seed; smaller shares are read in more epochs.",
        "figure1",
        tables.figure_1,
    ),
    ("", "With all training data:", None, tables.epochs_to_equal),
    (
        "Twice the epochs without ELMo",
        "Where a baseline still rose in its last epochs: in brackets what ELMo gains over the one "
        "of twice the epochs, itself with as many as in Table 1.",
        None,
        tables.longer,
    ),
    (
        "Figure 2: learned mixes",
        "Softmax of the mix's weights, mean over seeds: which layers a task takes, and where.",
        "figure2",
        tables.figure_2,
    ),
    (
        "Fine-tuning the biLM on the task's text",
        "One epoch on the training text; perplexity is of the dev text, mean of both directions.",
        "finetuning",
        tables.finetuning,
    ),
    (
        "What a better biLM brings",
        "The package's biLM as it was shipped at first, then, and now; in brackets gain and less "
        "error.",
        None,
        tables.bilms,
    ),
    ("What was run", "", None, tables.settings_of_runs),
]


def write_report(folder: Path, docs: Path, bilm_sha256: str) -> Path:
    """Write the page and its pictures, of runs with one biLM; gives the page."""
    from benchmarks.study.plots import draw_all

    results = Results.read(folder, bilm_sha256)
    if not results.runs:
        raise DataError(f"{folder}: no results, expected runs/*.json; run the study first")
    keep_files(results, folder, docs / "results" / "runs")
    drawn = draw_all(results, docs / "results")
    lines = [INTRODUCTION, "", FINDINGS.read_text(encoding="utf-8").strip()]
    for title, text, picture, table in SECTIONS:
        rows = table(results)
        if not rows:
            continue
        lines += ["", *([f"## {title}", ""] if title else []), *([text, ""] if text else []), *rows]
        if picture in drawn:
            lines += ["", f"![{title}](results/{picture}.png)"]
    lines += ["", *_closing(results, bilm_sha256)]
    page = docs / "results.md"
    page.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return page


def keep_files(results: Results, folder: Path, kept: Path) -> None:
    """Copy the files of results to where they are committed."""
    inner = folder / "runs" if (folder / "runs").is_dir() else folder
    kept.mkdir(parents=True, exist_ok=True)
    for result in (*results.runs, *results.tunings):
        path = inner / f"{result['key']}.json"
        if not (kept / path.name).exists() or not path.samefile(kept / path.name):
            shutil.copyfile(path, kept / path.name)


def _closing(results: Results, bilm_sha256: str) -> list[str]:
    """Which biLM it was, and what is still to run."""
    done = {run["key"] for run in results.runs}
    missing = [run.key for run in RUNS if run.key not in done]
    hours = sum(run["seconds"] for run in results.runs) / 3600
    n_tuned = len({run["bilm_sha256"] for run in results.runs if run["variant"] == "tuned"})
    lines = [f"{len(done)} runs, {hours:.1f} hours. The biLM's hash: `{bilm_sha256[:16]}`."]
    if n_tuned:
        lines.append(f"{n_tuned} more are tuned from it.")
    if missing:
        lines.append(f"{len(missing)} planned runs are not made yet.")
    return lines
