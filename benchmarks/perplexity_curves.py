"""Held-out perplexity of pre-training runs against time, as a plot and a table.

usage: python -m benchmarks.perplexity_curves PLOT.png RUN [RUN ...]
A run is a folder of `elmo pretrain`.
"""

import argparse
from pathlib import Path

from matplotlib.figure import Figure

from elmo.training.metrics import read_metrics


def main() -> None:
    """Plot the runs, and print a row for each."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("plot", type=Path)
    parser.add_argument("runs", type=Path, nargs="+")
    settings = parser.parse_args()
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    print("| run | minutes | tokens | forward | backward | mean |\n|---|---|---|---|---|---|")
    for run in settings.runs:
        lines = read_metrics(run / "metrics.jsonl")
        measured = [line for line in lines if "heldout_mean" in line]
        minutes = [line["seconds"] / 60 for line in measured]
        axes.plot(minutes, [line["heldout_mean"] for line in measured], marker=".", label=run.name)
        last = measured[-1]
        n_tokens = max(line["tokens"] for line in lines if "tokens" in line)
        print(
            f"| {run.name} | {minutes[-1]:.1f} | {n_tokens:,} | {last['heldout_forward']:.1f} | "
            f"{last['heldout_backward']:.1f} | {last['heldout_mean']:.1f} |"
        )
    axes.set(xlabel="minutes", ylabel="held-out perplexity, mean of both directions", yscale="log")
    axes.legend()
    figure.savefig(settings.plot, dpi=120)


if __name__ == "__main__":
    main()
