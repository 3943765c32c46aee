"""How coreference is scored: MUC, B3 and CEAF-phi4, and their mean, as CoNLL-2012 did.

In: of each document the clusters that are right and those that were found. Out: scores in percent.
The numbers are those of the reference scorer (Pradhan et al. 2014): counts are summed over the
documents before anything is divided, and found mentions that are not right ones count as they are.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from elmo.errors import needs_extra
from elmo.tasks.spans import percent

Cluster = frozenset[Hashable]
Document = tuple[Sequence[Cluster], Sequence[Cluster]]  # right, found


@dataclass(frozen=True)
class Share:
    """A part of a whole, each summed over documents."""

    part: float = 0.0
    whole: float = 0.0

    def __add__(self, other: "Share") -> "Share":
        return Share(self.part + other.part, self.whole + other.whole)


def muc(of: Sequence[Cluster], against: Sequence[Cluster]) -> Share:
    """Links of clusters that the others have too (Vilain et al. 1995)."""
    cluster_of = {mention: k for k, cluster in enumerate(against) for mention in cluster}
    n_kept = n_links = 0
    for cluster in of:
        # A mention that the others lack is a part by itself, by a name that no cluster has.
        parts = {cluster_of.get(mention, (mention,)) for mention in cluster}
        n_kept += len(cluster) - len(parts)
        n_links += len(cluster) - 1
    return Share(n_kept, n_links)


def b_cubed(of: Sequence[Cluster], against: Sequence[Cluster]) -> Share:
    """Of each mention, how much of its cluster the others have with it (Bagga & Baldwin 1998)."""
    cluster_of = {mention: k for k, cluster in enumerate(against) for mention in cluster}
    part = 0.0
    for cluster in of:
        together = Counter(cluster_of[mention] for mention in cluster if mention in cluster_of)
        part += sum(number**2 for number in together.values()) / len(cluster)
    return Share(part, sum(map(len, of)))


def ceaf_phi4(of: Sequence[Cluster], against: Sequence[Cluster]) -> Share:
    """Likeness of clusters that are paired as well as can be (Luo 2005)."""
    with needs_extra("coref"):
        from scipy.optimize import linear_sum_assignment

    likeness = np.array(
        [[2 * len(a & b) / (len(a) + len(b)) for b in against] for a in of], dtype=np.float64
    ).reshape(len(of), len(against))
    pairs = linear_sum_assignment(likeness, maximize=True)
    return Share(float(likeness[pairs].sum()), len(of))


def mentions(of: Sequence[Cluster], against: Sequence[Cluster]) -> Share:
    """Mentions that the others have."""
    here, there = frozenset().union(*of), frozenset().union(*against)
    return Share(len(here & there), len(here))


Measure = Callable[[Sequence[Cluster], Sequence[Cluster]], Share]
MEASURES: dict[str, Measure] = {"muc": muc, "b3": b_cubed, "ceaf": ceaf_phi4}


def score_clusters(documents: Sequence[Document]) -> dict[str, float]:
    """Means of the three measures, each by itself, and how well mentions were found."""
    each = {name: precision_recall_f1(measure, documents) for name, measure in MEASURES.items()}
    precision, recall, f1 = np.mean(list(each.values()), axis=0).tolist()
    return {
        "f1": f1,
        "precision": precision,
        "recall": recall,
        **{f"{name}_f1": f1 for name, (_, _, f1) in each.items()},
        "mention_f1": precision_recall_f1(mentions, documents)[2],
    }


def precision_recall_f1(
    measure: Measure, documents: Sequence[Document]
) -> tuple[float, float, float]:
    """A measure over documents, in percent."""
    precision = sum((measure(found, right) for right, found in documents), Share())
    recall = sum((measure(right, found) for right, found in documents), Share())
    p, r = percent(precision.part, precision.whole), percent(recall.part, recall.whole)
    return p, r, 2 * p * r / (p + r) if p + r else 0.0
