"""Syntax trees: distances of words in the tree, by a linear probe (Hewitt and Manning 2019).

In: a model, and CoNLL-U files for training and testing. Out: for each layer, the undirected
unlabeled attachment score (UUAS) of the minimum spanning tree of predicted distances, and the
Spearman correlation of predicted and true distances (DSpr., mean over sentence lengths 5 to 50).
The baselines are a tree that connects neighboring words, and a biLM with shuffled weights. The
paper reports UUAS 77.0 and DSpr. 0.83 for layer 1 of ELMo on the Penn Treebank, and UUAS 48.9 for
neighboring words.
Shapes: T tokens of a sentence, N tokens of all sentences, D width, R rank of the probe.
"""

import copy
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from tqdm import tqdm

from elmo.api import Elmo, State
from elmo.errors import DataError, needs_extra
from elmo.models.model_folder import Model
from elmo.probes.layers import Array, embed_tokens, layer_names
from elmo.probes.result import ProbeResult
from elmo.tasks.metrics import percent
from elmo.tasks.tagging.data import (
    CONLLU_HEAD,
    CONLLU_UPOS,
    CONLLU_WORD,
    Row,
    get_field,
    read_columns,
)

RANK = 64
N_EPOCHS = 10
BATCH_SIZE = 20  # sentences
LEARNING_RATE = 1e-3
LENGTHS = range(5, 51)  # of sentences whose correlations count
PUNCTUATION = "PUNCT"
SEED = 0

Distances = NDArray[np.float32]  # (T, T)


@dataclass(frozen=True)
class Tree:
    """A sentence with the distances of its words in the dependency tree."""

    tokens: tuple[str, ...]
    is_word: NDArray[np.bool_]  # (T,): not punctuation, which is not scored
    distances: Distances

    @property
    def edges(self) -> set[tuple[int, int]]:
        """Pairs of adjacent words, without punctuation."""
        first, second = np.nonzero(np.triu(self.distances == 1))
        kept = self.is_word[first] & self.is_word[second]
        return set(zip(first[kept].tolist(), second[kept].tolist(), strict=True))


def measure(
    elmo: Elmo,
    train_path: Path,
    test_path: Path,
    *,
    rank: int = RANK,
    n_epochs: int = N_EPOCHS,
    state: State = "fresh",
) -> ProbeResult:
    """Train a probe on each layer of one file, and test it on the other."""
    with needs_extra("probes"):
        import scipy.stats  # noqa: F401  (fail before embedding)
    train, test = read_trees(train_path), read_trees(test_path)
    rows = {"neighboring words": score(test, [_chain(len(tree.tokens)) for tree in test])}
    # Only layer 1 of the random model, because layer 1 was best in the paper.
    random_layer = min(1, elmo.n_layers - 1)
    random_rows = [(random_layer, f"random biLM, layer {random_layer}")]
    random = random_model(elmo)
    for model, names in ((random, None), (elmo, layer_names(elmo))):
        train_layers = embed_tokens(model, [tree.tokens for tree in train], state)
        test_layers = embed_tokens(model, [tree.tokens for tree in test], state)
        for layer, name in enumerate(names) if names else random_rows:
            probe = train_probe(train_layers[layer], train, rank=rank, n_epochs=n_epochs)
            rows[name] = score(test, predict(probe, test_layers[layer], test))
    return ProbeResult(
        "structure",
        "syntax trees, %",
        ("UUAS", "DSpr."),
        rows,
        {
            "state": state,
            "rank": rank,
            "epochs": n_epochs,
            "training sentences": len(train),
            "test sentences": len(test),
        },
    )


def read_trees(path: Path) -> list[Tree]:
    """The dependency trees of a CoNLL-U file."""
    trees = [_read_tree(rows, path) for rows in read_columns(path, "conllu")]
    if not trees:
        raise DataError(f"{path}: no sentence, expected CoNLL-U")
    return trees


def tree_distances(heads: Sequence[int]) -> Distances:
    """The number of edges between each pair of words (T, T); `heads` are from 1, 0 is the root."""
    n_tokens = len(heads)
    neighbors: list[list[int]] = [[] for _ in heads]
    for word, head in enumerate(heads):
        if head:
            neighbors[word].append(head - 1)
            neighbors[head - 1].append(word)
    distances = np.full((n_tokens, n_tokens), np.inf, dtype=np.float32)
    for start in range(n_tokens):
        distances[start, start] = 0
        queue = [start]
        for word in queue:
            for other in neighbors[word]:
                if np.isinf(distances[start, other]):
                    distances[start, other] = distances[start, word] + 1
                    queue.append(other)
    return distances


def train_probe(
    vectors: Array, trees: Sequence[Tree], *, rank: int = RANK, n_epochs: int = N_EPOCHS
) -> Tensor:
    """Train the matrix (D, R) whose squared distances approximate those in the trees (L1 loss)."""
    generator = torch.Generator().manual_seed(SEED)
    probe = torch.empty(vectors.shape[1], rank).uniform_(-0.05, 0.05, generator=generator)
    optimizer = torch.optim.Adam([probe.requires_grad_()], lr=LEARNING_RATE)
    starts = _starts(trees)
    # A sentence of one word has no distances.
    numbers = [k for k, tree in enumerate(trees) if len(tree.tokens) > 1]
    for _ in tqdm(range(n_epochs), desc="train", unit=" epochs", leave=False, disable=None):
        order = torch.randperm(len(numbers), generator=generator).tolist()
        for first in range(0, len(order), BATCH_SIZE):
            batch = [numbers[k] for k in order[first : first + BATCH_SIZE]]
            losses = [
                _loss(probe, vectors[starts[k] : starts[k + 1]], trees[k].distances) for k in batch
            ]
            optimizer.zero_grad()
            torch.stack(losses).mean().backward()  # type: ignore[no-untyped-call]
            optimizer.step()
    return probe.detach()


@torch.inference_mode()
def predict(probe: Tensor, vectors: Array, trees: Sequence[Tree]) -> list[Distances]:
    """The predicted distances of each sentence."""
    starts = _starts(trees)
    return [
        _squared_distances(probe, vectors[starts[k] : starts[k + 1]]).numpy()
        for k in range(len(trees))
    ]


def score(trees: Sequence[Tree], predicted: Sequence[Distances]) -> list[float | None]:
    """UUAS and the Spearman correlation, both in percent; None without sentences of its lengths."""
    n_correct = n_edges = 0
    by_length: defaultdict[int, list[float]] = defaultdict(list)
    for tree, distances in zip(trees, predicted, strict=True):
        words = np.flatnonzero(tree.is_word)
        found = minimum_spanning_tree(distances[np.ix_(words, words)])
        edges = {(int(words[a]), int(words[b])) for a, b in found}
        n_correct += len(tree.edges & edges)
        n_edges += len(tree.edges)
        if len(tree.tokens) in LENGTHS:
            by_length[len(tree.tokens)].append(_spearman(tree.distances, distances))
    means = [float(np.mean(correlations)) for correlations in by_length.values()]
    return [percent(n_correct, n_edges), 100 * float(np.mean(means)) if means else None]


def minimum_spanning_tree(distances: Distances) -> set[tuple[int, int]]:
    """The edges (a, b), a < b, of the tree with the smallest total distance (Prim's algorithm)."""
    n_words = len(distances)
    edges: set[tuple[int, int]] = set()
    if n_words < 2:
        return edges
    nearest = np.zeros(n_words, dtype=np.int64)  # the word in the tree that is nearest to each word
    cost = distances[0].astype(np.float64)
    cost[0] = np.inf
    for _ in range(n_words - 1):
        word = int(cost.argmin())
        edges.add((min(word, int(nearest[word])), max(word, int(nearest[word]))))
        is_nearer = (distances[word] < cost) & (cost < np.inf)
        nearest[is_nearer] = word
        cost[is_nearer] = distances[word][is_nearer]
        cost[word] = np.inf
    return edges


def random_model(elmo: Elmo) -> Elmo:
    """A copy of a model whose weights are shuffled within each tensor."""
    bilm = copy.deepcopy(elmo.bilm)
    generator = torch.Generator().manual_seed(SEED)
    with torch.no_grad():
        for parameter in bilm.parameters():
            order = torch.randperm(parameter.numel(), generator=generator)
            parameter.copy_(parameter.flatten()[order].view_as(parameter))
    return Elmo(Model(bilm))


def _read_tree(rows: Sequence[Row], path: Path) -> Tree:
    heads = []
    for row in rows:
        head = get_field(row, CONLLU_HEAD, path)
        if not head.isdecimal() or int(head) > len(rows):
            raise DataError(
                f"{path}:{row.line}: the head {head!r}, expected 0 to {len(rows)}, the words of "
                "the sentence"
            )
        heads.append(int(head))
    distances = tree_distances(heads)
    if heads.count(0) != 1 or not np.isfinite(distances).all():
        raise DataError(f"{path}:{rows[0].line}: the heads are not a tree with one root")
    is_word = np.array([row.fields[CONLLU_UPOS] != PUNCTUATION for row in rows])
    return Tree(tuple(get_field(row, CONLLU_WORD, path) for row in rows), is_word, distances)


def _loss(probe: Tensor, vectors: Array, distances: Distances) -> Tensor:
    predicted = _squared_distances(probe, vectors)
    return (predicted - torch.from_numpy(distances)).abs().mean()


def _squared_distances(probe: Tensor, vectors: Array) -> Tensor:
    """(T, D) -> (T, T)."""
    projected = torch.from_numpy(vectors).float() @ probe  # (T, R)
    lengths = projected.square().sum(1)
    return (lengths[:, None] + lengths - 2 * projected @ projected.T).clamp_min(0)


def _spearman(gold: Distances, predicted: Distances) -> float:
    """The mean over words of the Spearman correlation of their distances to all words."""
    from scipy.stats import rankdata

    ranks = [rankdata(distances, axis=1) for distances in (gold, predicted)]
    one, other = (each - each.mean(1, keepdims=True) for each in ranks)
    norms = np.linalg.norm(one, axis=1) * np.linalg.norm(other, axis=1)
    correlations = (one * other).sum(1) / np.where(norms > 0, norms, 1)
    return float(correlations.mean())


def _chain(n_tokens: int) -> Distances:
    """The distances between positions in a sentence."""
    positions = np.arange(n_tokens, dtype=np.float32)
    distances: Distances = np.abs(positions[:, None] - positions)
    return distances


def _starts(trees: Sequence[Tree]) -> list[int]:
    """The first row of each sentence in the array of all tokens, and the end."""
    return list(accumulate((len(tree.tokens) for tree in trees), initial=0))
