"""Which spans of a document are kept as mentions: the best ones that do not cross each other.

In: first and last tokens of spans (2, M), a score of each. Out: the numbers of those kept, in the
order of the text. Greedy, as Lee et al. (2017): the best span first, and each next one unless it
crosses (overlaps without one holding the other) a span that was kept.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray


def prune_spans(spans: NDArray[np.int64], scores: NDArray[np.float32], n_kept: int) -> list[int]:
    """At most `n_kept` spans; between equal scores the earlier one is taken."""
    starts, ends = spans.tolist()
    # Of the kept spans that start at a token the farthest end, and of those that end at one the
    # farthest start: whatever crosses a span starts or ends within it.
    farthest_end: dict[int, int] = {}
    farthest_start: dict[int, int] = {}
    kept: list[int] = []
    for number in np.argsort(-scores, kind="stable").tolist():
        if len(kept) == n_kept:
            break
        start, end = starts[number], ends[number]
        if _crosses(start, end, farthest_end, farthest_start):
            continue
        kept.append(number)
        farthest_end[start] = max(end, farthest_end.get(start, end))
        farthest_start[end] = min(start, farthest_start.get(end, start))
    return sorted(kept, key=lambda number: (starts[number], ends[number]))


def _crosses(
    start: int, end: int, farthest_end: dict[int, int], farthest_start: dict[int, int]
) -> bool:
    goes_beyond = any(farthest_end.get(k, end) > end for k in range(start + 1, end + 1))
    return goes_beyond or any(farthest_start.get(k, start) < start for k in range(start, end))


def link(antecedents: Sequence[int | None]) -> list[list[int]]:
    """Clusters of spans, each of which names one before it or none; those of one are left out."""
    cluster_of: list[list[int]] = []
    for number, antecedent in enumerate(antecedents):
        cluster = [] if antecedent is None else cluster_of[antecedent]
        cluster.append(number)
        cluster_of.append(cluster)
    clusters = {id(cluster): cluster for cluster in cluster_of}
    return [cluster for cluster in clusters.values() if len(cluster) > 1]
