"""Plots of the results.

In: `Results`. Out: PNG files in a folder, and the names of the plots that have results.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

import matplotlib as mpl
from matplotlib.figure import Figure

from benchmarks.study import tables
from benchmarks.study.plan import (
    ABLATIONS,
    LAYER_CHOICES,
    PLACES,
    SIDES,
    STUDIED,
    TABLE1_TASKS,
    VARIANTS,
    placed,
)
from benchmarks.study.results import Cell, Results

mpl.use("agg")

Series = Mapping[str, Sequence[Cell | None]]  # by name, one cell per group
MIX_HEIGHT = 0.35


def draw_all(results: Results, folder: Path) -> list[str]:
    """Draw every plot that has results; return their names."""
    folder.mkdir(parents=True, exist_ok=True)
    pictures = {
        "table1": _variants(results, TABLE1_TASKS, SIDES, SIDES),
        "table2": _variants(results, list(STUDIED), LAYER_CHOICES, LAYER_CHOICES[1:3]),
        "table3": _places(results),
        "ablations": _variants(results, list(STUDIED), ABLATIONS, ABLATIONS[2:]),
        "figure1": _shares(results),
        "figure2": _mixes(results),
        "finetuning": _variants(results, list(STUDIED), (*SIDES, "tuned"), ("tuned",)),
    }
    drawn = {name: figure for name, figure in pictures.items() if figure is not None}
    for name, figure in drawn.items():
        figure.savefig(folder / f"{name}.png", dpi=110, metadata={"Software": None})
    return list(drawn)


def _variants(
    results: Results, tasks: Sequence[str], variants: Sequence[str], asked: Sequence[str]
) -> Figure | None:
    """Plot scores of variants, for the tasks with a run of a variant in `asked`."""
    own = [task for task in tasks if any(results.cell(task, v) for v in asked)]
    series = {VARIANTS[v].title: [results.cell(task, v) for task in own] for v in variants}
    return _panels([STUDIED[task].title for task in own], series)


def _places(results: Results) -> Figure | None:
    own = [task for task in STUDIED if any(results.cell(task, f"at-{place}") for place in PLACES)]
    series = {
        VARIANTS[f"at-{place}"].title: [results.cell(task, placed(task, place)) for task in own]
        for place in PLACES
    }
    return _panels([STUDIED[task].title for task in own], series)


def _panels(groups: Sequence[str], series: Series) -> Figure | None:
    """Plot one panel per group with its own scale: means with their spread."""
    if not groups:
        return None
    names = list(series)
    figure = Figure(figsize=(2.6 * max(2, len(groups)), 3.6 + 0.08 * len(names)))
    figure.set_layout_engine("constrained")
    for number, (axes, group) in enumerate(
        zip(figure.subplots(1, len(groups), squeeze=False)[0], groups, strict=True)
    ):
        cells = {name: series[name][number] for name in names}
        known = [cell for cell in cells.values() if cell is not None]
        lows = [cell.mean - cell.spread for cell in known]
        highs = [cell.mean + cell.spread for cell in known]
        room = max(max(highs) - min(lows), 1.0)
        for place, cell in enumerate(cells.values()):
            if cell is not None:
                axes.errorbar(place, cell.mean, cell.spread or None, fmt="o", capsize=3)
        axes.set_ylim(max(0, min(lows) - 0.2 * room), min(100, max(highs) + 0.2 * room))
        axes.set_xlim(-0.5, len(names) - 0.5)
        axes.grid(axis="y", alpha=0.3)
        axes.set_title(group, fontsize=9)
        axes.set_xticks(range(len(names)), names, rotation=60, ha="right", fontsize=7)
    figure.axes[0].set_ylabel("test score", fontsize=8)
    return figure


def _shares(results: Results) -> Figure | None:
    own = [task for task in STUDIED if tables.shares_run(results, task)]
    if not own:
        return None
    figure = Figure(figsize=(4.2 * len(own), 3.4))
    figure.set_layout_engine("constrained")
    for axes, task in zip(figure.subplots(1, len(own), squeeze=False)[0], own, strict=True):
        for side in SIDES:
            cells = {
                100 * share: results.cell(task, tables.of_share(side, share))
                for share in tables.shares_run(results, task)
            }
            known = {share: cell for share, cell in cells.items() if cell is not None}
            axes.errorbar(
                list(known),
                [cell.mean for cell in known.values()],
                [cell.spread for cell in known.values()],
                marker="o",
                label=VARIANTS[side].title,
            )
        axes.set(xscale="log", xlabel="percent of the training data", title=STUDIED[task].title)
        axes.set_ylabel(f"test {results.metric(task)}")
        axes.legend()
    return figure


def _mixes(results: Results) -> Figure | None:
    found = tables.mixes(results)
    if not found:
        return None
    figure = Figure(figsize=(6, 1.4 + MIX_HEIGHT * len(found)))
    figure.set_layout_engine("constrained")
    axes = figure.subplots()
    image = axes.imshow([shares for _, shares, _ in found], cmap="viridis", vmin=0, aspect="auto")
    n_layers = len(found[0][1])
    names = ["characters", *(f"layer {number}" for number in range(1, n_layers))]
    axes.set_xticks(range(n_layers), names)
    axes.set_yticks(range(len(found)), [name for name, *_ in found])
    figure.colorbar(image, label="layer weight")
    return figure
