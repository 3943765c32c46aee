"""Word sense disambiguation: the nearest sense vector at each layer.

In: a model, SemCor, the all-words sets and WordNet. Out: F1 of each layer on each set, and of
WordNet's first sense. The method is that of context2vec, as in Peters et al. (2018), section 5.3:
the vector of a sense is the mean of its occurrences in SemCor; a word is assigned the nearest sense
of its lemma by cosine, or WordNet's first sense if the lemma is not in SemCor. They report 65.9 for
the first sense, 67.4 for layer 1 and 69.0 for layer 2.
Shapes: L+1 layers, K senses, D width.
"""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmo.api import Elmo, State
from elmo.probes.layers import Array, embed_layers, layer_names, normalize
from elmo.probes.result import ProbeResult
from elmo.probes.wsd_data import (
    ALL,
    Instance,
    SenseSentence,
    WsdSet,
    lemma_of,
    read_semcor,
    read_wsd_sets,
)
from elmo.search.wordnet.database import WordNet
from elmo.tasks.metrics import f1

FIRST_SENSE = "first sense"


@dataclass(frozen=True)
class SenseMeans:
    """The mean vectors of senses at every layer, scaled to unit length."""

    keys: list[str]
    means: NDArray[np.float32]  # (L+1, K, D)
    numbers: dict[tuple[str, str], list[int]]  # (lemma, part of speech) -> its senses

    @staticmethod
    def of(elmo: Elmo, sentences: Sequence[SenseSentence], state: State) -> "SenseMeans":
        """Compute the means over all occurrences in the sentences."""
        keys = sorted({k for s in sentences for sense in s.senses for k in sense.keys})
        number_of = {key: number for number, key in enumerate(keys)}
        sums = np.zeros((elmo.n_layers, len(keys), elmo.output_dim), dtype=np.float32)
        tokens = [sentence.tokens for sentence in sentences]
        for sentence, layers in zip(sentences, embed_layers(elmo, tokens, state), strict=True):
            for sense in sentence.senses:
                vector = layers[:, sense.start : sense.end].mean(1)  # (L+1, D)
                for key in sense.keys:
                    sums[:, number_of[key]] += vector
        numbers: defaultdict[tuple[str, str], list[int]] = defaultdict(list)
        for number, key in enumerate(keys):
            numbers[lemma_of(key)].append(number)
        return SenseMeans(keys, normalize(sums, out=sums), dict(numbers))

    def nearest(self, lemma: str, part_of_speech: str, vector: Array) -> list[str] | None:
        """The sense key nearest to a word (L+1, D) at each layer; None for an unknown lemma."""
        numbers = self.numbers.get((lemma, part_of_speech))
        if numbers is None:
            return None
        cosines = np.einsum("lkd,ld->lk", self.means[:, numbers], vector)  # up to a factor
        return [self.keys[numbers[place]] for place in cosines.argmax(1).tolist()]


@dataclass
class _Count:
    """Numbers of gold, predicted and correctly predicted senses."""

    n_gold: int = 0
    n_predicted: int = 0
    n_correct: int = 0

    def add(self, key: str | None, gold: frozenset[str]) -> None:
        self.n_gold += 1
        self.n_predicted += key is not None
        self.n_correct += key in gold

    @property
    def f1(self) -> float:
        return f1(self.n_correct, self.n_predicted, self.n_gold)


@dataclass
class _Scores:
    """Counts for each row and set."""

    counts: defaultdict[tuple[str, str], _Count] = field(
        default_factory=lambda: defaultdict(_Count)
    )

    def add(self, row: str, set_name: str, key: str | None, gold: frozenset[str]) -> None:
        for column in (set_name, ALL):
            self.counts[row, column].add(key, gold)


def measure(
    elmo: Elmo,
    semcor_path: Path,
    sets_folder: Path,
    wordnet_folder: Path,
    *,
    state: State = "fresh",
) -> ProbeResult:
    """Measure F1 of the first sense and of every layer, on each set and on all sets."""
    sets = read_wsd_sets(sets_folder)
    sentences = read_semcor(semcor_path)
    wordnet = WordNet.read(wordnet_folder)
    means = SenseMeans.of(elmo, sentences, state)
    layers = layer_names(elmo)
    scores, n_new = _Scores(), 0
    for wsd_set in sets:
        for instance, vector in _embed_instances(elmo, wsd_set, state):
            first = wordnet.first_sense(instance.lemma, instance.part_of_speech)
            nearest = means.nearest(instance.lemma, instance.part_of_speech, vector)
            n_new += nearest is None
            scores.add(FIRST_SENSE, wsd_set.name, first, instance.gold)
            for layer, row in enumerate(layers):
                key = first if nearest is None else nearest[layer]
                scores.add(row, wsd_set.name, key, instance.gold)
    columns = [*(wsd_set.name for wsd_set in sets), ALL]
    return ProbeResult(
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
            "instances": scores.counts[FIRST_SENSE, ALL].n_gold,
            "of lemmas not in SemCor": n_new,
        },
    )


def _embed_instances(elmo: Elmo, wsd_set: WsdSet, state: State) -> list[tuple[Instance, Array]]:
    """The instances of a set, with their layers (L+1, D)."""
    tokens = [sentence.tokens for sentence in wsd_set.sentences]
    return [
        (instance, layers[:, instance.start : instance.end].mean(1))
        for sentence, layers in zip(
            wsd_set.sentences, embed_layers(elmo, tokens, state), strict=True
        )
        for instance in sentence.instances
    ]
