"""The learning curve of a run as a picture: loss and held-out perplexity by time.

In: `metrics.jsonl`. Out: a PNG, where matplotlib is installed.
"""

import logging
import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from elmo.training.metrics import read_metrics

if TYPE_CHECKING:
    from matplotlib.axes import Axes

log = logging.getLogger(__name__)


def draw_pretraining(metrics: Path, picture: Path) -> None:
    """Draw what a run's metrics tell; says what to install where nothing can be drawn."""
    lines = read_metrics(metrics)
    steps = [line for line in lines if "loss" in line]
    measured = [line for line in lines if "heldout_mean" in line]
    with two_panels(picture) as panels:
        if panels is None:
            return
        left, right = panels
        left.plot([line["seconds"] / 3600 for line in steps], [line["loss"] for line in steps])
        left.set(xlabel="hours", ylabel="training loss")
        for name in ("forward", "backward"):
            known = [line for line in measured if f"heldout_{name}" in line]
            hours = [line["seconds"] / 3600 for line in known]
            right.plot(hours, [line[f"heldout_{name}"] for line in known], marker=".", label=name)
        right.set(xlabel="hours", ylabel="held-out perplexity", yscale="log")
        right.legend()


@contextmanager
def two_panels(picture: Path) -> Iterator["tuple[Axes, Axes] | None"]:
    """Two panels side by side, saved when they are drawn; none where matplotlib is not there."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        log.info("no learning curve is drawn: install elmo-torch[plots] for it")
        yield None
        return
    figure = Figure(figsize=(10, 4), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    yield left, right
    figure.savefig(picture, dpi=120)


def draw_task(metrics: Path, picture: Path) -> None:
    """Draw what a run's metrics tell; says what to install where nothing can be drawn."""
    lines = read_metrics(metrics)
    steps = [line for line in lines if "loss" in line]
    epochs = [line for line in lines if "epoch" in line]
    with two_panels(picture) as panels:
        if panels is None:
            return
        left, right = panels
        left.plot([line["step"] for line in steps], [line["loss"] for line in steps])
        left.set(xlabel="step", ylabel="training loss", yscale="log")
        for name in filter(_is_drawn, epochs[0]) if epochs else ():
            right.plot(
                [line["epoch"] for line in epochs],
                [line.get(name, math.nan) for line in epochs],
                marker=".",
                label=name.removeprefix("dev_"),
            )
            right.legend()
        right.set(xlabel="epoch", ylabel="dev score")


def _is_drawn(name: str) -> bool:
    """Whether it is a score of the dev data; those of each kind (f1_PER) would hide the picture."""
    return name.startswith("dev_") and not name.startswith("dev_f1_")
