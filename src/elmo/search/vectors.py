"""The vectors of an indexed text, as float16 files that are mapped into memory.

In: the layers of sentences, one after the other. Out: the exact cosine between one vector and any
mix of layers of the tokens. Layer 0 does not depend on the context, so it is stored once per word.
The dot products between the layers of a token are stored, too: the norm of any mix needs them.
Shapes: N tokens, U distinct words, L layers above layer 0, D width, P projection.
"""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from elmo.network.config import BiLMConfig

LAYERS = "layer-*.bin"  # of layers above layer 0; the asterisk is the number
PRODUCTS, WORD_OF = "products.bin", "word_of.bin"
WORDS, WORD_LENGTHS = "words.bin", "word_lengths.bin"
# As many tokens as fit into the processor's cache.
ROWS_AT_ONCE = 4096

Array = NDArray[Any]
Numbers = NDArray[np.int64]
# Appends the layers (L+1, T, D) of some tokens, and the indices of their words (T,).
PutLayers = Callable[[Array, Numbers], None]


def layer_file(number: int) -> str:
    """The file name of a layer above layer 0."""
    return LAYERS.replace("*", str(number))


@contextmanager
def new_vectors(folder: Path, n_layers: int) -> Iterator[PutLayers]:
    """Yield a function that appends tokens to new files; `write_words` writes layer 0."""
    with ExitStack() as stack:

        def new(name: str) -> Any:  # noqa: ANN401 - a file
            return stack.enter_context((folder / name).open("wb"))

        contexts = [new(layer_file(number)) for number in range(1, n_layers + 1)]
        products, word_of = new(PRODUCTS), new(WORD_OF)

        def put(layers: Array, word_numbers: Numbers) -> None:
            rounded = layers.astype(np.float16)
            for file, layer in zip(contexts, rounded[1:], strict=True):
                file.write(layer.data)
            kept = rounded.astype(np.float32)
            products.write(np.einsum("lnd,mnd->nlm", kept, kept).tobytes())
            word_of.write(word_numbers.data)

        yield put


@dataclass(frozen=True)
class IndexedVectors:
    """The vectors of N tokens; `word_of` (N,) is the index of each token's word."""

    dim: int  # D
    contexts: list[Array]  # L of (N, D), float16
    products: Array  # (N, L+1, L+1), float32
    words: Array  # (U, P), float16
    word_lengths: Array  # (U,), float32
    word_of: Numbers

    @staticmethod
    def open(folder: Path, config: BiLMConfig) -> "IndexedVectors":
        """Map a folder's files; raises OSError or ValueError if they are incomplete."""
        n_layers = config.lstm.n_layers

        def mapped(name: str, dtype: type, *shape: int) -> Array:
            # Copy on write, because torch does not support read-only arrays; nothing is written.
            flat = np.memmap(folder / name, dtype, "c").view(np.ndarray)
            return flat.reshape(-1, *shape)

        layers = range(1, n_layers + 1)
        contexts = [mapped(layer_file(k), np.float16, config.output_dim) for k in layers]
        products = mapped(PRODUCTS, np.float32, n_layers + 1, n_layers + 1)
        words = mapped(WORDS, np.float16, config.lstm.projection_dim)
        word_lengths = mapped(WORD_LENGTHS, np.float32)
        word_of = mapped(WORD_OF, np.int64)
        for part in (*contexts, products):
            if len(part) != len(word_of):
                raise ValueError(f"{len(part)} vectors for {len(word_of)} tokens")
        if len(words) != len(word_lengths):
            raise ValueError(f"{len(words)} vectors and {len(word_lengths)} lengths of words")
        return IndexedVectors(config.output_dim, contexts, products, words, word_lengths, word_of)

    def cosines(self, vector: Array, weights: Array, rows: Numbers | None = None) -> Array:
        """Cosines between a vector (D,) and the mixed layers of some or all tokens: (n,)."""
        chosen: Numbers | slice = slice(None) if rows is None else rows
        wanted = torch.from_numpy(vector)
        dots = np.zeros(len(self.word_of[chosen]), np.float32)
        if weights[0]:
            # Layer 0 is repeated for each direction and is the same for all tokens of a word.
            copies = wanted.reshape(-1, self.words.shape[1]).sum(0)
            words, places = np.unique(self.word_of[chosen], return_inverse=True)
            dots += weights[0] * _dots(self.words, copies, words)[places]
        for layer, weight in zip(self.contexts, weights[1:], strict=True):
            if weight:
                dots += weight * _dots(layer, wanted, rows)
        squares = np.einsum("nlm,l,m->n", self.products[chosen], weights, weights)
        lengths = np.sqrt(np.maximum(squares, 0)) * float(wanted.norm())
        cosines: Array = dots / np.maximum(lengths, 1e-12)
        return cosines

    def mixed(self, weights: Array, rows: slice | Numbers) -> Array:
        """The mixed layers of some tokens: (n, D), float32."""
        words = self.words[self.word_of[rows]].astype(np.float32)  # (n, P), of each direction
        mix: Array = weights[0] * np.tile(words, self.dim // words.shape[1])
        for layer, weight in zip(self.contexts, weights[1:], strict=True):
            if weight:
                mix += weight * layer[rows].astype(np.float32)
        return mix

    def word_cosines(self, vector: Array) -> Array:
        """Cosines between a vector (P,) and layer 0 of every word: (U,)."""
        wanted = torch.from_numpy(vector)
        lengths = self.word_lengths * float(wanted.norm())
        cosines: Array = _dots(self.words, wanted, None) / np.maximum(lengths, 1e-12)
        return cosines


def _dots(layer: Array, wanted: torch.Tensor, rows: Numbers | None) -> Array:
    """Dot products of some or all rows of a layer (N, D) with one vector: (n,)."""
    n_rows = len(layer) if rows is None else len(rows)
    dots = torch.empty(n_rows, dtype=torch.float32, device="cpu")  # whatever torch's defaults are
    for first in range(0, n_rows, ROWS_AT_ONCE):
        some = slice(first, first + ROWS_AT_ONCE)
        part = layer[some] if rows is None else layer[rows[some]]
        dots[some] = torch.from_numpy(part).float() @ wanted
    return dots.numpy()
