"""Spans of a document: listing candidates, pruning them, and clustering the kept ones.

In: lengths of sentences, scores of spans, or the antecedent of each span. Out: spans or their
indices.
Shapes: N tokens, M spans, W widest span.
"""

from collections.abc import Sequence

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor


def list_spans(lengths: Sequence[int], max_width: int) -> Tensor:
    """First and last token of every span within a sentence, (2, M)."""
    sentences = torch.repeat_interleave(torch.arange(len(lengths)), torch.tensor(lengths))
    firsts = torch.arange(len(sentences))[:, None].expand(-1, max_width)  # (N, W)
    lasts = firsts + torch.arange(max_width)
    is_within = lasts < len(sentences)
    ends_in = sentences[lasts.clamp_max(len(sentences) - 1)]
    is_within &= ends_in == sentences[:, None]
    return torch.stack([firsts[is_within], lasts[is_within]])


def prune_spans(spans: NDArray[np.int64], scores: NDArray[np.float32], n_kept: int) -> list[int]:
    """Indices of at most `n_kept` spans (2, M), in the order of the text (Lee et al. 2017).

    Greedy: spans are kept in descending order of scores, unless they cross (partially overlap) a
    kept span. Among equal scores, the earlier span is first.
    """
    starts, ends = spans.tolist()
    # The farthest end of kept spans by start, and the farthest start by end: a crossing span starts
    # or ends inside the other.
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
    starts_inside = any(farthest_end.get(k, end) > end for k in range(start + 1, end + 1))
    return starts_inside or any(farthest_start.get(k, start) < start for k in range(start, end))


def build_clusters(antecedents: Sequence[int | None]) -> list[list[int]]:
    """Clusters of spans from the antecedent of each; clusters of one span are left out."""
    cluster_of: list[list[int]] = []
    for number, antecedent in enumerate(antecedents):
        cluster = [] if antecedent is None else cluster_of[antecedent]
        cluster.append(number)
        cluster_of.append(cluster)
    clusters = {id(cluster): cluster for cluster in cluster_of}
    return [cluster for cluster in clusters.values() if len(cluster) > 1]
