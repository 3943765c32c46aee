"""Held-out perplexity of several training runs against time, as one picture and a table.

usage: curves.py PICTURE.png RUN [RUN ...], where a run is the folder that `elmo pretrain` made
"""

import sys
from pathlib import Path

from matplotlib.figure import Figure

from elmo.training.metrics import read_metrics


def main() -> None:
    """Draw the runs."""
    picture, *runs = map(Path, sys.argv[1:])
    figure = Figure(figsize=(7, 4.5), layout="constrained")
    axes = figure.subplots()
    print("| run | minutes | tokens | forward | backward | mean |\n|---|---|---|---|---|---|")
    for run in runs:
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
    figure.savefig(picture, dpi=120)


if __name__ == "__main__":
    main()
