"""A bounded cache of token vectors, so that the token layer runs once per word.

In: distinct words. Out: their token vectors (U, P), equal to those of the token layer. The cache is
cleared when it is full or when the weights change. It is safe to use from several threads.
Shapes: U words, P projection.
"""

import threading
from collections.abc import Callable, Sequence

from torch import Tensor

from elmo.text.characters import Word

Encoder = Callable[[Sequence[Word]], Tensor]
Version = Callable[[], object]


class TokenVectorCache:
    """Token vectors of the words seen so far."""

    def __init__(self, n_words: int, encode: Encoder, version: Version) -> None:
        """Cache up to `n_words` words; `encode` returns the vectors (U, P) of new ones.

        `version` returns a value that changes when the vectors do.
        """
        self.n_words = n_words
        self._encode = encode
        self._version = version
        self._cached_version: object = None
        self._lock = threading.Lock()
        self._rows: dict[Word, int] = {}
        self._table: Tensor | None = None

    def __len__(self) -> int:
        return len(self._rows)

    def vectors(self, words: Sequence[Word]) -> Tensor:
        """The vectors of distinct words, (U, P)."""
        with self._lock:
            version = self._version()
            if version != self._cached_version:
                self._rows, self._table, self._cached_version = {}, None, version
            new = [word for word in words if word not in self._rows]
            if len(self._rows) + len(new) > self.n_words:
                # Frequent words are soon cached again; LRU eviction would cost more.
                self._rows, self._table, new = {}, None, list(words)
            if self._table is None and (not new or len(new) > self.n_words):
                return self._encode(new)
            if new:
                self._add(new, self._encode(new))
            assert self._table is not None
            return self._table[[self._rows[word] for word in words]]

    def _add(self, words: Sequence[Word], vectors: Tensor) -> None:
        n_known = len(self._rows)
        needed = n_known + len(words)
        if self._table is None or needed > len(self._table):
            # Grow by doubling, so that an empty cache for a million words takes no memory.
            n_rows = min(self.n_words, max(1024, 2 * needed))
            larger = vectors.new_empty(n_rows, vectors.shape[1])
            if self._table is not None:
                larger[:n_known] = self._table[:n_known]
            self._table = larger
        self._table[n_known:needed] = vectors
        self._rows.update((word, n_known + k) for k, word in enumerate(words))
