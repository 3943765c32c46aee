"""The learning curve of a task as a picture: training loss and dev scores by epoch.

In: `metrics.jsonl`. Out: a PNG, where matplotlib is installed.
"""

import math
from pathlib import Path

from elmo.learning_curve import two_panels
from elmo.metrics_file import read_metrics


def draw_curve(metrics: Path, picture: Path) -> None:
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
