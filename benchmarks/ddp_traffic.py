"""Bytes that DDP sends in a pre-training step, computed for each model size without running it.

usage: python -m benchmarks.ddp_traffic [--processes 8] [--tokens-per-process 4096] [--words 793471]
                                    [--negatives 8192]
DDP all-reduces dense gradients. Of the sampled softmax, only touched rows are all-reduced, after a
map that marks these rows (`processes.average_gradients`). In a ring all-reduce, every process sends
2 (n - 1) / n times the reduced bytes. Words are assumed to follow the log-uniform distribution of
the sampler, which is close to Zipf's law.
"""

import argparse

import numpy as np
import torch

from elmo.network.bilm import BiLM
from elmo.network.config import PRESETS

N_DIRECTIONS = 2


def touched_rows(n_words: int, n_drawn: int) -> float:
    """Expected number of distinct words among `n_drawn` words."""
    k = np.arange(n_words, dtype=np.float64)
    probability = np.log1p(1 / (k + 1)) / np.log(n_words + 1)
    return float(-np.expm1(n_drawn * np.log1p(-probability)).sum())


def main() -> None:
    """Print a row for each size."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--processes", type=int, default=8)
    parser.add_argument("--tokens-per-process", type=int, default=4096)
    parser.add_argument("--words", type=int, default=793_471)
    parser.add_argument("--negatives", type=int, default=8192)
    given = parser.parse_args()
    # Bytes that each process sends and receives per byte that a ring all-reduce reduces.
    ring = 2 * (given.processes - 1) / given.processes
    n_targets = given.processes * given.tokens_per_process * N_DIRECTIONS
    n_rows = min(given.words, given.negatives + touched_rows(given.words, n_targets))
    print(
        f"{given.processes} processes of {given.tokens_per_process:,} tokens, {given.words:,} words"
        f", {given.negatives:,} negatives: {n_rows:,.0f} rows of the head touched"
    )
    titles = ("dense MB", "rows MB", "map MB", "sent MB", "full head")
    print(f"{'':10}" + "".join(f"{title:>11}" for title in titles))
    for name, config in PRESETS.items():
        with torch.device("meta"):
            bilm = BiLM(config())
        row_bytes = 4 * (config().lstm.projection_dim + 1)
        dense = 4 * sum(parameter.numel() for parameter in bilm.parameters())
        rows = n_rows * row_bytes
        touched = 2.0 * given.words  # one byte per word, for weights and for biases
        sent = ring * (dense + rows + touched)
        full = ring * (dense + given.words * row_bytes)
        numbers = (dense, rows, touched, sent, full)
        print(f"{name:10}" + "".join(f"{number / 1e6:11.1f}" for number in numbers))


if __name__ == "__main__":
    main()
