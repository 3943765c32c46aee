"""docs/results.md and its pictures, from the files of runs.

In: a folder of results; findings.md, the summary. Out: DOCS/results.md, DOCS/results/*.png,
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

The tables of the ELMo paper, measured with small task models on two CPU cores, open data instead of
licensed data, and the English model of this package. Scores are percentages on dev data unless
stated otherwise: the mean ± standard deviation over seeds, or the score of one seed. *Error
reduction* is the gain divided by the error of the baseline, as in the paper. Both models have the
same GloVe vectors, sizes, epochs and settings, except for ELMo. The paper uses other data and
larger models, so compare the direction and size of gains, not scores.

`python -m benchmarks.study run` made the runs in `docs/results/runs`, and
`python -m benchmarks.study report docs/results/runs` wrote this page from them."""

# The summary, written by hand.
FINDINGS = Path(__file__).with_name("findings.md")

SECTIONS: list[tuple[str, str, str | None, Callable[[Results], list[str]]]] = [
    (
        "Table 1: with and without ELMo",
        "Dev data, used for early stopping:",
        "table1",
        lambda results: tables.table_1(results, "scores"),
    ),
    (
        "",
        "Test data, where available, with the same models:",
        None,
        lambda results: tables.table_1(results, "test_scores"),
    ),
    ("", "Other test data, with the same models:", None, tables.further_data),
    (
        "Table 2: layers",
        "The last layer only, or a learned mix of all layers with penalty λ on its weights.",
        "table2",
        tables.table_2,
    ),
    (
        "Table 3: position",
        "ELMo concatenated to the word vectors (input), to the output of the task's LSTM, or both.",
        "table3",
        tables.table_3,
    ),
    ("Ablations", "Parts removed or replaced, one at a time.", "ablations", tables.ablations),
    (
        "Figure 1: amount of data, number of epochs",
        "Random parts of the training data; smaller parts are trained for more epochs.",
        "figure1",
        tables.figure_1,
    ),
    ("", "With all training data:", None, tables.epochs_to_equal),
    (
        "Twice the epochs without ELMo",
        "For baselines that still improved in their last epochs. In parentheses: the gain of ELMo, "
        "trained as in Table 1, over the longer baseline.",
        None,
        tables.longer,
    ),
    (
        "Figure 2: learned mixes",
        "Layer weights after the softmax, mean over seeds.",
        "figure2",
        tables.figure_2,
    ),
    (
        "Fine-tuning the biLM on the task's text",
        "One epoch on the training text; perplexity of the dev text, mean of both directions.",
        "finetuning",
        tables.finetuning,
    ),
    (
        "Better biLMs",
        "Three versions of the package's English model; in parentheses gain and error reduction.",
        None,
        tables.bilms,
    ),
    ("Runs", "", None, tables.settings_of_runs),
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
    lines = [f"{len(done)} runs, {hours:.1f} hours. Hash of the biLM: `{bilm_sha256[:16]}`."]
    if n_tuned:
        lines.append(f"{n_tuned} more biLMs are fine-tuned from it.")
    if missing:
        lines.append(f"{len(missing)} planned runs have not been run yet.")
    return lines
