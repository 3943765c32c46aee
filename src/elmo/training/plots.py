"""Plot the learning curve of a run: training loss and evaluation scores by step.

In: `metrics.jsonl`. Out: a PNG file, if matplotlib is installed.
"""

import logging
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from elmo.training.metrics import read_metrics

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class ScorePlot:
    """Which metrics to plot as scores, and how."""

    names: str  # a regular expression
    label: str
    scale: Literal["linear", "log"] = "linear"


def draw_learning_curve(metrics: Path, picture: Path, plot: ScorePlot) -> None:
    """Plot the metrics of a run; without matplotlib, log what to install."""
    try:
        _draw(metrics, picture, plot)
    except ImportError:
        log.info("no learning curve is drawn: install elmo-torch[plots] for it")
    except Exception as error:  # whatever matplotlib raises; the run is complete without a plot
        log.warning("%s: no learning curve is drawn (%s)", picture, error)


def _draw(metrics: Path, picture: Path, plot: ScorePlot) -> None:
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    lines = read_metrics(metrics)
    figure = Figure(figsize=(10, 4), layout="constrained")
    FigureCanvasAgg(figure)
    left, right = figure.subplots(1, 2)
    left.plot(*_curve(lines, "loss"))
    left.set(xlabel="step", ylabel="training loss", yscale="log")
    names = dict.fromkeys(name for line in lines for name in line if re.match(plot.names, name))
    for name in names:
        right.plot(*_curve(lines, name), marker=".", label=name.partition("_")[2])
    right.set(xlabel="step", ylabel=plot.label, yscale=plot.scale)
    if names:
        right.legend()
    figure.savefig(picture, dpi=120)


def _curve(lines: list[dict[str, float]], name: str) -> tuple[list[float], list[float]]:
    """The steps and values of a metric, from the lines that have it."""
    known = [line for line in lines if name in line]
    return [line["step"] for line in known], [line[name] for line in known]
