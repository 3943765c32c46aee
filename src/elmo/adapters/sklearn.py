"""scikit-learn: transformers from text to vectors, for a Pipeline.

In: texts or tokenized sentences (`SentenceVectorizer`), or words in their sentences
(`TokenFeatures`). Out: an array with a row for each. An estimator holds the path or name of its
model and settings, never weights: clones, pickles and `save` are small, and open the model again
where they are used.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
from numpy.typing import NDArray

from elmo.adapters import open_model
from elmo.errors import ConfigError, DataError, needs_extra
from elmo.files.atomic import write_json
from elmo.inference.results import Embedded, Layers
from elmo.models import ENGLISH
from elmo.text.inputs import check_tokens

with needs_extra("sklearn"):
    from sklearn.base import BaseEstimator, ClassNamePrefixFeaturesOutMixin, TransformerMixin

Array = NDArray[np.floating[Any]]
Occurrence = tuple[Sequence[str], int]  # a sentence, and the position of a word in it


class _ElmoTransformer(ClassNamePrefixFeaturesOutMixin, TransformerMixin, BaseEstimator):
    """The base class of both transformers."""

    model: str | Path

    def fit(self, texts: object = None, y: object = None) -> Self:
        """Load the model, so that a wrong path is reported early; nothing is trained."""
        open_model(self.model)
        return self

    def save(self, path: str | Path) -> None:
        """Write the settings as JSON; the model stays where it is."""
        settings = {name: _plain(value) for name, value in self.get_params().items()}
        write_json(Path(path), settings)

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """Load a transformer that `save` wrote."""
        try:
            settings = json.loads(Path(path).read_text(encoding="utf-8"))
            return cls(**settings)
        except (OSError, ValueError, TypeError) as error:
            raise ConfigError(
                f"{path}: no settings of a {cls.__name__} ({error}), expected what its `save` wrote"
            ) from error

    @property
    def _n_features_out(self) -> int:
        return open_model(self.model).output_dim

    def __sklearn_tags__(self) -> Any:  # noqa: ANN401 - scikit-learn's own
        tags = super().__sklearn_tags__()
        tags.requires_fit = False
        tags.input_tags.string, tags.input_tags.two_d_array = True, False
        return tags


class SentenceVectorizer(_ElmoTransformer):
    """Texts -> one vector each: the mean or the maximum of their tokens' vectors."""

    def __init__(
        self,
        model: str | Path = ENGLISH,
        *,
        layers: Layers = "average",
        pooling: Literal["mean", "max"] = "mean",
        is_tokenized: bool = False,
    ) -> None:
        self.model = model
        self.layers = layers
        self.pooling = pooling
        self.is_tokenized = is_tokenized

    def transform(self, texts: Iterable[Any]) -> Array:
        """Texts, or token lists if `is_tokenized`, -> (n, D)."""
        if isinstance(texts, str):
            raise DataError(f"the texts are one str, {texts[:40]!r}, expected a list of texts")
        elmo = open_model(self.model)
        # A batch may by chance have only texts of one word, which `stream` refuses by default.
        stream: Iterator[Embedded] = (
            elmo.stream_tokens(texts)
            if self.is_tokenized
            else elmo.stream(texts, single_words=True)
        )
        rows = [embedded.pooled(self.pooling, self.layers) for embedded in stream]
        return np.array(rows, dtype=np.float32).reshape(len(rows), elmo.output_dim)


class TokenFeatures(_ElmoTransformer):
    """Words in their sentences -> one vector each; `occurrences` creates the input."""

    def __init__(self, model: str | Path = ENGLISH, *, layers: Layers = "average") -> None:
        self.model = model
        self.layers = layers

    def transform(self, words: Iterable[Occurrence]) -> Array:
        """Pairs of a sentence's tokens and a position in it -> (n, D).

        Words of the same sentence should be adjacent: the sentence is then embedded only once.
        """
        elmo = open_model(self.model)
        sentences = [
            (tokens, [place for _, place in group])
            for tokens, group in groupby(words, key=_tokens_of)
        ]
        rows: list[Array] = []
        stream = elmo.stream_tokens([tokens for tokens, _ in sentences])
        for embedded, (_, places) in zip(stream, sentences, strict=True):
            _check_places(places, embedded.tokens)
            rows.extend(embedded.vectors(self.layers)[places])
        return np.array(rows, dtype=np.float32).reshape(len(rows), elmo.output_dim)


def occurrences(sentences: Iterable[Sequence[str]]) -> Iterator[Occurrence]:
    """Every word of the sentences as a pair of sentence and position, for `TokenFeatures`."""
    for tokens in sentences:
        for place in range(len(tokens)):
            yield tokens, place


def _tokens_of(word: Occurrence) -> tuple[str, ...]:
    check_tokens(word[0])
    return tuple(word[0])


def _check_places(places: list[int], tokens: list[str]) -> None:
    outside = [place for place in places if not 0 <= place < len(tokens)]
    if outside:
        raise DataError(
            f"position {outside[0]} in the sentence {' '.join(tokens)[:40]!r}, expected 0 to "
            f"{len(tokens) - 1}"
        )


def _plain(value: object) -> object:
    if isinstance(value, np.ndarray):
        return value.tolist()
    return str(value) if isinstance(value, Path) else value
