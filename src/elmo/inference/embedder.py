"""Compute the layers of sentences, batched by length, with cached token vectors.

In: token lists. Out: for each a float32 array (L+1, T, D), sentence markers removed, in the given
order. The result for a sentence does not depend on its batch. A sentence that is too long for a
batch runs in chunks.
Shapes: B sentences, T tokens, N tokens of a batch with markers, U distinct words, L+1 layers,
D width of a vector, P projection, K weighted sums.
"""

import os
from collections.abc import Iterator, Mapping, Sequence
from math import inf
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.inference.long_sentences import Write, run_in_chunks
from elmo.inference.token_vector_cache import TokenVectorCache
from elmo.network import kernels
from elmo.network.bilm import BiLM, BiLMOutput, BiLMState, carry_over
from elmo.text.batches import batches_by_length, marker_numbers, number_words
from elmo.text.characters import Word

Array = NDArray[np.float32]
Tokens = Sequence[str]

# Enough tokens in a batch to keep the cores busy; see benchmarks/.
BATCH_TOKENS = 4096
# Bounds the memory of the convolutions without kernels; larger blocks are no faster.
WORDS_AT_ONCE = 512

# A forked child lacks OpenMP's threads and would wait for them forever.
if hasattr(os, "register_at_fork"):  # not on Windows
    os.register_at_fork(after_in_child=lambda: torch.set_num_threads(1))


class Embedder:
    """A biLM with a cache of token vectors."""

    def __init__(
        self, bilm: BiLM, n_cached_words: int, alignment: Mapping[int, Array] | None = None
    ) -> None:
        """`alignment` holds matrices (D, D) by layer, to multiply the layer's vectors by."""
        self.bilm = bilm
        self.alignment = alignment or {}
        self.cache = TokenVectorCache(n_cached_words, self._encode, self._version)

    @torch.inference_mode()
    def embed(
        self,
        sentences: Sequence[Tokens],
        batch_size: int | None = None,
        start: BiLMState | None = None,
    ) -> list[Array]:
        """The layers of each sentence, each starting from zeros or the one state in `start`."""
        layers: list[Array | None] = [None] * len(sentences)
        for batch in length_batches(sentences, batch_size):
            tokens = [sentences[k] for k in batch]
            if len(tokens[0]) > BATCH_TOKENS:
                layers[batch[0]] = self._embed_long(tokens[0], start)
                continue
            same = torch.tensor([0] * len(batch), device="cpu")
            starts = None if start is None else start.rows(same)
            found = self.bilm.contextualize_joined(*self._read_joined(tokens), starts)
            joined = found.float().cpu().numpy()
            end = 0
            for k in batch:
                begin, end = end, end + len(sentences[k]) + 2
                # A copy: a view would keep the whole batch for as long as one sentence lives.
                layers[k] = joined[:, begin + 1 : end - 1].copy()
        return [self._align(array) for array in layers if array is not None]

    @torch.inference_mode()
    def embed_carrying(
        self, sentences: Sequence[Tokens], carried: BiLMState
    ) -> tuple[list[Array], BiLMState]:
        """The layers of one batch; each sentence starts from the state at its position."""
        vectors, index, lengths = self.read(sentences)
        output, carried = carry_over(
            carried,
            len(sentences),
            self.bilm,
            lambda before: self.bilm.contextualize(vectors, index, lengths, before),
        )
        return [self._align(array) for array in _without_markers(output, sentences)], carried

    @torch.inference_mode()
    def warm_state(self) -> BiLMState:
        """The state after an empty sentence: a fixed, nonzero initial state."""
        state: BiLMState = self.bilm.contextualize(*self.read([[]])).state
        return state

    @torch.inference_mode()
    def write(
        self,
        tokens: Tokens,
        weights: NDArray[np.float32],
        write: Write,
        start: BiLMState | None = None,
    ) -> None:
        """Write weighted sums of one sentence's layers, chunk by chunk; `weights` are (K, L+1).

        `write(tokens, columns, values)` is called with values (K, n, P) for a range of tokens.
        """

        def write_tokens(positions: slice, columns: slice, values: NDArray[Any]) -> None:
            # Position 0 and the last are the markers, so token k is at position k + 1.
            first, last = max(positions.start, 1), min(positions.stop, len(tokens) + 1)
            if first < last:
                inside = slice(first - positions.start, last - positions.start)
                write(slice(first - 1, last - 1), columns, values[:, inside])

        vectors, index, _ = self.read([tokens])
        device_weights = torch.from_numpy(weights).to(vectors)
        run_in_chunks(self.bilm, vectors, index[0], device_weights, write_tokens, state=start)

    def _align(self, layers: Array) -> Array:
        """Map layers (L+1, T, D) to the space of another language, if they have a matrix."""
        for layer, matrix in self.alignment.items():
            layers[layer] = layers[layer] @ matrix.T
        return layers

    def _embed_long(self, tokens: Tokens, start: BiLMState | None) -> Array:
        config = self.bilm.config
        n_layers = config.lstm.n_layers + 1
        layers = np.empty((n_layers, len(tokens), config.output_dim), dtype=np.float32)

        def write(positions: slice, columns: slice, values: NDArray[Any]) -> None:
            layers[:, positions, columns] = values

        self.write(tokens, np.eye(n_layers, dtype=np.float32), write, start)
        return layers

    def read(self, sentences: Sequence[Tokens]) -> tuple[Tensor, Tensor, Tensor]:
        """Token vectors (U, P) of the distinct words, each token's row (B, T), and lengths (B,)."""
        vectors, joined, lengths = self._number(sentences)
        index = joined.new_zeros(len(sentences), max(map(len, sentences), default=0) + 2)
        positions = torch.arange(index.shape[1], device="cpu")
        index[positions < lengths[:, None]] = joined
        return vectors, index.to(vectors.device), lengths

    def _read_joined(self, sentences: Sequence[Tokens]) -> tuple[Tensor, Tensor, Tensor]:
        """Token vectors (U, P), the rows of the concatenated sentences (N,), and lengths (B,)."""
        vectors, joined, lengths = self._number(sentences)
        return vectors, joined.to(vectors.device), lengths

    def _number(self, sentences: Sequence[Tokens]) -> tuple[Tensor, Tensor, Tensor]:
        """Token vectors (U, P); rows (N,) and lengths (B,) on the CPU, which plans the steps."""
        distinct = marker_numbers()
        joined = [k for words in sentences for k in (0, *number_words(words, distinct), 1)]
        vectors = self.cache.vectors(list(distinct))
        lengths = [len(words) + 2 for words in sentences]
        return (
            vectors,
            torch.tensor(joined, dtype=torch.int64, device="cpu"),
            torch.tensor(lengths, dtype=torch.int64, device="cpu"),
        )

    def _encode(self, words: Sequence[Word]) -> Tensor:
        """Token vectors (U, P), computed in blocks of words of similar length."""
        anything = next(self.bilm.parameters())
        vectors = anything.new_empty(len(words), self.bilm.config.lstm.projection_dim)
        by_length = sorted(range(len(words)), key=lambda k: len(str(words[k])))
        for start in range(0, len(words), WORDS_AT_ONCE):
            some = by_length[start : start + WORDS_AT_ONCE]
            char_ids = self.bilm.word_encoder.encode([words[k] for k in some])
            vectors[some] = self.bilm.token_vectors(char_ids.to(anything.device))
        return vectors

    def _version(self) -> tuple[object, ...]:
        """A value that changes when the token layer is trained, loaded or moved."""
        # Weights that exist only packed cannot change.
        layers = self.bilm.token_layers()
        weights = [each.detach() for layer in layers for each in kernels.plain_tensors(layer)]
        # Fused optimizers do not increment a tensor's version, so compare some values too.
        sample = [weight.flatten()[:: weight.numel() // 8 + 1] for weight in weights]
        return (
            *((w.data_ptr(), 0 if w.is_inference() else w._version) for w in weights),
            *torch.cat(sample).tolist(),
        )


def _without_markers(output: BiLMOutput, sentences: Sequence[Tokens]) -> list[Array]:
    layers = output.layers.float().cpu().numpy()
    # Copies: a view would keep the whole batch in memory for as long as one sentence lives.
    return [layers[:, k, 1 : len(words) + 1].copy() for k, words in enumerate(sentences)]


def length_batches(
    sentences: Sequence[Tokens], batch_size: int | None = None
) -> Iterator[list[int]]:
    """Batches of sentence indices, longest first."""
    lengths = [len(tokens) + 2 for tokens in sentences]
    return batches_by_length(lengths, max_items=batch_size or inf, max_tokens=BATCH_TOKENS)
