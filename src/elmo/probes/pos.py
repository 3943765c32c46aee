"""Parts of speech: the accuracy of a linear classifier on each frozen layer.

In: a model, and CoNLL-U files for training and testing. Out: accuracy of each layer, of static
vectors, and of each word's most frequent tag.
Peters et al. (2018), section 5.3: layer 1 (97.3) is better than layer 2 (96.8), as syntax is
represented in lower layers.
"""

import warnings
from collections import Counter, defaultdict
from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np
from numpy.typing import NDArray

from elmo.api import Elmo, State
from elmo.errors import DataError, needs_extra
from elmo.probes.layers import Array, embed_tokens, layer_names
from elmo.probes.result import ProbeResult
from elmo.tasks.metrics import accuracy
from elmo.tasks.tagging.data import (
    CONLLU_UPOS,
    CONLLU_XPOS,
    TaggedSentence,
    TaggingDataConfig,
    read_tagged,
)
from elmo.vectors.static import StaticVectors

Tags = Literal["upos", "xpos"]  # universal, or the treebank's own (Penn's in English)
TAG_COLUMNS: dict[Tags, int] = {"upos": CONLLU_UPOS, "xpos": CONLLU_XPOS}

MAX_ITERATIONS = 250


def measure(
    elmo: Elmo,
    train_path: Path,
    test_path: Path,
    *,
    glove_path: Path | None = None,
    tags: Tags = "xpos",
    state: State = "fresh",
) -> ProbeResult:
    """Train a classifier on each layer of one file, and test it on the other."""
    config = TaggingDataConfig(format="conllu", label_column=TAG_COLUMNS[tags], has_spans=False)
    with needs_extra("probes"):
        import sklearn  # noqa: F401  (fail before embedding)
    train, test = read_tagged(train_path, config), read_tagged(test_path, config)
    static = None if glove_path is None else StaticVectors.read(glove_path)
    train_words, test_words = _words(train), _words(test)
    train_tags, test_tags = _tags(train), _tags(test)
    if len(set(train_tags)) < 2:
        raise DataError(
            f"{train_path}: {len(set(train_tags))} different tags in column {tags}, expected at "
            "least 2; try --tags upos or xpos"
        )
    rows = {"most frequent tag": _most_frequent_tag(train_words, train_tags, test_words)}
    if static is not None:
        vectors = static.lookup(train_words), static.lookup(test_words)
        rows["static vectors"] = classify(vectors[0], train_tags, vectors[1])
    train_layers = embed_tokens(elmo, [sentence.tokens for sentence in train], state)
    test_layers = embed_tokens(elmo, [sentence.tokens for sentence in test], state)
    for layer, name in enumerate(layer_names(elmo)):
        rows[name] = classify(train_layers[layer], train_tags, test_layers[layer])
    return ProbeResult(
        "pos",
        "part of speech, accuracy in %",
        ("accuracy",),
        {name: (accuracy(test_tags, predicted),) for name, predicted in rows.items()},
        {
            "tags": tags,
            "state": state,
            "training words": len(train_words),
            "test words": len(test_words),
            "different tags": len(set(train_tags)),
        },
    )


def classify(train: Array, labels: Sequence[str], test: Array) -> list[str]:
    """Predict the labels of test vectors by logistic regression on standardized vectors."""
    from sklearn.exceptions import ConvergenceWarning
    from sklearn.linear_model import LogisticRegression
    from sklearn.preprocessing import StandardScaler

    scaler = StandardScaler(copy=False)
    classifier = LogisticRegression(max_iter=MAX_ITERATIONS)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        classifier.fit(scaler.fit_transform(_to_float32(train)), labels)
    return list(map(str, classifier.predict(scaler.transform(_to_float32(test)))))


def _to_float32(vectors: Array) -> NDArray[np.float32]:
    return vectors.astype(np.float32)  # a copy, which is standardized in place


def _most_frequent_tag(
    train_words: Sequence[str], train_tags: Sequence[str], test_words: Sequence[str]
) -> list[str]:
    """The most frequent tag of each word, or of all words for an unseen word."""
    counts: defaultdict[str, Counter[str]] = defaultdict(Counter)
    for word, tag in zip(train_words, train_tags, strict=True):
        counts[word][tag] += 1
    overall = Counter(train_tags).most_common(1)[0][0]
    return [counts[word].most_common(1)[0][0] if word in counts else overall for word in test_words]


def _words(sentences: Sequence[TaggedSentence]) -> list[str]:
    return [token for sentence in sentences for token in sentence.tokens]


def _tags(sentences: Sequence[TaggedSentence]) -> list[str]:
    return [tag for sentence in sentences for tag in sentence.labels or ()]
