"""The word vectors x of a task: pre-trained (GloVe), trained or fixed; or random, always trained.

In: the words of the training text, and a file of vectors if there is one. Out: `WordTable`, an
embedding module. The rows of words of the training text may be trained. Other words of the file
have fixed rows, so that words that occur only at inference have vectors too.
Shapes: U words, V trained rows, F fixed rows, D width.
"""

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import embedding

from elmo.tasks.config import WordsConfig
from elmo.vectors.static import StaticVectors

UNKNOWN = 0  # the first of the trained rows


@dataclass(frozen=True)
class WordList:
    """The words of a table, in the order of its rows."""

    trained: tuple[str, ...]  # from row 1; row 0 is the unknown word
    fixed: tuple[str, ...]
    is_lowercased: bool

    def form(self, word: str) -> str:
        """The form in which a word is looked up."""
        return word.lower() if self.is_lowercased else word

    @cached_property
    def rows(self) -> dict[str, int]:
        """The row of each word."""
        return {word: row for row, word in enumerate((*self.trained, *self.fixed), start=1)}

    def ids(self, words: Iterable[str]) -> list[int]:
        """The row of each word, or of the word in lower case; UNKNOWN if there is none."""
        find = self.rows.get
        return [find(self.form(word)) or find(word.lower(), UNKNOWN) for word in words]


class WordTable(nn.Module):
    """Embeddings of words."""

    fixed: Tensor

    def __init__(self, words: WordList, dim: int) -> None:
        super().__init__()
        self.words = words
        self.dim = dim
        # For row-wise optimizers: with dense Adam, the momentum of a word's last gradient moves it
        # for many steps, away from words of the file that are not in the training text.
        self.has_sparse_gradients = False
        self.trained = nn.Parameter(torch.empty(len(words.trained) + 1, dim).normal_(0, 0.1))
        # float16 halves the size of a saved model. Not persistent: a checkpoint does not store what
        # training does not change.
        fixed = torch.zeros(len(words.fixed), dim, dtype=torch.float16)
        self.register_buffer("fixed", fixed, persistent=False)

    @staticmethod
    def build(
        config: WordsConfig, sentences: Iterable[Sequence[str]], static: StaticVectors | None
    ) -> "WordTable":
        """The table for a training text."""
        empty = WordList((), (), config.is_lowercased)
        counts = Counter(empty.form(word) for tokens in sentences for word in tokens)
        if static is None:
            often = tuple(word for word, count in counts.items() if count >= config.min_count)
            words = WordList(often, (), config.is_lowercased)
            return WordTable(words, config.dim)
        given = {word: row for row, word in enumerate(static.words)}
        trained = tuple(
            word
            for word, count in counts.items()
            if config.is_trained and (word in given or count >= config.min_count)
        )
        first = static.words[: config.max_words]
        seen = [word for word in counts if word in given]  # also those after max_words
        others, is_row = dict.fromkeys([*first, *seen]), set(trained)
        fixed = tuple(word for word in others if word not in is_row)
        words = WordList(trained, fixed, config.is_lowercased)
        table = WordTable(words, static.dim)
        table._fill(given, static.vectors)
        return table

    @torch.no_grad()
    def _fill(self, given: dict[str, int], vectors: NDArray[np.float32]) -> None:
        """Set the rows of words that have a pre-trained vector."""
        known = [row for row, word in enumerate(self.words.trained, start=1) if word in given]
        places = [given[self.words.trained[row - 1]] for row in known]
        self.trained[known] = torch.from_numpy(vectors[places])
        self.fixed.copy_(torch.from_numpy(vectors[[given[word] for word in self.words.fixed]]))

    def forward(self, ids: Tensor) -> Tensor:
        """(U,) -> (U, D)."""
        n_trained = len(self.trained)
        is_trained = ids < n_trained
        trained = embedding(
            ids.where(is_trained, torch.zeros_like(ids)),
            self.trained,
            sparse=self.has_sparse_gradients,
        )
        if not len(self.fixed):
            return trained
        fixed = embedding((ids - n_trained).clamp_min(0), self.fixed).to(trained.dtype)
        return torch.where(is_trained[:, None], trained, fixed)
