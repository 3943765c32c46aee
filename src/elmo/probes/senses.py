"""Senses of neighbors: whether the nearest other occurrence of a word has the same sense.

In: a model; the sentences are the package's own. Out: the percentage of occurrences whose nearest
other occurrence of the same word form has the same sense, for each layer: over WordNet's examples,
and for a few words with sentences of our own. Layer 0 has no context, so it is at chance.
Shapes: N occurrences of a word, L+1 layers, D width.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from elmo.api import Elmo, State
from elmo.probes.layers import Array, embed_layers, layer_names, normalize
from elmo.probes.result import ProbeResult
from elmo.search.wordnet.sentences import SenseExample, read_examples, read_written
from elmo.tasks.metrics import percent

MIN_OCCURRENCES = 2  # of a sense: a single occurrence has no other one of its sense
MIN_SENSES = 2
TOLERANCE = 1e-5  # cosines that differ by less are a tie

WORDNET = "WordNet's examples"
CHANCE = "chance"


@dataclass(frozen=True)
class SameSense:
    """How often the nearest and a random other occurrence have the same sense, in percent."""

    n_occurrences: int
    chance: float
    by_layer: list[float]


def measure(elmo: Elmo, *, state: State = "fresh") -> ProbeResult:
    """Compare occurrences in WordNet's examples, and in our sentences for a few words."""
    groups = words_of_several_senses(read_examples())
    shares = {WORDNET: compare_nearest(elmo, groups, state)}
    for group in words_of_several_senses(read_written()):
        shares[group[0].word] = compare_nearest(elmo, [group], state)
    return ProbeResult(
        "senses",
        "nearest of the same sense, %",
        list(shares),
        {
            CHANCE: [share.chance for share in shares.values()],
            **{
                name: [share.by_layer[layer] for share in shares.values()]
                for layer, name in enumerate(layer_names(elmo))
            },
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
    """The examples of each word form that has several senses with several examples each.

    A sentence that is an example of two senses of the word is left out.
    """
    meanings = Counter((tuple(example.tokens), example.position) for example in examples)
    by_word: defaultdict[str, list[SenseExample]] = defaultdict(list)
    for example in examples:
        if meanings[tuple(example.tokens), example.position] == 1:
            by_word[example.word].append(example)
    groups = []
    for same_word in by_word.values():
        counts = Counter(example.key for example in same_word)
        kept = [example for example in same_word if counts[example.key] >= MIN_OCCURRENCES]
        if len({example.key for example in kept}) >= MIN_SENSES:
            groups.append(kept)
    return groups


def compare_nearest(
    elmo: Elmo, groups: Sequence[Sequence[SenseExample]], state: State
) -> SameSense:
    """Compare the occurrences within each group; the result covers all groups."""
    tokens = [example.tokens for group in groups for example in group]
    embedded = iter(embed_layers(elmo, tokens, state))
    n_same, chance, n_occurrences = np.zeros(elmo.n_layers), 0.0, 0
    for group in groups:
        layers = np.stack(
            [next(embedded)[:, example.position] for example in group], axis=1
        )  # (L+1, N, D)
        keys = np.array([example.key for example in group])
        is_same = keys[:, None] == keys  # (N, N)
        n_same += [count_same_sense(vectors, is_same) for vectors in layers]
        chance += (is_same.sum() - len(group)) / (len(group) - 1)
        n_occurrences += len(group)
    return SameSense(
        n_occurrences,
        percent(chance, n_occurrences),
        [percent(share, n_occurrences) for share in n_same.tolist()],
    )


def count_same_sense(vectors: Array, is_same: NDArray[np.bool_]) -> float:
    """Count the vectors (N, D) whose nearest other has the same sense; ties count fractionally."""
    normalized = normalize(vectors)
    cosines = normalized @ normalized.T  # (N, N)
    np.fill_diagonal(cosines, -np.inf)
    is_nearest = cosines >= cosines.max(1, keepdims=True) - TOLERANCE
    return float(((is_nearest & is_same).sum(1) / is_nearest.sum(1)).sum())
