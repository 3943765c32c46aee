"""Word in context (WiC): whether a word has the same sense in two sentences.

In: a model, and files of Pilehvar and Camacho-Collados (2019): NAME.data.txt with `word, part of
speech, position-position, sentence, sentence` per line, and NAME.gold.txt with T or F per line.
Out: accuracy of a threshold on the cosine of the word's two vectors, chosen on the training pairs,
for each layer and their average; the baselines are the majority label, and the cosine of the
sentences' mean layer-0 vectors (no word order).
Shapes: N pairs, D width.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmo.api import Elmo, State
from elmo.errors import DataError
from elmo.files.text_files import read_lines
from elmo.probes.layers import Array, embed_layers, embed_targets, normalize, target_names
from elmo.probes.result import ProbeResult
from elmo.tasks.metrics import percent

DATA, GOLD = ".data.txt", ".gold.txt"
LABELS = {"T": True, "F": False}


@dataclass(frozen=True, slots=True)
class WordPair:
    """A word in two sentences."""

    sentences: tuple[tuple[str, ...], tuple[str, ...]]
    positions: tuple[int, int]
    is_same: bool


def measure(
    elmo: Elmo, test_path: Path, train_path: Path, *, state: State = "fresh"
) -> ProbeResult:
    """Choose thresholds on the training pairs, and measure the accuracy on the test pairs."""
    train, test = read_pairs(train_path), read_pairs(test_path)
    train_labels, test_labels = _labels(train), _labels(test)
    majority = train_labels.mean() >= 0.5
    rows = {"majority label": percent(int((test_labels == majority).sum()), len(test))}
    train_cosines, test_cosines = _cosines(elmo, train, state), _cosines(elmo, test, state)
    for name, cosines in train_cosines.items():
        threshold = best_threshold(cosines, train_labels)
        n_correct = int(((test_cosines[name] >= threshold) == test_labels).sum())
        rows[name] = percent(n_correct, len(test))
    return ProbeResult(
        "wic",
        "word in context, accuracy in %",
        ("accuracy",),
        {name: (accuracy,) for name, accuracy in rows.items()},
        {"state": state, "training pairs": len(train), "test pairs": len(test)},
    )


def read_pairs(path: Path) -> list[WordPair]:
    """The pairs of NAME.data.txt, with the labels of NAME.gold.txt beside it."""
    if not path.name.endswith(DATA):
        raise DataError(f"{path}: expected a file such as train{DATA}, with train{GOLD} beside it")
    gold_path = path.with_name(path.name.removesuffix(DATA) + GOLD)
    lines = [(f"{path}:{k}", line) for k, line in enumerate(read_lines(path), start=1) if line]
    labels = [line for line in read_lines(gold_path) if line]
    if not lines or len(lines) != len(labels):
        raise DataError(
            f"{gold_path}: {len(labels)} labels for {len(lines)} pairs, expected at least one pair "
            "and one label per pair"
        )
    return [
        _read_pair(line, label, where) for (where, line), label in zip(lines, labels, strict=True)
    ]


def best_threshold(cosines: NDArray[np.float64], labels: NDArray[np.bool_]) -> float:
    """The lowest threshold with the highest accuracy of `cosine >= threshold`."""
    order = np.argsort(cosines, kind="stable")
    sorted_cosines, sorted_labels = cosines[order], labels[order]
    # n_correct[k]: with the k lowest pairs below the threshold.
    n_false_below = np.concatenate([[0], np.cumsum(~sorted_labels)])
    n_true_above = labels.sum() - np.concatenate([[0], np.cumsum(sorted_labels)])
    is_cut = np.concatenate([[True], sorted_cosines[1:] > sorted_cosines[:-1], [True]])
    n_correct = np.where(is_cut, n_false_below + n_true_above, -1)
    k = int(n_correct.argmax())
    if k == 0:
        return -np.inf
    if k == len(cosines):
        return np.inf
    return float((sorted_cosines[k - 1] + sorted_cosines[k]) / 2)


def _read_pair(line: str, label: str, where: str) -> WordPair:
    fields = line.split("\t")
    positions = fields[2].split("-") if len(fields) == 5 else []
    if len(positions) != 2 or not all(map(str.isdecimal, positions)) or label not in LABELS:
        raise DataError(
            f"{where}: {line[:40]!r} with the label {label!r}, expected word, part of speech, "
            "positions such as 3-5 and two sentences, separated by tabs, and T or F"
        )
    first, second = (tuple(sentence.split()) for sentence in fields[3:])
    at = int(positions[0]), int(positions[1])
    if at[0] >= len(first) or at[1] >= len(second):
        raise DataError(f"{where}: positions {fields[2]}, expected tokens of the sentences")
    return WordPair((first, second), at, LABELS[label])


def _labels(pairs: Sequence[WordPair]) -> NDArray[np.bool_]:
    return np.array([pair.is_same for pair in pairs])


def _cosines(elmo: Elmo, pairs: Sequence[WordPair], state: State) -> dict[str, NDArray[np.float64]]:
    """The cosines of the two sides of each pair, (N,), by name of the vectors."""
    sentences = [sentence for pair in pairs for sentence in pair.sentences]
    positions = [position for pair in pairs for position in pair.positions]
    targets = embed_targets(elmo, sentences, positions, state)  # (L+2, 2N, D)
    bags = np.stack([layers[0].mean(0) for layers in embed_layers(elmo, sentences, state)])
    named = dict(zip(target_names(elmo), targets, strict=True))
    return {
        name: _pair_cosines(vectors) for name, vectors in ({"mean of words": bags} | named).items()
    }


def _pair_cosines(vectors: Array) -> NDArray[np.float64]:
    """(2N, D) -> (N,)."""
    vectors = normalize(vectors.astype(np.float64))
    cosines: NDArray[np.float64] = (vectors[::2] * vectors[1::2]).sum(1)
    return cosines
