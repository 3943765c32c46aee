"""Search for neighbors in the package's own sentences, if no other text is given.

In: a model. Out: the same results as from a `WordIndex`. There are too many sentences to embed all
of them at every start, and too few to justify a folder of vectors: the sentences with a word are
embedded when the word is searched for. Searches for any word use a sample of the sentences, which
is embedded once.
Shapes: N occurrences, L+1 layers, D width, P projection.
"""

from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import chain
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from numpy.typing import NDArray

from elmo.inference.occurrence import Occurrence
from elmo.inference.results import Layers, one_mix
from elmo.search.index import Neighbor, SimilarWord, check_k
from elmo.search.wordnet.sentences import read_examples, read_written

if TYPE_CHECKING:
    from elmo.api import Elmo

# One processor embeds about this many in a second with a small model.
MOST_SENTENCES_WITH_A_WORD = 1000
SENTENCES_FOR_ANY_WORD = 1000
N_WORDS = 5000  # the most frequent words, which are searched without context
N_REMEMBERED = 32  # words whose embedded sentences are cached

Array = NDArray[Any]


@dataclass(frozen=True)
class _Occurrences:
    """Occurrences of words, and their layers."""

    occurrences: list[Occurrence]
    layers: NDArray[np.float32]  # (L+1, N, D)


class ExampleIndex:
    """An index of sentences that are embedded when one of their words is searched for."""

    def __init__(self, elmo: "Elmo", sentences: Sequence[Sequence[str]] | None = None) -> None:
        """Index `sentences`, by default the package's own."""
        elmo.model.refuse_alignment("search for words", 0)  # its word vectors are not aligned
        self.sentences = default_sentences() if sentences is None else sentences
        self.projection_dim = elmo.bilm.config.lstm.projection_dim
        self._elmo = elmo
        self._numbers: defaultdict[str, list[int]] = defaultdict(list)
        for number, tokens in enumerate(self.sentences):
            for word in {token.casefold() for token in tokens}:
                self._numbers[word].append(number)
        self._with_word = lru_cache(N_REMEMBERED)(self._embed_with_word)

    def __len__(self) -> int:
        """The number of tokens that can be found."""
        return sum(map(len, self.sentences))

    def search_tokens(self, word: str | None) -> int:
        """Number of tokens, with boundaries, that the first search for `word` (or any) embeds."""
        return sum(len(tokens) + 2 for tokens in self._searched(word))

    def mix_weights(self, mix: Layers, *, any_word: bool) -> NDArray[np.float32]:
        """The weights (L+1,) of a mix of layers; any mix can be searched."""
        return one_mix(mix, self._elmo.n_layers)

    def nearest(
        self,
        layers: Array,
        k: int,
        *,
        word: str | None = None,
        mix: Layers = "top",
        besides: Sequence[str] | None = None,
    ) -> list[Neighbor]:
        """Like `WordIndex.nearest`; without a word, only a sample of the sentences is searched."""
        check_k(k)
        weights = self.mix_weights(mix, any_word=word is None)
        found = self._of_any_word if word is None else self._with_word(word.casefold())
        vectors = np.tensordot(weights, found.layers, axes=1)  # (N, D)
        cosines = _cosines(weights @ layers.astype(np.float32), vectors)
        seen = {tuple(besides or ())}
        nearest: list[Neighbor] = []
        for place in np.argsort(-cosines, kind="stable").tolist():
            occurrence = found.occurrences[place]
            if len(nearest) < k and tuple(occurrence.tokens) not in seen:
                seen.add(tuple(occurrence.tokens))
                nearest.append(Neighbor(occurrence, float(cosines[place])))
        return nearest

    def similar_words(self, vector: Array, k: int, *, besides: str = "") -> list[SimilarWord]:
        """Like `WordIndex.similar_words`, among the most frequent words."""
        check_k(k)
        cosines = _cosines(vector.astype(np.float32), self._word_vectors)
        order = np.argsort(-cosines, kind="stable").tolist()
        others = (place for place in order if self._words[place] != besides.casefold())
        return [
            SimilarWord(self._words[place], float(cosines[place]))
            for place, _ in zip(others, range(k), strict=False)
        ]

    def _searched(self, word: str | None) -> list[Sequence[str]]:
        """The sentences that are searched for a word, or for any word."""
        if word is None:
            return _spread(self.sentences, SENTENCES_FOR_ANY_WORD)
        numbers = _spread(self._numbers.get(word.casefold(), []), MOST_SENTENCES_WITH_A_WORD)
        return [self.sentences[number] for number in numbers]

    def _embed_with_word(self, word: str) -> _Occurrences:
        return self._embed(self._searched(word), word)

    @cached_property
    def _of_any_word(self) -> _Occurrences:
        return self._embed(self._searched(None), None)

    def _embed(self, sentences: Sequence[Sequence[str]], word: str | None) -> _Occurrences:
        occurrences: list[Occurrence] = []
        layers = [np.empty((self._elmo.n_layers, 0, self._elmo.output_dim), dtype=np.float32)]
        for tokens, embedded in zip(sentences, self._elmo.stream_tokens(sentences), strict=True):
            places = [k for k, token in enumerate(tokens) if word in (None, token.casefold())]
            occurrences += [Occurrence(tokens, place) for place in places]
            layers.append(embedded.layers[:, places])
        return _Occurrences(occurrences, np.concatenate(layers, axis=1))

    @cached_property
    def _words(self) -> list[str]:
        counts = Counter(token.casefold() for token in chain.from_iterable(self.sentences))
        return [word for word, _ in counts.most_common(N_WORDS)]

    @cached_property
    def _word_vectors(self) -> Array:
        with torch.inference_mode():
            return self._elmo.embedder.cache.vectors(self._words).float().cpu().numpy()


def default_sentences() -> list[Sequence[str]]:
    """The package's distinct sentences: our own and WordNet's."""
    examples = chain(read_written(), read_examples())
    return list({tuple(example.tokens): example.tokens for example in examples}.values())


def _spread(values: Sequence[Any], most: int) -> list[Any]:
    """At most `most` of the values, evenly spaced."""
    n_values = min(most, len(values))
    return [values[k * len(values) // n_values] for k in range(n_values)]


def _cosines(vector: Array, vectors: Array) -> Array:
    """Cosines (D,), (N, D) -> (N,); 0 for zero vectors."""
    lengths = np.linalg.norm(vectors, axis=1) * np.linalg.norm(vector)
    cosines: Array = vectors @ vector / np.where(lengths > 0, lengths, 1)
    return cosines
