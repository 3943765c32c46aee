"""Training batches of examples of similar length, in random order; random subsets of examples.

In: the length of each example, a seed. Out: batches of their numbers. The same seed and epoch give
the same batches, so a checkpoint does not store the order.
"""

from collections.abc import Hashable, Sequence

import numpy as np

# Relative noise of lengths before sorting, so that batches differ from epoch to epoch.
LENGTH_NOISE = 0.1


def training_batches(
    lengths: Sequence[int], batch_size: int, *, seed: int, epoch: int
) -> list[list[int]]:
    """All examples of an epoch, each once."""
    random = np.random.default_rng((seed, epoch))
    noisy = np.asarray(lengths) * (1 + random.uniform(-LENGTH_NOISE, LENGTH_NOISE, len(lengths)))
    # Examples of equal length in random order; noise does not change a length of zero.
    order = np.lexsort((random.permutation(len(lengths)), noisy)).tolist()
    batches = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
    return [batches[k] for k in random.permutation(len(batches))]


def draw_fraction(groups: Sequence[Hashable], fraction: float, seed: int) -> list[int]:
    """The numbers of the examples of a sampled fraction of the groups, at least one group."""
    distinct = list(dict.fromkeys(groups))
    n_drawn = max(1, round(fraction * len(distinct)))
    drawn = np.random.default_rng((seed, 0)).permutation(len(distinct))[:n_drawn].tolist()
    kept = {distinct[k] for k in drawn}
    return [number for number, group in enumerate(groups) if group in kept]
