"""Parts of speech: what a linear classifier on each frozen layer knows of them.

In: a model, tagged sentences to learn from and others to test on. Out: accuracies of each layer; of
static vectors; and of always giving a word the tag that it most often had.
Peters et al. (2018), 5.3: the first layer knows them better than the second, for syntax sits lower.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from elmo.api import Elmo, State
from elmo.probes.conllu import TaggedSentence, Tags, read_tagged
from elmo.probes.features import embed_tokens
from elmo.probes.linear import train_linear
from elmo.probes.measured import Measured, percent
from elmo.vectors.static import StaticVectors

Sentences = Sequence[TaggedSentence]


def probe_pos(
    elmo: Elmo,
    train_path: Path,
    test_path: Path,
    *,
    glove_path: Path | None = None,
    tags: Tags = "xpos",
    state: State = "fresh",
) -> Measured:
    """Learn tags from one file and test on the other, for each layer."""
    train, test = read_tagged(train_path, tags), read_tagged(test_path, tags)
    static = None if glove_path is None else StaticVectors.read(glove_path)
    learned, tested = _tokens(train), _tokens(test)
    numbers = {tag: k for k, tag in enumerate(sorted(set(_tags(train))))}
    classes, gold = _classes(train, numbers), _classes(test, numbers)
    rows = {"commonest tag of the word": _commonest_tag(train, test)}
    if static is not None:
        probe = train_linear(static.lookup(learned), classes, len(numbers))
        rows["static vectors"] = probe.accuracy(static.lookup(tested), gold)
    known = embed_tokens(elmo, [sentence.tokens for sentence in train], state)
    asked = embed_tokens(elmo, [sentence.tokens for sentence in test], state)
    for layer in range(elmo.n_layers):
        probe = train_linear(known[layer], classes, len(numbers))
        rows[f"layer {layer}"] = probe.accuracy(asked[layer], gold)
    return Measured(
        "pos",
        "part of speech, accuracy in %",
        ("accuracy",),
        {name: (percent(accuracy, 1),) for name, accuracy in rows.items()},
        {
            "tags": tags,
            "state": state,
            "words to learn from": len(learned),
            "tested": len(tested),
            "different tags": len(numbers),
        },
    )


def _commonest_tag(train: Sentences, test: Sentences) -> float:
    """The accuracy of the tag that a word most often had; for a new word, that all words had."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for word, tag in zip(_tokens(train), _tags(train), strict=True):
        counts[word][tag] += 1
    overall = Counter(_tags(train)).most_common(1)[0][0]
    guessed = (
        counts[word].most_common(1)[0][0] if word in counts else overall for word in _tokens(test)
    )
    right = [guess == tag for guess, tag in zip(guessed, _tags(test), strict=True)]
    return sum(right) / len(right)


def _tokens(sentences: Sentences) -> list[str]:
    return [token for sentence in sentences for token in sentence.tokens]


def _tags(sentences: Sentences) -> list[str]:
    return [tag for sentence in sentences for tag in sentence.tags]


def _classes(sentences: Sentences, numbers: dict[str, int]) -> NDArray[np.int64]:
    """The number of each token's tag; -1, which is never predicted, for one not learned."""
    return np.array([numbers.get(tag, -1) for tag in _tags(sentences)], dtype=np.int64)
