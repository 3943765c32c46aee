"""The learning curve of a task as a picture: training loss and dev scores by epoch.

In: `metrics.jsonl`. Out: a PNG, where matplotlib is installed.
"""

import logging
from pathlib import Path

from elmo.metrics_file import read_metrics

log = logging.getLogger(__name__)


def draw_curve(metrics: Path, picture: Path) -> None:
    """Draw what a run's metrics tell; says what to install where nothing can be drawn."""
    try:
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure
    except ImportError:
        log.info("no learning curve is drawn: install elmo-torch[plots] for it")
        return
    lines = read_metrics(metrics)
    steps = [line for line in lines if "loss" in line]
    epochs = [line for line in lines if "epoch" in line]
    figure = Figure(figsize=(10, 4), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    left.plot([line["step"] for line in steps], [line["loss"] for line in steps])
    left.set(xlabel="step", ylabel="training loss", yscale="log")
    for name in filter(_is_drawn, epochs[0]) if epochs else ():
        right.plot(
            [line["epoch"] for line in epochs],
            [line.get(name) for line in epochs],
            marker=".",
            label=name.removeprefix("dev_"),
        )
        right.legend()
    right.set(xlabel="epoch", ylabel="dev score")
    figure.savefig(picture, dpi=120)


def _is_drawn(name: str) -> bool:
    """Whether it is a score of the dev data; those of each kind (f1_PER) would hide the picture."""
    return name.startswith("dev_") and not name.startswith("dev_f1_")
