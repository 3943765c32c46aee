"""Results as the paper's tables, in Markdown, beside what the paper has.

In: `Results`. Out: for each table its lines; a table of which nothing was run has none.
"""

from collections.abc import Mapping, Sequence
from statistics import mean

from benchmarks.study.paper import PERPLEXITIES, TABLE_1, TABLE_2, TABLE_3
from benchmarks.study.plan import (
    ABLATIONS,
    BILMS,
    LAYER_CHOICES,
    PLACES,
    SHARES,
    STUDIED,
    TABLE1_TASKS,
    VARIANTS,
    layered,
    placed,
)
from benchmarks.study.results import Cell, Results

NOTHING = "–"  # noqa: RUF001


def markdown(header: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """A table, or nothing if it has no rows."""
    if not rows:
        return []
    lines = [header, ["---"] * len(header), *rows]
    return ["| " + " | ".join(line) + " |" for line in lines]


def shown(cell: Cell | None) -> str:
    """A cell, or that there is none."""
    return NOTHING if cell is None else str(cell)


def gain(before: float, after: float) -> tuple[float, float]:
    """The absolute gain, and by how many percent the error has become less."""
    return after - before, 100 * (after - before) / (100 - before)


def _gain_shown(before: Cell | None, after: Cell | None) -> str:
    if before is None or after is None:
        return NOTHING
    absolute, relative = gain(before.mean, after.mean)
    return f"{absolute:+z.2f} / {relative:z.1f} %"  # z: what rounds to zero has no sign


def table_1(results: Results, part: str) -> list[str]:
    """All tasks without and with ELMo; `part` says on which data."""
    rows = []
    for task in TABLE1_TASKS:
        before, after = (results.cell(task, v, part) for v in ("baseline", "elmo"))
        if before is None and after is None:
            continue
        n_seeds = [len(cell.values) if cell else 0 for cell in (before, after)]
        theirs = TABLE_1[STUDIED[task].task]
        rows.append(
            [
                STUDIED[task].title,
                results.metric(task),
                shown(before),
                shown(after),
                _gain_shown(before, after),
                f"{theirs[0]:g} -> {theirs[1]:g}",
                f"{theirs[1] - theirs[0]:+.1f} / {theirs[2]:g} %",
                " / ".join(map(str, n_seeds)),
            ]
        )
    header = ["task", "score", "no ELMo", "ELMo", "gain / error reduction"]
    return markdown([*header, "paper, test data", "its gain / error reduction", "seeds"], rows)


def further_data(results: Results) -> list[str]:
    """Other data that the models of Table 1 were measured with."""
    rows = []
    for task in TABLE1_TASKS:
        for name in STUDIED[task].also:
            cells = []
            for variant in ("baseline", "elmo"):
                runs = [run for run in results.of(task, variant) if name in run.get("also", {})]
                values = tuple(run["also"][name][run["metric"]] for run in runs)
                cells.append(Cell(values) if values else None)
            if any(cells):
                gained = _gain_shown(*cells)
                rows.append([STUDIED[task].title, f"`{name}`", *map(shown, cells), gained])
    return markdown(["trained on", "tested on", "no ELMo", "ELMo", "gain / error reduction"], rows)


def table_2(results: Results) -> list[str]:
    """Which layers, on dev data."""
    rows = []
    for task, studied in STUDIED.items():
        cells = [results.cell(task, layered(task, choice)) for choice in LAYER_CHOICES]
        if any(cells[1:3]):  # the others are Table 1's too
            rows.append([studied.title, *map(shown, cells)])
            rows += _theirs(TABLE_2.get(studied.task), LAYER_CHOICES)
    return markdown(["task", "no ELMo", "last layer only", "all, λ = 1", "all, λ = 0.001"], rows)


def table_3(results: Results) -> list[str]:
    """Where ELMo stands, on dev data."""
    rows = []
    for task, studied in STUDIED.items():
        variants = [placed(task, place) for place in PLACES]
        cells = [results.cell(task, variant) for variant in variants]
        if any(c for c, variant in zip(cells, variants, strict=True) if variant != "elmo"):
            rows.append([studied.title, *map(shown, cells)])
            rows += _theirs(TABLE_3.get(studied.task), PLACES)
    return markdown(["task", "at the input", "at both", "at the output"], rows)


def _theirs(scores: Mapping[str, float] | None, columns: Sequence[str]) -> list[list[str]]:
    """The paper's row, if it has that task."""
    return [] if scores is None else [["*the paper*", *(f"*{scores[c]:g}*" for c in columns)]]


def ablated_tasks(results: Results) -> list[str]:
    """Those with runs that no other table has."""
    return [task for task in STUDIED if any(results.of(task, v) for v in ABLATIONS[2:])]


def ablations(results: Results) -> list[str]:
    """What ELMo is without its parts, on dev data."""
    tasks = ablated_tasks(results)
    rows = []
    for variant in ABLATIONS if tasks else ():
        cells = [results.cell(task, variant) for task in tasks]
        if any(cells):
            rows.append([VARIANTS[variant].title, *map(shown, cells)])
    return markdown(["", *(STUDIED[task].title for task in tasks)], rows)


def shares_run(results: Results, task: str) -> list[tuple[float, Cell | None, Cell | None]]:
    """The shares of the training data, and the score without and with ELMo."""
    points = []
    for share in (*SHARES, 1.0):
        end = "" if share == 1 else f"-{round(100 * share)}-percent"
        cells = [results.cell(task, f"{kind}{end}") for kind in ("baseline", "elmo")]
        points.append((share, cells[0], cells[1]))
    is_run = any(a or b for _, a, b in points[:-1])
    return [point for point in points if point[1] or point[2]] if is_run else []


def figure_1(results: Results) -> list[str]:
    """Score by share of the training data, on dev data."""
    rows = []
    for task in STUDIED:
        for share, before, after in shares_run(results, task):
            sizes = [run["n_train"] for run in results.of(task, _of_share("elmo", share))]
            n_train = f"{round(mean(sizes)):,}" if sizes else NOTHING
            rows.append(
                [
                    STUDIED[task].title,
                    f"{share:.0%}",
                    n_train,
                    shown(before),
                    shown(after),
                    _gain_shown(before, after),
                ]
            )
    header = ["task", "training data", "examples", "no ELMo", "ELMo", "gain / error reduction"]
    return markdown(header, rows)


def _of_share(kind: str, share: float) -> str:
    return kind if share == 1 else f"{kind}-{round(100 * share)}-percent"


def epochs_to_equal(results: Results) -> list[str]:
    """In which epoch a run with ELMo is as good as the same seed's best without."""
    rows = []
    for task in TABLE1_TASKS:
        baselines = {run["seed"]: run for run in results.of(task, "baseline")}
        pairs = [
            (baselines[run["seed"]], run)
            for run in results.of(task, "elmo")
            if run["seed"] in baselines
        ]
        if not pairs:
            continue
        firsts = [_first_as_good(run["curve"], max(other["curve"])) for other, run in pairs]
        bests = [str(other["best_epoch"]) for other, _ in pairs]
        reached = [NOTHING if first is None else str(first) for first in firsts]
        rows.append([STUDIED[task].title, ", ".join(bests), ", ".join(reached)])
    header = ["task", "best epoch without ELMo, by seed", "epoch in which ELMo reaches that score"]
    return markdown(header, rows)


def _first_as_good(curve: Sequence[float], score: float) -> int | None:
    return next((epoch for epoch, value in enumerate(curve, start=1) if value >= score), None)


def mixes(results: Results) -> list[tuple[str, list[float], float]]:
    """Learned shares of the layers and gamma: (task and place, shares, gamma), means over seeds."""
    found = []
    for task in TABLE1_TASKS:
        for place in ("input", "output"):
            runs = [
                run["mixes"][place]
                for variant in ("elmo", "at-both")
                for run in results.of(task, variant)
                if place in (run.get("mixes") or {})
            ]
            if runs:
                shares = [mean(layer) for layer in zip(*(r["weights"] for r in runs), strict=True)]
                gamma = mean(r["gamma"] for r in runs)
                found.append((f"{STUDIED[task].title}, {place}", shares, gamma))
    return found


def figure_2(results: Results) -> list[str]:
    """Which layers tasks prefer."""
    found = mixes(results)
    rows = [[name, *(f"{x:.2f}" for x in shares), f"{gamma:.2f}"] for name, shares, gamma in found]
    n_layers = len(found[0][1]) if found else 0
    names = ["characters", *(f"layer {number}" for number in range(1, n_layers))]
    return markdown(["task, position", *names, "gamma"], rows)


def finetuning(results: Results) -> list[str]:
    """Perplexity of a task's text and its score, before and after tuning; all of the same seeds."""
    rows = []
    for task, studied in STUDIED.items():
        tuned = results.tuning(studied.text) if studied.text else None
        after = results.cell(task, "tuned")
        seeds = {run["seed"] for run in results.of(task, "tuned")}
        if tuned is None and after is None:
            continue
        perplexities = NOTHING
        if tuned is not None and tuned["before"] and tuned["after"]:
            perplexities = f"{tuned['before']['mean']:.1f} -> {tuned['after']['mean']:.1f}"
        theirs = PERPLEXITIES[studied.text or ""]
        without, before = (
            results.cell(task, variant, seeds=seeds) for variant in ("baseline", "elmo")
        )
        rows.append(
            [
                studied.title,
                perplexities,
                f"{theirs[0]:g} -> {theirs[1]:g}",
                *map(shown, (without, before, after)),
                _gain_shown(without, before),
                _gain_shown(without, after),
            ]
        )
    header = ["task", "perplexity", "in the paper", "no ELMo", "ELMo", "fine-tuned ELMo"]
    return markdown([*header, "gain / error reduction by ELMo", "by fine-tuned ELMo"], rows)


def bilms(results: Results) -> list[str]:
    """What the package's biLM brought at each of its states; all of the same seeds."""
    rows = []
    *earlier, _ = BILMS
    for task in TABLE1_TASKS:
        seeds = {run["seed"] for variant in earlier for run in results.of(task, variant)}
        without, *cells = (results.cell(task, v, seeds=seeds) for v in ("baseline", *BILMS))
        if seeds:
            gains = [f"{c} ({_gain_shown(without, c)})" if c else NOTHING for c in cells]
            rows.append([STUDIED[task].title, shown(without), *gains])
    columns = [f"ELMo, perplexity {perplexity:g}" for perplexity in BILMS.values()]
    return markdown(["task", "no ELMo", *columns], rows)


def longer(results: Results) -> list[str]:
    """The baseline with twice the epochs that ELMo has, with the same seeds as it."""
    rows = []
    for task in TABLE1_TASKS:
        seeds = {run["seed"] for run in results.of(task, "baseline-longer")}
        variants = ("baseline", "baseline-longer", "elmo")
        without, prolonged, with_elmo = (results.cell(task, v, seeds=seeds) for v in variants)
        if prolonged:
            gained = f"{shown(with_elmo)} ({_gain_shown(prolonged, with_elmo)})"
            rows.append([STUDIED[task].title, shown(without), shown(prolonged), gained])
    return markdown(["task", "no ELMo", "no ELMo, twice the epochs", "ELMo"], rows)


def settings_of_runs(results: Results) -> list[str]:
    """What was run, and how long it took."""
    rows = []
    for task in TABLE1_TASKS:
        runs = results.of(task, "baseline") + results.of(task, "elmo")
        if not runs:
            continue
        studied = STUDIED[task]
        rows.append(
            [
                studied.title,
                f"{runs[0]['n_train']:,} / {runs[0]['n_dev']:,}",
                " ".join(f"`{entry}`" for entry in studied.sets),
                f"{studied.n_epochs}, {studied.patience}",
                f"{mean(run['seconds'] for run in runs) / 60:.1f}",
            ]
        )
    header = ["task", "train / dev examples", "settings", "maximum epochs, patience", "minutes"]
    return markdown(header, rows)
