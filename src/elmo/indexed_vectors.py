"""The vectors of an indexed text: float16, in memory or mapped from files, compared exactly.

In: the layers of sentences, one after the other. Out: the cosine of any mix of layers between all
tokens and one vector. Layer 0 is the same in every context, so it is kept once a word; products of
a token's layers with each other are kept, so that the length of a mix needs no second look at it.
Shapes: N tokens, U distinct words, L layers above layer 0, D width, P projection.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

CONTEXTS, WORDS, PRODUCTS = "contexts.npy", "words.npy", "products.npy"
# As many tokens as stay in the processor's cache.
ROWS_AT_ONCE = 4096

Array = NDArray[Any]
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class IndexedVectors:
    """The vectors of N tokens, of which `word_of` (N,) tells the word's number."""

    contexts: Array  # (L, N, D), float16
    words: Array  # (U, P), float16
    products: Array  # (N, L+1, L+1), float32
    word_of: Numbers

    @staticmethod
    def allocate(
        word_of: Numbers, n_layers: int, output_dim: int, projection_dim: int, folder: Path | None
    ) -> "IndexedVectors":
        """Room for vectors that are yet to be put in, in memory or in new files of a folder."""
        n_tokens, n_words = len(word_of), int(word_of.max()) + 1

        def room(name: str, shape: tuple[int, ...], dtype: type) -> Array:
            if folder is None:
                return np.empty(shape, dtype)
            return np.lib.format.open_memmap(folder / name, "w+", dtype, shape)

        return IndexedVectors(
            room(CONTEXTS, (n_layers, n_tokens, output_dim), np.float16),
            room(WORDS, (n_words, projection_dim), np.float16),
            room(PRODUCTS, (n_tokens, n_layers + 1, n_layers + 1), np.float32),
            word_of,
        )

    @staticmethod
    def open(folder: Path, word_of: Numbers) -> "IndexedVectors":
        """Map what was put into a folder; raises OSError or ValueError if it is not all there."""
        names = (CONTEXTS, WORDS, PRODUCTS)
        contexts, words, products = (np.load(folder / name, mmap_mode="c") for name in names)
        if contexts.shape[1] != len(word_of) or len(products) != len(word_of):
            raise ValueError(f"{contexts.shape[1]} vectors for {len(word_of)} tokens")
        return IndexedVectors(contexts, words, products, word_of)

    def put(self, first: int, layers: Array) -> None:
        """Put in the layers (L+1, T, D) of tokens from number `first` on."""
        rows = slice(first, first + layers.shape[1])
        rounded = layers.astype(np.float16)
        self.contexts[:, rows] = rounded[1:]
        self.words[self.word_of[rows]] = rounded[0, :, : self.words.shape[1]]
        kept = rounded.astype(np.float32)
        self.products[rows] = np.einsum("lnd,mnd->nlm", kept, kept)

    def flush(self) -> None:
        """Have everything written, if there are files."""
        for part in (self.contexts, self.words, self.products):
            if isinstance(part, np.memmap):
                part.flush()

    def cosines(self, vector: Array, weights: Array, rows: Numbers | None = None) -> Array:
        """Between a vector (D,) and the mix of layers (L+1,) of some tokens, or of all: (n,)."""
        wanted = torch.from_numpy(vector)
        copies = wanted.reshape(-1, self.words.shape[1]).sum(
            0
        )  # layer 0 is there for each direction
        by_word = (torch.from_numpy(self.words).float() @ copies).numpy()  # (U,)
        chosen: Numbers | slice = slice(None) if rows is None else rows
        dots = weights[0] * by_word[self.word_of[chosen]]
        for layer, weight in zip(self.contexts, weights[1:], strict=True):
            if weight:
                dots += weight * _dots(layer, wanted, rows)
        squares = np.einsum("nlm,l,m->n", self.products[chosen], weights, weights)
        lengths = np.sqrt(np.maximum(squares, 0)) * float(wanted.norm())
        cosines: Array = dots / np.maximum(lengths, 1e-12)
        return cosines

    def word_cosines(self, vector: Array) -> Array:
        """Between a vector (P,) and layer 0 of every word: (U,)."""
        table, wanted = torch.from_numpy(self.words).float(), torch.from_numpy(vector)
        lengths = table.norm(dim=-1) * wanted.norm()
        cosines: Array = (table @ wanted / lengths.clamp_min(1e-12)).numpy()
        return cosines


def _dots(layer: Array, wanted: torch.Tensor, rows: Numbers | None) -> Array:
    """The products of some tokens of a layer (N, D), or of all, with one vector: (n,)."""
    n_rows = len(layer) if rows is None else len(rows)
    dots = torch.empty(n_rows)
    for first in range(0, n_rows, ROWS_AT_ONCE):
        some = slice(first, first + ROWS_AT_ONCE)
        part = layer[some] if rows is None else layer[rows[some]]
        dots[some] = torch.from_numpy(part).float() @ wanted
    return dots.numpy()
