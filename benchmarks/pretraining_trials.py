"""Settings of pre-training, compared at equal time: speed, training, perplexity on held-out texts.

    python -m benchmarks.pretraining_trials --train "text/*.txt.xz" --cache cache --out trials \\
        --heldout wiki=wiki.txt --heldout books=books.txt --json trials.json [NAME...]

A trial trains on one core for as many steps as fit into its minutes of that core's time. The speed
is measured first, as processor time of a step, the median of many, in probes of the trials in turn.
So other work on the machine makes a trial longer but changes none of its numbers. What is in the
JSON file is not done again: the same command goes on; two commands may share the file.

    python -m benchmarks.pretraining_trials --json trials.json --table

prints what the file holds as Markdown.
"""

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from benchmarks.environment import describe_environment

CONFIG = Path("configs/trials/640-160.toml")
# What all trials share beside their config.
COMMON = ("train.dropout=0.0", "optimizer.decay=late", "vocabulary.max_size=40960")
N_PROBE_STEPS = 24


@dataclass(frozen=True)
class Trial:
    """Settings over those of `CONFIG`."""

    sets: tuple[str, ...]


FLOAT32, BFLOAT16 = ("train.dtype=float32",), ("train.dtype=bfloat16",)
RATE = ("optimizer.learning_rate=8e-3",)
ADAMW = ("optimizer.kind=adamw", *RATE, *BFLOAT16)
MUON = ("optimizer.kind=muon", *RATE, *BFLOAT16)
ROWS_64 = ("stream.batch_size=64",)
MUON_64 = (*MUON, *ROWS_64, "optimizer.muon_every=2")
SIZE_256 = ("model.lstm.projection_dim=256",)
SIZE_1024 = ("model.lstm.dim=1024", *SIZE_256)

TRIALS = {
    "adamw-4e-3-float32": Trial((*ADAMW, "optimizer.learning_rate=4e-3", *FLOAT32)),
    "adamw-4e-3": Trial((*ADAMW, "optimizer.learning_rate=4e-3")),
    "adamw-8e-3": Trial(ADAMW),
    "adamw-64": Trial((*ADAMW, *ROWS_64)),
    "muon": Trial(MUON),
    "muon-64": Trial((*MUON, *ROWS_64)),
    "muon-every-4": Trial((*MUON, "optimizer.muon_every=4")),
    "muon-64-every-2": Trial(MUON_64),
    "muon-64-every-2-4e-3": Trial((*MUON_64, "optimizer.learning_rate=4e-3")),
    "muon-64-every-2-1.6e-2": Trial((*MUON_64, "optimizer.learning_rate=1.6e-2")),
    "muon-64-every-2-640-256": Trial((*MUON_64, *SIZE_256)),
    "muon-64-every-2-1024-256": Trial((*MUON_64, *SIZE_1024)),
    "muon-64-every-2-half-negatives": Trial((*MUON_64, "head.n_negatives=1024")),
    # At the end of a constant rate, against the falling one of the others.
    "muon-64-every-2-ema": Trial((*MUON_64, "optimizer.decay=constant", "train.ema_decay=0.99")),
}


def main() -> None:
    """Probe, run and measure what is not done yet."""
    torch.set_num_threads(1)
    options = _read_options()
    known = _read(options.json)
    if options.table:
        _print_tables(known["trials"])
        return
    key = f"{options.minutes:g} minutes"
    done = known["trials"].get(key, {})
    names = [name for name in options.names or TRIALS if name not in done]
    new = [name for name in names if name not in known["seconds_of_a_step"]]
    seconds: dict[str, list[float]] = {name: [] for name in new}
    for _ in range(options.rounds):
        for name in new:
            seconds[name] += _probe(options, TRIALS[name])
    for name in new:
        found = statistics.median(seconds[name])
        _add(options.json, ("seconds_of_a_step",), name, found)
        print(f"{name}: {_tokens_of_a_step(TRIALS[name]) / found:,.0f} tokens/s", flush=True)
    for name in names if not options.probe else []:
        result = _run(options, name, _read(options.json)["seconds_of_a_step"][name])
        _add(options.json, ("trials", key), name, result)
        means = {text: round(each["mean"], 2) for text, each in result["perplexity"].items()}
        print(f"{name}: {result['steps']} steps, {result['tokens']:,} tokens, {means}", flush=True)


def _read_options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="trials; all by default")
    parser.add_argument("--train")
    parser.add_argument("--heldout", action="append", default=[], metavar="NAME=FILE")
    parser.add_argument("--cache", type=Path)
    parser.add_argument("--out", type=Path, help="folder of the runs")
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--minutes", type=float, default=54, help="of one core, for each trial")
    parser.add_argument("--rounds", type=int, default=2, help="probes of each trial")
    parser.add_argument("--probe", action="store_true", help="measure the speeds only")
    parser.add_argument("--table", action="store_true", help="print the results so far")
    options = parser.parse_args()
    needed = (options.train, options.heldout, options.cache, options.out)
    if not options.table and not all(needed):
        parser.error("--train, --heldout, --cache and --out are needed to run trials")
    return options


def _print_tables(trials: dict[str, dict[str, Any]]) -> None:
    """A table for each length of the trials, the best on the first text at its top."""
    for length, results in trials.items():
        texts = list(next(iter(results.values()))["perplexity"])
        print(f"\n{length} of one core\n")
        print(f"| trial | tokens/s | steps | tokens | {' | '.join(texts)} |")
        print("|---" * (4 + len(texts)) + "|")
        by_first = sorted(results.items(), key=lambda item: item[1]["perplexity"][texts[0]]["mean"])
        for name, result in by_first:
            means = [f"{result['perplexity'][text]['mean']:.1f}" for text in texts]
            print(
                f"| {name} | {result['tokens_per_second']:,.0f} | {result['steps']:,} | "
                f"{result['tokens'] / 1e6:.2f}M | {' | '.join(means)} |"
            )


def _probe(options: argparse.Namespace, trial: Trial) -> list[float]:
    """The processor time of some steps, mean of each four, without the first, which warm up."""
    from elmo.network import kernels
    from elmo.network.bilm import BiLM
    from elmo.pretraining.config import read_config
    from elmo.pretraining.learner import PretrainLearner
    from elmo.pretraining.pretrain import add_head, open_texts
    from elmo.training.distributed import Processes

    config = read_config(None, CONFIG, [*COMMON, *trial.sets])
    processes = Processes(0, 1, torch.device("cpu"))
    heldout = options.heldout[0].split("=", 1)[1]
    texts = open_texts(options.train, heldout, options.cache, processes)
    kernels.keep_freed_memory()
    model = add_head(BiLM(config.model), texts, config)
    learner = PretrainLearner(model, texts, config, processes)
    seconds = []
    for step in range(N_PROBE_STEPS):
        started_at = time.process_time()
        learner.step(step, 1e-3)
        seconds.append(time.process_time() - started_at)
    # Some settings do not do the same in every step.
    return [statistics.mean(seconds[first : first + 4]) for first in range(4, N_PROBE_STEPS, 4)]


def _run(options: argparse.Namespace, name: str, seconds: float) -> dict[str, Any]:
    trial = TRIALS[name]
    out = options.out / f"{name}-{options.minutes:g}"
    n_tokens = _tokens_of_a_step(trial)
    n_steps = round(60 * options.minutes / seconds)
    _pretrain(options, trial, out, n_steps, ("train.save_every=1000",))
    texts = dict(each.split("=", 1) for each in options.heldout)
    return {
        "settings": [*COMMON, *trial.sets],
        "commit": describe_environment()["commit"],
        "tokens_per_second": n_tokens / seconds,
        "steps": n_steps,
        "tokens": n_steps * n_tokens,
        "perplexity": {text: _measure(out / "model", path) for text, path in texts.items()},
    }


def _pretrain(
    options: argparse.Namespace, trial: Trial, out: Path, n_steps: int, more: Sequence[str]
) -> None:
    first = options.heldout[0].split("=", 1)[1]
    command = ["pretrain", "--train", options.train, "--heldout", first, "--out", str(out)]
    command += ["--cache", str(options.cache), "--config", str(CONFIG)]
    command += ["--max-steps", str(n_steps)]
    for each in (*COMMON, *trial.sets, *more):
        command += ["--set", each]
    _elmo(command)


def _tokens_of_a_step(trial: Trial) -> int:
    from elmo.pretraining.config import read_config

    stream = read_config(None, CONFIG, [*COMMON, *trial.sets]).stream
    return stream.batch_size * stream.bptt_length


def _measure(model: Path, text: str) -> dict[str, float]:
    measured = json.loads(_elmo(["evaluate", "--json", str(model), text]))
    kept = ("forward", "backward", "mean", "bits_per_character", "unknown_rate", "tokens")
    return {name: measured[name] for name in kept}


def _elmo(arguments: Sequence[str]) -> str:
    command = [sys.executable, "-m", "elmo", *arguments]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    done = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True, env=environment)
    return done.stdout


def _read(path: Path) -> dict[str, Any]:
    if path.exists():
        known: dict[str, Any] = json.loads(path.read_text())
        return known
    machine = describe_environment() | {"threads": 1}
    return {"machine": machine, "seconds_of_a_step": {}, "trials": {}}


def _add(path: Path, place: Sequence[str], name: str, value: object) -> None:
    known = part = _read(path)
    for each in place:
        part = part.setdefault(each, {})
    part[name] = value
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(known, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
