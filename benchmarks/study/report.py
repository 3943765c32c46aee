"""Write docs/results.md and its plots from the files of runs.

In: a folder of results; findings.md, prose with placeholders for numbers. Out: DOCS/results.md,
DOCS/results/*.png, and the files themselves in DOCS/results/runs, so that the same command with
that folder writes the same page again.
"""

import json
import re
import shutil
from collections.abc import Callable
from pathlib import Path

from benchmarks.overlap import overlap_table
from benchmarks.study import tables
from benchmarks.study.parts import OVERLAP
from benchmarks.study.plan import STUDIED, VARIANTS, make_runs
from benchmarks.study.results import Results
from elmo.errors import DataError

INTRODUCTION = """\
# Results

The tables of the ELMo paper, measured with small task models, open data instead of licensed data,
and the English model of this package. Scores are percentages on test data unless stated otherwise:
the mean ± standard deviation over seeds. Every run continues until patience ends it; (!) marks a
score with a run that was best in its last epochs. *Error reduction* is the gain divided by the
error of the baseline, as in the paper. *p* is that of a two-sided paired t-test over seeds; scores
of a cross-validation are averaged over its folds first. Both sides have the same GloVe vectors and
sizes, and the same settings were [tried](#settings-tried) on both. The paper uses other data and
larger models, so compare the direction and size of gains, not scores.

`python -m benchmarks.study run` made the runs in `docs/results/runs`, and
`python -m benchmarks.study report docs/results/runs` wrote this page from them. [Data](data.md)
describes the data sets and how to repeat the study."""

# Prose that accompanies the tables; {…} are placeholders for results.
FINDINGS = Path(__file__).with_name("findings.md")
NUMBER = re.compile(r"\{(\w+) ([\w-]+)(?: ([\w-]+))?(?: ([\w-]+))?\}")
KINDS = ("test", "dev", "gain", "reduction")

SECTIONS: list[tuple[str, str, str | None, Callable[[Results], list[str]]]] = [
    ("Table 1: with and without ELMo", "", "table1", tables.table_1),
    ("", "Other test data, with the same models:", None, tables.further_data),
    (
        "Settings tried",
        "Dev scores with seed 1; the best of each side, in bold, is used in all other runs.",
        None,
        tables.tries,
    ),
    (
        "Table 2: layers",
        "The last layer only, or a learned mix of all layers with penalty λ on its weights. Here "
        "and in the next two tables, parentheses have the difference from ELMo and p.",
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
        "Random parts of the training data; smaller parts are trained with more patience.",
        "figure1",
        tables.figure_1,
    ),
    ("", "With all training data, dev scores:", None, tables.epochs_to_equal),
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
    ("Better biLMs", "Versions of the package's English model.", None, tables.bilms),
    ("Runs that patience did not end", "", None, tables.not_converged),
    ("Overlap with the biLM's text", "", None, lambda results: overlap_section(results)),
    ("Runs", "", None, tables.settings_of_runs),
]


def write_report(folder: Path, docs: Path, bilm_sha256: str) -> Path:
    """Write the page and its plots for runs with one biLM; return the path of the page."""
    from benchmarks.study.plots import draw_all

    results = Results.read(folder, bilm_sha256)
    if not any(run["started_from"] == bilm_sha256 for run in results.runs):
        raise DataError(
            f"{folder}: no results with the biLM {bilm_sha256[:16]}, expected runs/*.json; run the "
            "study first, or name its biLM with -m"
        )
    findings = fill_numbers(FINDINGS.read_text(encoding="utf-8"), results)
    keep_files(results, folder, docs / "results" / "runs")
    drawn = draw_all(results, docs / "results")
    lines = [INTRODUCTION, "", "## Summary", "", *tables.summary(results), "", findings.strip()]
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


def fill_numbers(text: str, results: Results) -> str:
    """Replace the placeholders of the prose with results.

    {test TASK VARIANT} and {dev TASK VARIANT} are scores; {gain TASK VARIANT OTHER} and
    {reduction TASK VARIANT OTHER} compare a variant with another, by default the baseline.
    """

    def number(found: re.Match[str]) -> str:
        kind, task, variant, other = found[1], found[2], found[3] or "elmo", found[4] or "baseline"
        if kind not in KINDS or task not in STUDIED or not VARIANTS.keys() >= {variant, other}:
            raise DataError(
                f"{FINDINGS.name}: {found[0]}, expected one of {', '.join(KINDS)}, and a task and "
                "variants of plan.py"
            )
        if kind in ("test", "dev"):
            part = "test_scores" if kind == "test" else "scores"
            return tables.shown(results.cell(task, variant, part))
        difference = results.difference(task, other, variant)
        if difference is None:
            return tables.NOTHING
        value = {"gain": difference.gain, "reduction": difference.reduction}[kind]
        return f"{value:.1f}"

    return NUMBER.sub(number, text)


def overlap_section(results: Results, path: Path = OVERLAP) -> list[str]:
    """The output of benchmarks/overlap.py for the training text of the results' biLM."""
    measured = json.loads(path.read_text())
    if measured["bilm_sha256"] != results.bilm_sha256:
        return ["Not measured: `docs/benchmarks/overlap.json` is of the text of another biLM."]
    text = measured["text"]
    left_out = measured["parts"]["squad/dev"]["names"]
    named = f"({', '.join(left_out)}) " if left_out else ""
    return [
        f"Documents that share {measured['n_shared']} consecutive words with the "
        f"{text['words']:,} words of the biLM's training text, by `python -m benchmarks.overlap`. "
        f"SQuAD is scored without its {len(left_out)} overlapping development articles {named}"
        "([data](data.md)).",
        "",
        *overlap_table(measured),
    ]


def keep_files(results: Results, folder: Path, kept: Path) -> None:
    """Copy result files to the folder that is committed, and remove all others from it."""
    inner = folder / "runs" if (folder / "runs").is_dir() else folder
    kept.mkdir(parents=True, exist_ok=True)
    names = {f"{result['key']}.json" for result in (*results.runs, *results.tunings)}
    for old in kept.glob("*.json"):
        if old.name not in names:
            old.unlink()
    for result in (*results.runs, *results.tunings):
        path = inner / f"{result['key']}.json"
        if not (kept / path.name).exists() or not path.samefile(kept / path.name):
            shutil.copyfile(path, kept / path.name)


def _closing(results: Results, bilm_sha256: str) -> list[str]:
    """The number of runs, the hash of the biLM, and the number of missing runs."""
    done = {run["key"] for run in results.runs}
    missing = [run.key for run in make_runs(results.choices()) if run.key not in done]
    hours = sum(run["seconds"] for run in results.runs) / 3600
    n_tuned = len({run["bilm_sha256"] for run in results.runs if run["variant"] == "tuned"})
    lines = [f"{len(done)} runs, {hours:.1f} hours. Hash of the biLM: `{bilm_sha256[:16]}`."]
    if n_tuned:
        lines.append(f"{n_tuned} more biLMs are fine-tuned from it.")
    if missing:
        lines.append(f"{len(missing)} planned runs have not been run yet.")
    return lines
