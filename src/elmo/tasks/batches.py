"""Which examples go through the model together: like lengths, in an order that a seed decides.

In: the length of each example. Out: batches of their numbers; the same seed and epoch always give
the same batches, so that a run which goes on needs no memory of its order.
"""

from collections.abc import Hashable, Sequence

import numpy as np

# Lengths are blurred by this share before sorting: without it, the same examples meet every epoch.
LENGTH_NOISE = 0.1


def training_batches(
    lengths: Sequence[int], batch_size: int, *, seed: int, epoch: int
) -> list[list[int]]:
    """All examples of an epoch, each once."""
    random = np.random.default_rng((seed, epoch))
    blurred = np.asarray(lengths) * (1 + random.uniform(-LENGTH_NOISE, LENGTH_NOISE, len(lengths)))
    # Equal lengths in any order: the noise has not moved those of length zero.
    order = np.lexsort((random.permutation(len(lengths)), blurred)).tolist()
    batches = [order[start : start + batch_size] for start in range(0, len(order), batch_size)]
    return [batches[k] for k in random.permutation(len(batches))]


def draw_fraction(groups: Sequence[Hashable], fraction: float, seed: int) -> list[int]:
    """The numbers of the examples of a sampled fraction of the groups, at least one group."""
    distinct = list(dict.fromkeys(groups))
    n_drawn = max(1, round(fraction * len(distinct)))
    drawn = np.random.default_rng((seed, 0)).permutation(len(distinct))[:n_drawn].tolist()
    kept = {distinct[k] for k in drawn}
    return [number for number, group in enumerate(groups) if group in kept]
