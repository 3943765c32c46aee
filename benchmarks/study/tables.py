"""The results as the paper's tables, in Markdown, next to the paper's numbers.

In: `Results`. Out: the lines of each table; a table without finished runs has none. Scores are of
test data unless stated otherwise.
"""

from collections.abc import Mapping, Sequence
from itertools import pairwise
from statistics import mean

from benchmarks.study.paper import PERPLEXITIES, TABLE_1, TABLE_2, TABLE_3
from benchmarks.study.plan import (
    ABLATIONS,
    BILMS,
    LAYER_CHOICES,
    PLACES,
    SEEDS,
    SHARES,
    SIDES,
    STUDIED,
    TABLE1_TASKS,
    VARIANTS,
    placed,
)
from benchmarks.study.results import MAX_P, Cell, Difference, Results, is_converged

NOTHING = "–"  # noqa: RUF001


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """The lines of a table; empty if it has no rows."""
    if not rows:
        return []
    lines = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


def shown(cell: Cell | None) -> str:
    """A cell as text; a dash if there is none."""
    return NOTHING if cell is None else str(cell)


def gain_shown(difference: Difference | None) -> str:
    """The gain and its spread, and the relative error reduction."""
    if difference is None:
        return NOTHING
    spread = f" ± {difference.spread:.2f}" if len(difference.differences) > 1 else ""
    # z: a value that rounds to zero has no minus sign
    return f"{difference.gain:+z.2f}{spread} / {difference.reduction:z.1f}%"


def p_shown(difference: Difference | None) -> str:
    """The p-value of a paired t-test."""
    if difference is None or difference.p is None:
        return NOTHING
    return "< 0.001" if difference.p < 0.001 else f"{difference.p:.3f}"


def against_elmo(results: Results, task: str, variant: str) -> str:
    """A cell, and how a variant of ELMo differs from ELMo as in Table 1."""
    cell = shown(results.cell(task, variant))
    difference = results.difference(task, "elmo", variant)
    if difference is None or variant in SIDES:
        return cell
    return f"{cell} ({difference.gain:+z.2f}, p {p_shown(difference)})"


def table_1(results: Results) -> list[str]:
    """All tasks without and with ELMo, test data first."""
    rows = []
    for task in TABLE1_TASKS:
        before, after = (results.cell(task, side) for side in SIDES)
        if before is None and after is None:
            continue
        difference = results.difference(task, *SIDES)
        theirs = TABLE_1[STUDIED[task].task]
        rows.append(
            [
                STUDIED[task].title,
                results.metric(task),
                shown(before),
                shown(after),
                gain_shown(difference),
                p_shown(difference),
                " -> ".join(shown(results.cell(task, side, "scores")) for side in SIDES),
                f"{theirs[0]:g} -> {theirs[1]:g}",
                f"{theirs[1] - theirs[0]:+.1f} / {theirs[2]:g}%",
                _seeds_shown(task, difference),
            ]
        )
    header = ["task", "score", "no ELMo", "ELMo", "gain / error reduction", "p", "dev data"]
    return markdown([*header, "paper, test data", "its gain / error reduction", "seeds"], rows)


def _seeds_shown(task: str, difference: Difference | None) -> str:
    n_folds = STUDIED[task].n_folds
    n_seeds = 0 if difference is None else len(difference.before.values)
    missing = "" if n_seeds >= len(SEEDS[task]) else f" of {len(SEEDS[task])}"
    return f"{n_seeds}{missing}" + (f", {n_folds} folds" if n_folds > 1 else "")


def summary(results: Results) -> list[str]:
    """Error reductions compared with the paper, grouped by outcome, on test data."""
    groups: dict[str, list[str]] = {
        name: [] for name in ("reached", "alike", "less", "behind", "unclear")
    }
    for task in TABLE1_TASKS:
        difference = results.difference(task, *SIDES)
        if difference is None:
            continue
        paper = TABLE_1[STUDIED[task].task][2]
        told = f"{STUDIED[task].title} ({difference.reduction:z.1f}%, paper {paper:g}%)"
        if not difference.is_clear:
            groups["unclear"].append(told)
        elif difference.gain < 0:
            groups["behind"].append(told)
        elif abs(difference.reduction - paper) <= difference.spread_of_reduction:
            groups["alike"].append(told)
        else:
            groups["reached" if difference.reduction > paper else "less"].append(told)
    sentences = {
        "unclear": f"No conclusion, as p is not below {MAX_P}",
        "behind": "ELMo is worse",
        "less": "ELMo is better, but reduces the error by less than in the paper",
        "alike": "ELMo reduces the error about as much as in the paper, within the spread",
        "reached": "ELMo reduces the error by more than in the paper",
    }
    return [
        f"- {sentences[name]}: {'; '.join(groups[name])}." for name in sentences if groups[name]
    ]


def tries(results: Results) -> list[str]:
    """The settings tried on each side, and their dev scores with seed 1; the chosen are bold."""
    rows = []
    chosen = results.choices()
    for task in TABLE1_TASKS:
        for number, sets in enumerate(STUDIED[task].tried):
            scores = []
            for side in SIDES:
                score = results.dev_of_try(task, side, number)
                mark = "**" if chosen.get((task, side)) == number else ""
                scores.append(NOTHING if score is None else f"{mark}{score:.2f}{mark}")
            if scores != [NOTHING, NOTHING]:
                listed = " ".join(f"`{entry}`" for entry in sets) or "defaults of the task"
                rows.append([STUDIED[task].title, listed, *scores])
    return markdown(["task", "settings", "no ELMo", "ELMo"], rows)


def not_converged(results: Results) -> list[str]:
    """Runs that patience did not end, which (!) marks in the tables."""
    keys = [run["key"] for run in results.runs if not is_converged(run)]
    return [f"- `{key}`" for key in keys]


def further_data(results: Results) -> list[str]:
    """Scores of the models of Table 1 on further test data."""
    rows = []
    for task in TABLE1_TASKS:
        for name in STUDIED[task].also:
            cells = []
            for side in SIDES:
                runs = [run for run in results.of(task, side) if name in run["also"]]
                values = tuple(run["also"][name][run["metric"]] for run in runs)
                cells.append(Cell(values) if values else None)
            if any(cells):
                rows.append([STUDIED[task].title, f"`{name}`", *map(shown, cells)])
    return markdown(["trained on", "tested on", "no ELMo", "ELMo"], rows)


def table_2(results: Results) -> list[str]:
    """Scores by choice of layers."""
    rows = []
    for task, studied in STUDIED.items():
        if any(results.cell(task, choice) for choice in LAYER_CHOICES[1:3]):  # others are Table 1's
            cells = [against_elmo(results, task, choice) for choice in LAYER_CHOICES]
            rows.append([studied.title, *cells])
            rows += _theirs(TABLE_2.get(studied.task), LAYER_CHOICES)
    return markdown(["task", "no ELMo", "last layer only", "all, λ = 1", "all, λ = 0.001"], rows)


def table_3(results: Results) -> list[str]:
    """Scores by position of ELMo."""
    rows = []
    for task, studied in STUDIED.items():
        variants = [placed(task, place) for place in PLACES]
        if any(results.cell(task, variant) for variant in variants if variant != "elmo"):
            cells = [against_elmo(results, task, variant) for variant in variants]
            rows.append([studied.title, *cells])
            rows += _theirs(TABLE_3.get(studied.task), PLACES)
    return markdown(["task", "at the input", "at both", "at the output"], rows)


def _theirs(scores: Mapping[str, float] | None, columns: Sequence[str]) -> list[list[str]]:
    """The paper's row, of dev data, if it has that task."""
    return [] if scores is None else [["*paper, dev*", *(f"*{scores[c]:g}*" for c in columns)]]


def ablations(results: Results) -> list[str]:
    """Scores with parts of ELMo removed or replaced."""
    tasks = [task for task in STUDIED if any(results.of(task, v) for v in ABLATIONS[2:])]
    rows = []
    for variant in ABLATIONS if tasks else ():
        cells = [against_elmo(results, task, variant) for task in tasks]
        if any(cell != NOTHING for cell in cells):
            rows.append([VARIANTS[variant].title, *cells])
    return markdown(["", *(STUDIED[task].title for task in tasks)], rows)


def of_share(kind: str, share: float) -> str:
    """The variant of a side with a share of the training data."""
    return kind if share == 1 else f"{kind}-{round(100 * share)}-percent"


def shares_run(results: Results, task: str) -> list[float]:
    """The shares of the training data with finished runs; empty if it is only all data."""
    variants = {share: [of_share(side, share) for side in SIDES] for share in (*SHARES, 1.0)}
    found = [share for share, both in variants.items() if any(results.of(task, v) for v in both)]
    return found if found != [1.0] else []


def figure_1(results: Results) -> list[str]:
    """Score by share of the training data."""
    rows = []
    for task in STUDIED:
        for share in shares_run(results, task):
            variants = [of_share(side, share) for side in SIDES]
            sizes = [run["n_train"] for run in results.of(task, variants[1])]
            difference = results.difference(task, *variants)
            rows.append(
                [
                    STUDIED[task].title,
                    f"{share:.0%}",
                    f"{round(mean(sizes)):,}" if sizes else NOTHING,
                    *(shown(results.cell(task, variant)) for variant in variants),
                    gain_shown(difference),
                    p_shown(difference),
                ]
            )
    header = ["task", "training data", "examples", "no ELMo", "ELMo", "gain / error reduction", "p"]
    return markdown(header, rows)


def epochs_to_equal(results: Results) -> list[str]:
    """The epoch in which ELMo reaches the best dev score of the same seed without ELMo."""
    rows = []
    for task in TABLE1_TASKS:
        baselines = {(run["seed"], run["fold"]): run for run in results.of(task, "baseline")}
        pairs = [
            (baselines[run["seed"], run["fold"]], run)
            for run in results.of(task, "elmo")
            if (run["seed"], run["fold"]) in baselines
        ]
        if not pairs:
            continue
        firsts = [_first_as_good(run["curve"], max(other["curve"])) for other, run in pairs]
        bests = [str(other["best_epoch"]) for other, _ in pairs]
        reached = [NOTHING if first is None else str(first) for first in firsts]
        rows.append([STUDIED[task].title, ", ".join(bests), ", ".join(reached)])
    header = ["task", "best epoch without ELMo, by run", "epoch in which ELMo reaches that score"]
    return markdown(header, rows)


def _first_as_good(curve: Sequence[float], score: float) -> int | None:
    return next((epoch for epoch, value in enumerate(curve, start=1) if value >= score), None)


def mixes(results: Results) -> list[tuple[str, list[float], float]]:
    """Learned shares of the layers and gamma: (task and place, shares, gamma), means over seeds."""
    found = []
    for task in TABLE1_TASKS:
        for place in ("input", "output"):
            found_mixes = [run.get("mixes") or {} for run in results.of(task, "elmo")]
            runs = [mixes[place] for mixes in found_mixes if place in mixes]
            if runs:
                shares = [mean(layer) for layer in zip(*(r["weights"] for r in runs), strict=True)]
                gamma = mean(r["gamma"] for r in runs)
                found.append((f"{STUDIED[task].title}, {place}", shares, gamma))
    return found


def figure_2(results: Results) -> list[str]:
    """Learned layer weights and gamma by task."""
    found = mixes(results)
    rows = [[name, *(f"{x:.2f}" for x in shares), f"{gamma:.2f}"] for name, shares, gamma in found]
    n_layers = len(found[0][1]) if found else 0
    names = ["characters", *(f"layer {number}" for number in range(1, n_layers))]
    return markdown(["task, position", *names, "gamma"], rows)


def finetuning(results: Results) -> list[str]:
    """Perplexity of a task's text, and the task's score, before and after fine-tuning."""
    rows = []
    for task, studied in STUDIED.items():
        tuned = results.tuning(studied.text) if studied.text else None
        after = results.cell(task, "tuned")
        if tuned is None and after is None:
            continue
        perplexities = NOTHING
        if tuned is not None and tuned["before"] and tuned["after"]:
            perplexities = f"{tuned['before']['mean']:.1f} -> {tuned['after']['mean']:.1f}"
        theirs = PERPLEXITIES[studied.text or ""]
        difference = results.difference(task, "elmo", "tuned")
        rows.append(
            [
                studied.title,
                perplexities,
                f"{theirs[0]:g} -> {theirs[1]:g}",
                shown(results.cell(task, "elmo")),
                shown(after),
                gain_shown(difference),
                p_shown(difference),
            ]
        )
    header = ["task", "perplexity", "in the paper", "ELMo", "fine-tuned ELMo"]
    return markdown([*header, "gain / error reduction", "p"], rows)


def bilms(results: Results) -> list[str]:
    """Gains with each biLM of the package, over no ELMo and over the biLM before it."""
    rows = []
    for task in TABLE1_TASKS:
        if not any(results.cell(task, variant) for variant in BILMS[:-1]):
            continue
        for before, variant in pairwise(("baseline", *BILMS)):
            step = results.difference(task, before, variant)
            rows.append(
                [
                    STUDIED[task].title,
                    VARIANTS[variant].title,
                    shown(results.cell(task, variant)),
                    gain_shown(results.difference(task, "baseline", variant)),
                    gain_shown(step),
                    p_shown(step),
                ]
            )
    header = ["task", "biLM", "score", "over no ELMo: gain / error reduction"]
    return markdown([*header, "over the row before", "p"], rows)


def settings_of_runs(results: Results) -> list[str]:
    """Data sizes, settings, patience and duration of the runs of Table 1."""
    rows = []
    for task in TABLE1_TASKS:
        runs = [run for side in SIDES for run in results.of(task, side)]
        if not runs:
            continue
        studied = STUDIED[task]
        rows.append(
            [
                studied.title,
                f"{runs[0]['n_train']:,} / {runs[0]['n_dev']:,}",
                " ".join(f"`{entry}`" for entry in studied.sets),
                str(studied.patience),
                f"{mean(run['seconds'] for run in runs) / 60:.1f}",
            ]
        )
    return markdown(["task", "train / dev examples", "settings", "patience", "minutes"], rows)
