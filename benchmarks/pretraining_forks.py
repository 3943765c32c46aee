"""Compare settings for a pre-training run in progress, starting from its newest checkpoint.

    python -m benchmarks.pretraining_forks RUN --train "text/*.txt.xz" --heldout heldout.txt \\
        --cache cache --config configs/english.toml --json forks.json \\
        "optimizer.learning_rate=6e-3" "optimizer.learning_rate=3e-3"

Each fork continues the run's newest checkpoint on the same text with other settings: `--stable`
steps at a constant learning rate, then `--decay` steps in which it decays to zero, so that a lower
rate does not win merely because of less noise. The run itself is not changed. Settings of a fork
are separated by spaces. Forks that are in the JSON file already are skipped.
"""

import argparse
import dataclasses
from pathlib import Path
from typing import Any

import torch
from tqdm import trange

from benchmarks.measured import conditions, load, store
from elmo.network import kernels
from elmo.network.bilm import BiLM
from elmo.pretraining.batches import InputOutputEncoder
from elmo.pretraining.config import read_config
from elmo.pretraining.learner import PretrainLearner
from elmo.pretraining.perplexity import measure, sample_sentences
from elmo.pretraining.pretrain import add_head, open_texts
from elmo.training.checkpoint import load_newest
from elmo.training.distributed import Processes
from elmo.training.loop import reproducible
from elmo.training.run_folder import RunFolder

N_SENTENCES = 1000


def main() -> None:
    """Run the forks that are not done yet."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("run", type=Path)
    parser.add_argument("forks", nargs="+", metavar="SETTINGS")
    parser.add_argument("--train", required=True)
    parser.add_argument("--heldout", required=True)
    parser.add_argument("--cache", type=Path, required=True)
    parser.add_argument("--config", type=Path, required=True)
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--stable", type=int, default=300)
    parser.add_argument("--decay", type=int, default=200)
    options = parser.parse_args()
    done = load(options.json) if options.json.exists() else {}
    for fork in options.forks:
        if fork not in done:
            before = conditions()
            store(options.json, fork, run_fork(options, fork.split()) | {"conditions": before})


def run_fork(options: argparse.Namespace, sets: list[str]) -> dict[str, Any]:
    """Train from the checkpoint, then measure the last weights."""
    checkpoint = load_newest(RunFolder(options.run).checkpoints)
    if checkpoint is None:
        raise SystemExit(f"{options.run}: no checkpoint")
    config = read_config(None, options.config, [*sets, "train.ema_decay=none"])
    alone = Processes(0, 1, torch.device("cpu"))
    texts = open_texts(options.train, options.heldout, options.cache, alone)
    kernels.keep_freed_memory()
    model = add_head(BiLM(config.model), texts, config)
    learner = PretrainLearner(model, texts, config, alone)
    learner.load_state(checkpoint.tensors)
    n_steps, highest = options.stable + options.decay, config.optimizer.learning_rate
    assert highest is not None
    assert model.head is not None
    n_tokens = 0
    with reproducible(alone.device):
        for number in trange(n_steps):
            rate = highest * min(1.0, (n_steps - number) / options.decay)
            n_tokens += learner.step(checkpoint.step + number, rate).n_tokens
    sentences = list(sample_sentences(texts.heldout, N_SENTENCES))
    perplexity = measure(model.bilm, model.head, InputOutputEncoder.of(model), sentences)
    return {
        "step": checkpoint.step,
        "tokens_before": checkpoint.numbers["n_tokens"],
        "tokens": n_tokens,
        "stable": options.stable,
        "decay": options.decay,
        "perplexity": dataclasses.asdict(perplexity),
    }


if __name__ == "__main__":
    main()
