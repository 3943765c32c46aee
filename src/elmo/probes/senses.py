"""Senses of neighbors: whether the nearest other occurrence of a word has the same sense.

In: a model; the sentences are the package's own. Out: for each layer the share of occurrences whose
nearest other occurrence of the same written word has the same sense: over WordNet's examples, and
word by word over the few that were written for this. Without context all occurrences of a word are
alike, so layer 0 is chance.
Shapes: N occurrences of a word, L+1 layers, D width.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo.api import Elmo, State
from elmo.probes.features import embedded_layers
from elmo.probes.measured import Measured, percent
from elmo.search.wordnet.sentences import SenseExample, read_examples, read_written

FEWEST_OF_A_SENSE = 2  # a single occurrence has no other one of its sense
FEWEST_SENSES = 2
SAME = 1e-5  # cosines that differ by less are equal but for rounding

WORDNET = "WordNet's examples"
CHANCE = "chance"

Array = NDArray[Any]


@dataclass(frozen=True)
class Share:
    """How often the nearest had the same sense, and how often any other would, in %."""

    n_occurrences: int
    chance: float
    by_layer: list[float]


def probe_senses(elmo: Elmo, *, state: State = "fresh") -> Measured:
    """Shares for WordNet's examples, and for each of the words that we wrote sentences for."""
    groups = words_of_several_senses(read_examples())
    shares = {WORDNET: measure(elmo, groups, state)}
    for group in words_of_several_senses(read_written()):
        shares[group[0].word] = measure(elmo, [group], state)
    layers = range(elmo.n_layers)
    return Measured(
        "senses",
        "nearest of the same sense, %",
        list(shares),
        {
            CHANCE: [share.chance for share in shares.values()],
            **{f"layer {k}": [share.by_layer[k] for share in shares.values()] for k in layers},
        },
        {
            "state": state,
            "words": len(groups),
            "occurrences": shares[WORDNET].n_occurrences,
            "occurrences of our own": sum(
                share.n_occurrences for name, share in shares.items() if name != WORDNET
            ),
        },
    )


def words_of_several_senses(examples: Sequence[SenseExample]) -> list[list[SenseExample]]:
    """The examples of each written word that has several senses with several examples each.

    A sentence that stands for two senses of the same word shows neither, and is left out.
    """
    meanings = Counter((tuple(example.tokens), example.position) for example in examples)
    by_word: defaultdict[str, list[SenseExample]] = defaultdict(list)
    for example in examples:
        if meanings[tuple(example.tokens), example.position] == 1:
            by_word[example.word].append(example)
    groups = []
    for same_word in by_word.values():
        counts = Counter(example.key for example in same_word)
        kept = [example for example in same_word if counts[example.key] >= FEWEST_OF_A_SENSE]
        if len({example.key for example in kept}) >= FEWEST_SENSES:
            groups.append(kept)
    return groups


def measure(elmo: Elmo, groups: Sequence[Sequence[SenseExample]], state: State) -> Share:
    """The shares over the occurrences of all groups."""
    tokens = [example.tokens for group in groups for example in group]
    found = iter(embedded_layers(elmo, tokens, state))
    right, chance, n_occurrences = np.zeros(elmo.n_layers), 0.0, 0
    for group in groups:
        layers = np.stack(
            [next(found)[:, example.position] for example in group], axis=1
        )  # (L+1, N, D)
        keys = np.array([example.key for example in group])
        is_same = keys[:, None] == keys  # (N, N)
        right += [same_among_nearest(vectors, is_same) for vectors in layers]
        chance += (is_same.sum() - len(group)) / (len(group) - 1)
        n_occurrences += len(group)
    return Share(
        n_occurrences,
        percent(chance, n_occurrences),
        [percent(share, n_occurrences) for share in right.tolist()],
    )


def same_among_nearest(vectors: Array, is_same: NDArray[np.bool_]) -> float:
    """For how many vectors (N, D) the nearest other one is the same; of several as near, a part."""
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    normed = vectors / np.where(lengths > 0, lengths, 1)
    cosines = normed @ normed.T  # (N, N)
    np.fill_diagonal(cosines, -np.inf)
    is_nearest = cosines >= cosines.max(1, keepdims=True) - SAME
    return float(((is_nearest & is_same).sum(1) / is_nearest.sum(1)).sum())
