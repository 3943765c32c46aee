"""The metrics of coreference: MUC, B3, CEAF-phi4 and their mean, as in CoNLL-2012.

In: gold and predicted clusters of each document. Out: scores in percent, equal to those of the
reference scorer (Pradhan et al. 2014): counts are summed over documents before division, and
predicted mentions that are not gold ones are kept as they are.
"""

from collections import Counter
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass

import numpy as np

from elmo.errors import needs_extra
from elmo.tasks.metrics import percent

Cluster = frozenset[Hashable]
Clusterings = tuple[Sequence[Cluster], Sequence[Cluster]]  # gold, predicted


@dataclass(frozen=True)
class Ratio:
    """Numerator and denominator, summed over documents."""

    numerator: float = 0.0
    denominator: float = 0.0

    def __add__(self, other: "Ratio") -> "Ratio":
        return Ratio(self.numerator + other.numerator, self.denominator + other.denominator)

    @property
    def percent(self) -> float:
        """The ratio in percent; 0 where the denominator is 0."""
        return percent(self.numerator, self.denominator)


def muc(of: Sequence[Cluster], against: Sequence[Cluster]) -> Ratio:
    """Links in `of` that are also in `against` (Vilain et al. 1995)."""
    cluster_of = {mention: k for k, cluster in enumerate(against) for mention in cluster}
    n_kept = n_links = 0
    for cluster in of:
        # A mention that is not in `against` is its own part; its key is not a cluster index.
        parts = {cluster_of.get(mention, (mention,)) for mention in cluster}
        n_kept += len(cluster) - len(parts)
        n_links += len(cluster) - 1
    return Ratio(n_kept, n_links)


def b_cubed(of: Sequence[Cluster], against: Sequence[Cluster]) -> Ratio:
    """The overlap of each mention's two clusters (Bagga and Baldwin 1998)."""
    cluster_of = {mention: k for k, cluster in enumerate(against) for mention in cluster}
    overlap = 0.0
    for cluster in of:
        together = Counter(cluster_of[mention] for mention in cluster if mention in cluster_of)
        overlap += sum(number**2 for number in together.values()) / len(cluster)
    return Ratio(overlap, sum(map(len, of)))


def ceaf_phi4(of: Sequence[Cluster], against: Sequence[Cluster]) -> Ratio:
    """The similarity of clusters under the best one-to-one alignment (Luo 2005)."""
    with needs_extra("coref"):
        from scipy.optimize import linear_sum_assignment

    similarity = np.array(
        [[2 * len(a & b) / (len(a) + len(b)) for b in against] for a in of], dtype=np.float64
    ).reshape(len(of), len(against))
    pairs = linear_sum_assignment(similarity, maximize=True)
    return Ratio(float(similarity[pairs].sum()), len(of))


def mentions(of: Sequence[Cluster], against: Sequence[Cluster]) -> Ratio:
    """Mentions in `of` that are also in `against`."""
    here, there = frozenset().union(*of), frozenset().union(*against)
    return Ratio(len(here & there), len(here))


Metric = Callable[[Sequence[Cluster], Sequence[Cluster]], Ratio]
METRICS: dict[str, Metric] = {"muc": muc, "b3": b_cubed, "ceaf": ceaf_phi4}


def score_clusters(documents: Sequence[Clusterings]) -> dict[str, float]:
    """The mean of the three metrics, the F1 of each, and the F1 of mentions."""
    each = {name: precision_recall_f1(metric, documents) for name, metric in METRICS.items()}
    precision, recall, f1 = np.mean(list(each.values()), axis=0).tolist()
    return {
        "f1": f1,
        "precision": precision,
        "recall": recall,
        **{f"{name}_f1": f1 for name, (_, _, f1) in each.items()},
        "mention_f1": precision_recall_f1(mentions, documents)[2],
    }


def precision_recall_f1(
    metric: Metric, documents: Sequence[Clusterings]
) -> tuple[float, float, float]:
    """Precision, recall and F1 of a metric over all documents, in percent."""
    precision = sum((metric(predicted, gold) for gold, predicted in documents), Ratio())
    recall = sum((metric(gold, predicted) for gold, predicted in documents), Ratio())
    p, r = precision.percent, recall.percent
    return p, r, 2 * p * r / (p + r) if p + r else 0.0
