"""Out-of-vocabulary words: whether misspelled and derived words are near the word they come from.

In: a model with a vocabulary ordered by frequency (or a file of one). Out: for words that are
misspelled and derived by rule, how often the source word is the nearest of the frequent words by
layer 0, and how often it is among the ten nearest; the same for misspelled words in a sentence by
the top layer; and how many of the words static vectors contain.
Shapes: Q queries, V candidates, D width.
"""

import random
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmo.api import Elmo, State
from elmo.errors import ConfigError
from elmo.probes.layers import Array, embed_layers, normalize
from elmo.probes.result import ProbeResult
from elmo.search.wordnet.sentences import read_examples
from elmo.tasks.metrics import percent
from elmo.text.vocabulary import RESERVED, read_list
from elmo.vectors.static import StaticVectors, static_from_words

N_FREQUENT = 20_000  # candidates for the nearest word
N_NEAREST = 10
ROWS_AT_ONCE = 512
LETTERS = "abcdefghijklmnopqrstuvwxyz"
MIN_LETTERS = 6  # of a source word; in shorter words one letter is too much of the word
SEED = 0
CORRECT = "correct spelling"
COLUMNS = (
    "in the static vectors",
    "layer 0: nearest",
    f"layer 0: in {N_NEAREST}",
    "in context: nearest",
    f"in context: in {N_NEAREST}",
)

Ranks = NDArray[np.int64]  # 0: the source word is the nearest


@dataclass(frozen=True)
class UnseenWord:
    """A word that is not in the vocabulary, and the word it comes from."""

    kind: str
    form: str
    source: str


@dataclass(frozen=True)
class Contexts:
    """Two sentences with the same word, each with the word's position."""

    query: tuple[Sequence[str], int]
    candidate: tuple[Sequence[str], int]


def measure(
    elmo: Elmo,
    *,
    vocabulary_path: Path | None = None,
    glove_path: Path | None = None,
    n_words: int = 1000,
    state: State = "fresh",
) -> ProbeResult:
    """Rank the sources of unseen words built from the `n_words` most frequent suitable words."""
    words = _vocabulary(elmo, vocabulary_path)
    frequent = words[:N_FREQUENT]
    sources = source_words(frequent, n_words)
    unseen = make_unseen(sources, words)
    static = None if glove_path is None else StaticVectors.read(glove_path)
    by_form = ranks_by_form(elmo, unseen, frequent)
    contexts = find_contexts(sources)
    queries = [
        *(UnseenWord(CORRECT, word, word) for word in contexts),
        *(word for word in unseen if word.kind in MISSPELLINGS and word.source in contexts),
    ]
    in_context = ranks_in_context(elmo, queries, contexts, state)
    rows = {
        kind: [
            _coverage(static, unseen, kind),
            *_shares(by_form, unseen, kind),
            *_shares(in_context, queries, kind),
        ]
        for kind in (CORRECT, *MISSPELLINGS, *DERIVATIONS)
    }
    return ProbeResult(
        "oov",
        "unseen words, %",
        COLUMNS,
        rows,
        {
            "state": state,
            "source words": len(sources),
            "unseen words": len(unseen),
            "candidates": len(frequent),
            "in context": len(contexts),
        },
    )


def swapped(word: str, position: int, letter: str) -> str:
    return word[:position] + word[position + 1] + word[position] + word[position + 2 :]


def dropped(word: str, position: int, letter: str) -> str:
    return word[:position] + word[position + 1 :]


def doubled(word: str, position: int, letter: str) -> str:
    return word[:position] + word[position] + word[position:]


def replaced(word: str, position: int, letter: str) -> str:
    """Replace one letter by another."""
    return word[:position] + letter + word[position + 1 :]


MISSPELLINGS: dict[str, Callable[[str, int, str], str]] = {
    "swapped": swapped,
    "dropped": dropped,
    "doubled": doubled,
    "replaced": replaced,
}
DERIVATIONS = {"un·able": "un{}able", "·ization": "{}ization", "·-like": "{}-like"}


def source_words(words: Iterable[str], n_words: int) -> list[str]:
    """The first `n_words` words that are long enough and have only English lower-case letters."""
    plain = (word for word in words if len(word) >= MIN_LETTERS and set(word) <= set(LETTERS))
    return [word for word, _ in zip(plain, range(n_words), strict=False)]


def make_unseen(sources: Sequence[str], known: Iterable[str]) -> list[UnseenWord]:
    """One word of each kind for each source word, without known words; deterministic."""
    generator = random.Random(SEED)
    known = set(known)
    unseen = []
    for word in sources:
        position, letter = generator.randrange(1, len(word) - 2), generator.choice(LETTERS)
        forms = {kind: misspell(word, position, letter) for kind, misspell in MISSPELLINGS.items()}
        forms |= {kind: pattern.format(word) for kind, pattern in DERIVATIONS.items()}
        unseen += [
            UnseenWord(kind, form, word) for kind, form in forms.items() if form not in known
        ]
    return unseen


def ranks_by_form(elmo: Elmo, unseen: Sequence[UnseenWord], frequent: Sequence[str]) -> Ranks:
    """The rank of each source word among the frequent words, by layer 0."""
    numbers = {word: number for number, word in enumerate(frequent)}
    queries = static_from_words(elmo, [word.form for word in unseen])
    rows = {word: row for row, word in enumerate(queries.words)}
    return _ranks(
        queries.vectors[[rows[word.form] for word in unseen]],
        static_from_words(elmo, frequent).vectors,
        np.array([numbers[word.source] for word in unseen], dtype=np.int64),
    )


def ranks_in_context(
    elmo: Elmo, queries: Sequence[UnseenWord], contexts: Mapping[str, Contexts], state: State
) -> Ranks:
    """The rank of each source word among all words with contexts, by the top layer.

    Query and source word are in different sentences.
    """
    numbers = {word: number for number, word in enumerate(contexts)}
    sentences, positions = [], []
    for word in queries:
        tokens, position = contexts[word.source].query
        sentences.append([*tokens[:position], word.form, *tokens[position + 1 :]])
        positions.append(position)
    candidates = [each.candidate for each in contexts.values()]
    return _ranks(
        _top_layer(elmo, sentences, positions, state),
        _top_layer(elmo, [tokens for tokens, _ in candidates], [at for _, at in candidates], state),
        np.array([numbers[word.source] for word in queries], dtype=np.int64),
    )


def find_contexts(words: Sequence[str]) -> dict[str, Contexts]:
    """Two of the package's sentences for each word that occurs in at least two."""
    wanted = set(words)
    found: dict[str, dict[tuple[str, ...], int]] = {word: {} for word in words}
    for example in read_examples():
        for position, token in enumerate(example.tokens):
            if token in wanted and len(found[token]) < 2:
                found[token].setdefault(tuple(example.tokens), position)
    return {
        word: Contexts(*sentences.items())
        for word, sentences in found.items()
        if len(sentences) == 2
    }


def _vocabulary(elmo: Elmo, path: Path | None) -> list[str]:
    if path is not None:
        words = read_list(path)
    elif elmo.model.vocabulary is not None:
        words = list(elmo.model.vocabulary.words)
    else:
        raise ConfigError(
            "this model has no vocabulary; --vocabulary names a file of words ordered by frequency"
        )
    return list(dict.fromkeys(word for word in words if word not in RESERVED))


def _top_layer(
    elmo: Elmo, sentences: Sequence[Sequence[str]], positions: Sequence[int], state: State
) -> Array:
    embedded = embed_layers(elmo, sentences, state)
    rows = [layers[-1, at] for layers, at in zip(embedded, positions, strict=True)]
    return np.stack(rows) if rows else np.empty((0, elmo.output_dim), dtype=np.float32)


def _ranks(queries: Array, candidates: Array, gold: NDArray[np.int64]) -> Ranks:
    """How many candidates (V, D) are nearer to each query (Q, D) than the gold one, by cosine."""
    queries, candidates = normalize(queries), normalize(candidates)
    ranks = np.empty(len(queries), dtype=np.int64)
    for start in range(0, len(queries), ROWS_AT_ONCE):
        part = slice(start, start + ROWS_AT_ONCE)
        cosines = queries[part] @ candidates.T  # (Q, V)
        gold_cosines = np.take_along_axis(cosines, gold[part, None], axis=1)
        ranks[part] = (cosines > gold_cosines).sum(1)
    return ranks


def _coverage(static: StaticVectors | None, words: Sequence[UnseenWord], kind: str) -> float | None:
    """The percentage of the words of a kind that have a static vector."""
    forms = [word.form for word in words if word.kind == kind]
    if static is None or not forms:
        return None
    return percent(sum(form in static for form in forms), len(forms))


def _shares(ranks: Ranks, words: Sequence[UnseenWord], kind: str) -> list[float | None]:
    """The percentages of words of a kind whose source is the nearest, and among the nearest."""
    of_kind = ranks[[word.kind == kind for word in words]]
    if not len(of_kind):
        return [None, None]
    return [percent(int((of_kind < most).sum()), len(of_kind)) for most in (1, N_NEAREST)]
