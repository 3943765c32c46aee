"""Word senses: whether the nearest sense by each layer is the right one.

In: a model, SemCor, the all-words sets and WordNet. Out: F1 of each layer on each set, beside that
of always taking WordNet's first sense.
The method is context2vec's, as Peters et al. (2018), 5.3, took it: a sense is the mean of its
occurrences in SemCor; of the senses that a lemma has there the nearest by cosine is taken, and for
a lemma that is not there WordNet's first. They report 65.9 for the first sense, 67.4 for layer 1
and 69.0 for layer 2: meaning sits higher.
Shapes: L+1 layers, K senses, D width.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo.api import Elmo, State
from elmo.probes.features import embedded_layers
from elmo.probes.measured import Measured, percent
from elmo.probes.semcor import SenseSentence, lemma_of, read_semcor
from elmo.probes.wsd_sets import ALL, Instance, WsdSet, read_wsd_sets
from elmo.search.wordnet.database import WordNet

Array = NDArray[Any]
FIRST_SENSE = "first sense"


@dataclass(frozen=True)
class SenseMeans:
    """The mean vectors of senses, at every layer, made to be one long."""

    keys: list[str]
    means: NDArray[np.float32]  # (L+1, K, D)
    numbers: dict[tuple[str, str], list[int]]  # of the senses of (lemma, part of speech)

    @staticmethod
    def of(elmo: Elmo, sentences: Sequence[SenseSentence], state: State) -> "SenseMeans":
        """The means over all occurrences in sentences."""
        keys = sorted({k for s in sentences for sense in s.senses for k in sense.keys})
        number_of = {key: number for number, key in enumerate(keys)}
        sums = np.zeros((elmo.n_layers, len(keys), elmo.output_dim), dtype=np.float32)
        tokens = [sentence.tokens for sentence in sentences]
        for sentence, layers in zip(sentences, embedded_layers(elmo, tokens, state), strict=True):
            for sense in sentence.senses:
                vector = layers[:, sense.start : sense.end].mean(1)  # (L+1, D)
                for key in sense.keys:
                    sums[:, number_of[key]] += vector
        numbers: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        for number, key in enumerate(keys):
            numbers[lemma_of(key)].append(number)
        return SenseMeans(keys, _normed(sums), dict(numbers))

    def nearest(self, lemma: str, part_of_speech: str, vector: Array) -> list[str] | None:
        """The key nearest to a word's layers (L+1, D), for each layer; none for a new lemma."""
        numbers = self.numbers.get((lemma, part_of_speech))
        if numbers is None:
            return None
        cosines = np.einsum("lkd,ld->lk", self.means[:, numbers], vector)  # up to a factor
        return [self.keys[numbers[place]] for place in cosines.argmax(1).tolist()]


@dataclass
class _Count:
    """How often a sense was asked for, given, and right."""

    n_asked: int = 0
    n_given: int = 0
    n_right: int = 0

    def add(self, key: str | None, gold: frozenset[str]) -> None:
        self.n_asked += 1
        self.n_given += key is not None
        self.n_right += key in gold

    @property
    def f1(self) -> float:
        """The harmonic mean of the shares of right ones among those given and those asked."""
        n_both = self.n_asked + self.n_given
        return percent(2 * self.n_right, n_both) if n_both else 0.0


@dataclass
class _Scores:
    """Counts by the name of a row and of a set."""

    counts: defaultdict[tuple[str, str], _Count] = field(
        default_factory=lambda: defaultdict(_Count)
    )

    def add(self, row: str, set_name: str, key: str | None, gold: frozenset[str]) -> None:
        for column in (set_name, ALL):
            self.counts[row, column].add(key, gold)


def probe_wsd(
    elmo: Elmo,
    semcor_path: Path,
    sets_folder: Path,
    wordnet_folder: Path,
    *,
    state: State = "fresh",
) -> Measured:
    """F1 of the first sense and of every layer, on every set and on all."""
    sets = read_wsd_sets(sets_folder)
    sentences = read_semcor(semcor_path)
    wordnet = WordNet.read(wordnet_folder)
    means = SenseMeans.of(elmo, sentences, state)
    layers = [f"layer {layer}" for layer in range(elmo.n_layers)]
    scores, n_new = _Scores(), 0
    for wsd_set in sets:
        for instance, vector in _asked(elmo, wsd_set, state):
            first = wordnet.first_sense(instance.lemma, instance.part_of_speech)
            nearest = means.nearest(instance.lemma, instance.part_of_speech, vector)
            n_new += nearest is None
            scores.add(FIRST_SENSE, wsd_set.name, first, instance.gold)
            for layer, row in enumerate(layers):
                key = first if nearest is None else nearest[layer]
                scores.add(row, wsd_set.name, key, instance.gold)
    columns = [*(wsd_set.name for wsd_set in sets), ALL]
    return Measured(
        "wsd",
        "word sense, F1 in %",
        columns,
        {
            row: [scores.counts[row, column].f1 for column in columns]
            for row in (FIRST_SENSE, *layers)
        },
        {
            "state": state,
            "senses": len(means.keys),
            "instances": scores.counts[FIRST_SENSE, ALL].n_asked,
            "of lemmas not in SemCor": n_new,
        },
    )


def _asked(elmo: Elmo, wsd_set: WsdSet, state: State) -> list[tuple[Instance, Array]]:
    """The instances of a set, with their layers (L+1, D)."""
    tokens = [sentence.tokens for sentence in wsd_set.sentences]
    return [
        (instance, layers[:, instance.start : instance.end].mean(1))
        for sentence, layers in zip(
            wsd_set.sentences, embedded_layers(elmo, tokens, state), strict=True
        )
        for instance in sentence.instances
    ]


def _normed(vectors: NDArray[np.float32]) -> NDArray[np.float32]:
    lengths = np.linalg.norm(vectors, axis=-1, keepdims=True)
    normed: NDArray[np.float32] = np.divide(vectors, lengths, where=lengths > 0, out=vectors)
    return normed
