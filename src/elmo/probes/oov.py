"""Words outside of any vocabulary: whether they land near what they are made of or meant to be.

In: a model that knows the most frequent words (its vocabulary, or a file of them). Out: for words
misspelt and invented by rule, how often the nearest of the frequent words, by layer 0, is the
meant one, and how often it is among the ten nearest; the same for misspelt words in a sentence, by
the top layer; and how many of them static vectors have at all.
Shapes: Q words that are asked for, V frequent words, D width.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo.api import Elmo, State
from elmo.errors import ConfigError
from elmo.probes.features import embedded_layers
from elmo.probes.measured import Measured, percent
from elmo.probes.unseen_words import (
    INVENTIONS,
    MISSPELLINGS,
    UnseenWord,
    make_unseen,
    meant_words,
)
from elmo.search.wordnet.sentences import read_examples
from elmo.text.vocabulary import RESERVED, read_list
from elmo.vectors.static import StaticVectors, static_from_words

N_FREQUENT = 20_000  # words among which the nearest is looked for
N_NEAREST = 10
ROWS_AT_ONCE = 512
SPELT_RIGHT = "spelt right"
COLUMNS = (
    "in the static vectors",
    "layer 0: nearest",
    f"layer 0: in {N_NEAREST}",
    "in context: nearest",
    f"in context: in {N_NEAREST}",
)

Array = NDArray[Any]
Ranks = NDArray[np.int64]  # 0: the meant word is the nearest


@dataclass(frozen=True)
class Places:
    """Two sentences with a word: one it is asked for in, one it is known from; and its position."""

    asked: tuple[Sequence[str], int]
    known: tuple[Sequence[str], int]


def probe_oov(
    elmo: Elmo,
    *,
    vocabulary_path: Path | None = None,
    glove_path: Path | None = None,
    n_words: int = 1000,
    state: State = "fresh",
) -> Measured:
    """Measure the unseen words made of the `n_words` most frequent plain words."""
    words = _words(elmo, vocabulary_path)
    frequent = words[:N_FREQUENT]
    meant = meant_words(frequent, n_words)
    unseen = make_unseen(meant, words)
    static = None if glove_path is None else StaticVectors.read(glove_path)
    by_spelling = ranks_by_spelling(elmo, unseen, frequent)
    places = places_of(meant)
    right = [UnseenWord(SPELT_RIGHT, word, word) for word in places]
    asked = [*right, *(word for word in unseen if _is_misspelt(word) and word.meant in places)]
    in_context = ranks_in_context(elmo, asked, places, state)
    rows = {
        kind: [
            _covered(static, unseen, kind),
            *_shares(by_spelling, unseen, kind),
            *_shares(in_context, asked, kind),
        ]
        for kind in (SPELT_RIGHT, *MISSPELLINGS, *INVENTIONS)
    }
    return Measured(
        "oov",
        "unseen words, %",
        COLUMNS,
        rows,
        {
            "state": state,
            "meant words": len(meant),
            "unseen words": len(unseen),
            "nearest of": len(frequent),
            "in context": len(places),
        },
    )


def ranks_by_spelling(elmo: Elmo, unseen: Sequence[UnseenWord], frequent: Sequence[str]) -> Ranks:
    """The rank of the meant word among the frequent ones, by layer 0."""
    numbers = {word: number for number, word in enumerate(frequent)}
    asked = static_from_words(elmo, [word.written for word in unseen])
    rows = {word: row for row, word in enumerate(asked.words)}
    return _ranks(
        asked.vectors[[rows[word.written] for word in unseen]],
        static_from_words(elmo, frequent).vectors,
        np.array([numbers[word.meant] for word in unseen], dtype=np.int64),
    )


def ranks_in_context(
    elmo: Elmo, asked: Sequence[UnseenWord], places: Mapping[str, Places], state: State
) -> Ranks:
    """The rank of the meant word among all that have places, each in a sentence of its own.

    The word that is asked for stands in another sentence of the meant word.
    """
    numbers = {word: number for number, word in enumerate(places)}
    sentences, positions = [], []
    for word in asked:
        tokens, position = places[word.meant].asked
        sentences.append([*tokens[:position], word.written, *tokens[position + 1 :]])
        positions.append(position)
    known = [place.known for place in places.values()]
    return _ranks(
        _top_layer(elmo, sentences, positions, state),
        _top_layer(elmo, [tokens for tokens, _ in known], [at for _, at in known], state),
        np.array([numbers[word.meant] for word in asked], dtype=np.int64),
    )


def places_of(words: Sequence[str]) -> dict[str, Places]:
    """Two sentences of the package for each word that stands in two or more."""
    wanted = set(words)
    found: dict[str, dict[tuple[str, ...], int]] = {word: {} for word in words}
    for example in read_examples():
        for position, token in enumerate(example.tokens):
            if token in wanted and len(found[token]) < 2:
                found[token].setdefault(tuple(example.tokens), position)
    return {
        word: Places(*sentences.items()) for word, sentences in found.items() if len(sentences) == 2
    }


def _words(elmo: Elmo, path: Path | None) -> list[str]:
    if path is not None:
        words = read_list(path)
    elif elmo.model.vocabulary is not None:
        words = list(elmo.model.vocabulary.words)
    else:
        raise ConfigError(
            "this model has no vocabulary, expected words by falling frequency; name a file that "
            "has one a line, with --vocabulary"
        )
    return list(dict.fromkeys(word for word in words if word not in RESERVED))


def _is_misspelt(word: UnseenWord) -> bool:
    return word.kind in MISSPELLINGS


def _top_layer(
    elmo: Elmo, sentences: Sequence[Sequence[str]], positions: Sequence[int], state: State
) -> Array:
    found = embedded_layers(elmo, sentences, state)
    rows = [layers[-1, at] for layers, at in zip(found, positions, strict=True)]
    return np.stack(rows) if rows else np.empty((0, elmo.output_dim), dtype=np.float32)


def _ranks(asked: Array, known: Array, meant: NDArray[np.int64]) -> Ranks:
    """How many of `known` (V, D) are nearer to each asked vector (Q, D) than the meant one."""
    asked, known = _normed(asked), _normed(known)
    ranks = np.empty(len(asked), dtype=np.int64)
    for start in range(0, len(asked), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        cosines = asked[part] @ known.T  # (Q, V)
        of_meant = np.take_along_axis(cosines, meant[part, None], axis=1)
        ranks[part] = (cosines > of_meant).sum(1)
    return ranks


def _normed(vectors: Array) -> Array:
    lengths = np.linalg.norm(vectors, axis=1, keepdims=True)
    normed: Array = vectors / np.where(lengths > 0, lengths, 1)
    return normed


def _covered(static: StaticVectors | None, words: Sequence[UnseenWord], kind: str) -> float | None:
    """The share of a kind's words that have a static vector."""
    some = [word.written for word in words if word.kind == kind]
    if static is None or not some:
        return None
    return percent(sum(word in static for word in some), len(some))


def _shares(ranks: Ranks, words: Sequence[UnseenWord], kind: str) -> list[float | None]:
    """Shares of a kind's words with the meant one nearest, and in the ten nearest."""
    some = ranks[[word.kind == kind for word in words]]
    if not len(some):
        return [None, None]
    return [percent(int((some < most).sum()), len(some)) for most in (1, N_NEAREST)]
