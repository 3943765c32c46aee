"""Coarse-grained word sense disambiguation: the nearest class average at each layer.

In: a model, and the folder of CoarseWSD-20 (Loureiro et al. 2021), with a folder for each word:
train.data.txt and test.data.txt with `position, sentence` per line, train.gold.txt and
test.gold.txt with a class number per line. Out: accuracy for each layer and their average, over all
test sentences and as the mean over words; the baseline is the most frequent class.
Shapes: N sentences, C classes, D width.
"""

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmo.api import Elmo, State
from elmo.errors import DataError
from elmo.files.text_files import read_lines
from elmo.probes.layers import Array, embed_targets, normalize, target_names
from elmo.probes.result import ProbeResult
from elmo.tasks.metrics import accuracy

MOST_FREQUENT = "most frequent class"


@dataclass(frozen=True, slots=True)
class ClassifiedSentence:
    """A sentence, the position of its target word, and the class of the word."""

    tokens: tuple[str, ...]
    position: int
    label: str


def measure(elmo: Elmo, folder: Path, *, state: State = "fresh") -> ProbeResult:
    """Classify the test sentences of each word by the averages of its training sentences."""
    words = read_words(folder)
    names = [MOST_FREQUENT, *target_names(elmo)]
    gold: list[list[str]] = []
    predicted: dict[str, list[list[str]]] = {name: [] for name in names}
    n_train = 0
    for word in words:
        train, test = (read_sentences(folder / word, part) for part in ("train", "test"))
        n_train += len(train)
        labels = [sentence.label for sentence in train]
        gold.append([sentence.label for sentence in test])
        predicted[MOST_FREQUENT].append([Counter(labels).most_common(1)[0][0]] * len(test))
        train_vectors, test_vectors = _embed(elmo, train, state), _embed(elmo, test, state)
        for name, known, asked in zip(names[1:], train_vectors, test_vectors, strict=True):
            predicted[name].append(nearest_average(known, labels, asked))
    return ProbeResult(
        "coarse-wsd",
        "coarse word senses, accuracy in %",
        ("all sentences", "mean over words"),
        {name: _scores(gold, predicted[name]) for name in names},
        {
            "state": state,
            "words": len(words),
            "training sentences": n_train,
            "test sentences": sum(map(len, gold)),
        },
    )


def read_words(folder: Path) -> list[str]:
    """The words of the dataset, by their folders."""
    words = sorted(path.parent.name for path in folder.glob("*/train.data.txt"))
    if not words:
        raise DataError(
            f"{folder}: no words, expected a folder for each, with train.data.txt, train.gold.txt, "
            "test.data.txt and test.gold.txt"
        )
    return words


def read_sentences(folder: Path, part: str) -> list[ClassifiedSentence]:
    """The training or test sentences of a word."""
    path = folder / f"{part}.data.txt"
    lines = [(f"{path}:{k}", line) for k, line in enumerate(read_lines(path), start=1) if line]
    labels = [line.strip() for line in read_lines(folder / f"{part}.gold.txt") if line]
    if not lines or len(lines) != len(labels):
        raise DataError(
            f"{path}: {len(lines)} sentences and {len(labels)} labels, expected at least one "
            "sentence and one label per sentence"
        )
    sentences = []
    for (where, line), label in zip(lines, labels, strict=True):
        position, _, text = line.partition("\t")
        tokens = tuple(text.split())
        if not position.isdecimal() or int(position) >= len(tokens):
            raise DataError(f"{where}: {line[:40]!r}, expected position<TAB>sentence")
        sentences.append(ClassifiedSentence(tokens, int(position), label))
    return sentences


def nearest_average(train: Array, labels: Sequence[str], test: Array) -> list[str]:
    """For each test vector (N, D), the class whose mean training vector is nearest by cosine."""
    classes = sorted(set(labels))
    numbers = np.array([classes.index(label) for label in labels])
    averages = np.stack([train[numbers == k].mean(0) for k in range(len(classes))])  # (C, D)
    nearest = (normalize(test) @ normalize(averages).T).argmax(1)
    return [classes[k] for k in nearest.tolist()]


def _embed(
    elmo: Elmo, sentences: Sequence[ClassifiedSentence], state: State
) -> NDArray[np.float32]:
    tokens = [sentence.tokens for sentence in sentences]
    return embed_targets(elmo, tokens, [sentence.position for sentence in sentences], state)


def _scores(gold: Sequence[list[str]], predicted: Sequence[list[str]]) -> list[float]:
    by_word = [accuracy(*each) for each in zip(gold, predicted, strict=True)]
    return [accuracy(chain(*gold), chain(*predicted)), float(np.mean(by_word))]
