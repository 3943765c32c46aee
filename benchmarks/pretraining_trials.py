"""Compare settings of pre-training at equal time: speed, and perplexity on held-out texts.

    python -m benchmarks.pretraining_trials --train "text/*.txt.xz" --cache cache --out trials \\
        --heldout wiki=wiki.txt --heldout books=books.txt --json trials.json [NAME...]

A trial is `elmo pretrain --max-minutes 27` with all cores; nothing else may run meanwhile. Trials
that are in the JSON file already are skipped; the same command resumes a stopped trial.

    python -m benchmarks.pretraining_trials --json trials.json --table

prints the results in the file as a Markdown table.
"""

import argparse
import json
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from benchmarks.measured import conditions, load, store
from elmo.training.metrics import read_metrics

CONFIG = Path("configs/trials/640-160.toml")
# Settings of all trials besides the config. The last evaluation is of the whole held-out text.
COMMON = (
    *("train.dropout=0.0", "optimizer.decay=late", "vocabulary.max_size=40960"),
    "train.evaluate_every=100000",
)
ADAMW = ("optimizer.kind=adamw", "optimizer.learning_rate=8e-3", "train.dtype=bfloat16")
MUON = (
    *("optimizer.kind=muon", "optimizer.learning_rate=8e-3", "train.dtype=bfloat16"),
    "optimizer.muon_every=4",
)
TRIALS = {
    "AdamW 4e-3, float32": (*ADAMW, "optimizer.learning_rate=4e-3", "train.dtype=float32"),
    "AdamW": ADAMW,
    "Muon": MUON,
    "Muon, batch size 64": (*MUON, "stream.batch_size=64"),
    "Muon, batch size growing from 32 to 128": (
        *MUON,
        *("stream.batch_size=128", "stream.initial_batch_size=32", "stream.growth_interval=500"),
    ),
    "Muon, half the negatives": (*MUON, "head.n_negatives=1024"),
    "Muon, projection 256": (*MUON, "model.lstm.projection_dim=256"),
    "Muon, 1024 cells, projection 256": (
        *MUON,
        *("model.lstm.dim=1024", "model.lstm.projection_dim=256"),
    ),
    # With a constant learning rate; the rate of the others decays.
    "Muon, averaged weights": (*MUON, "optimizer.decay=constant", "train.ema_decay=0.999"),
}


def main() -> None:
    """Run the trials that are not done yet, or print the results."""
    options = _read_options()
    done = load(options.json) if options.json.exists() else {}
    if options.table:
        _print_table(done)
        return
    for name in [name for name in options.names or TRIALS if name not in done]:
        before = conditions(minutes=options.minutes)
        store(options.json, name, _run(options, name) | {"conditions": before})


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("names", nargs="*", help="trials; all by default")
    parser.add_argument("--train")
    parser.add_argument("--heldout", action="append", default=[], metavar="NAME=FILE")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--out", type=Path, help="folder of the runs")
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=27, help="of each trial")
    parser.add_argument("--table", action="store_true", help="print the results so far")
    options = parser.parse_args()
    if unknown := set(options.names) - TRIALS.keys():
        parser.error(f"{', '.join(unknown)}: no such trial, expected some of: {'; '.join(TRIALS)}")
    needed = (options.train, options.heldout, options.cache, options.out)
    if not options.table and not all(needed):
        parser.error("--train, --heldout, --cache and --out are needed to run trials")
    return options


def _run(options: argparse.Namespace, name: str) -> dict[str, Any]:
    out = options.out / name.replace(" ", "-").replace(",", "")
    texts = dict(each.split("=", 1) for each in options.heldout)
    command = ["pretrain", "--train", options.train, "--heldout", next(iter(texts.values()))]
    command += ["--out", str(out), "--cache", str(options.cache), "--config", str(CONFIG)]
    command += ["--max-minutes", str(options.minutes)]
    sets = [*COMMON, *TRIALS[name]]
    _elmo([*command, *(word for each in sets for word in ("--set", each))])
    last = [line for line in read_metrics(out / "metrics.jsonl") if "tokens" in line][-1]
    return {
        "settings": sets,
        "steps": last["step"],
        "tokens": last["tokens"],
        "tokens_per_second": last["tokens"] / last["seconds"],
        "perplexity": {text: _measure(out / "model", path) for text, path in texts.items()},
    }


def _measure(model: Path, text: str) -> dict[str, float]:
    measured = json.loads(_elmo(["evaluate", "--json", str(model), text]))
    kept = ("forward", "backward", "mean", "bits_per_character", "unknown_rate", "tokens")
    return {name: measured[name] for name in kept}


def _elmo(arguments: Sequence[str]) -> str:
    command = [sys.executable, "-m", "elmo", *arguments]
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True)
    return done.stdout


def _print_table(done: dict[str, Any]) -> None:
    """Print the results, sorted by perplexity on the first text."""
    texts = list(next(iter(done.values()))["perplexity"])
    print(f"| trial | tokens/s | steps | tokens | {' | '.join(texts)} |")
    print("|---" * (4 + len(texts)) + "|")
    for name, trial in sorted(done.items(), key=lambda x: x[1]["perplexity"][texts[0]]["mean"]):
        means = [f"{trial['perplexity'][text]['mean']:.1f}" for text in texts]
        print(
            f"| {name} | {trial['tokens_per_second']:,.0f} | {trial['steps']:,} | "
            f"{trial['tokens'] / 1e6:.2f}M | {' | '.join(means)} |"
        )


if __name__ == "__main__":
    main()
