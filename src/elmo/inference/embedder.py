"""Sentences of tokens to their layers, as fast as the machine allows and always with equal numbers.

In: token lists. Out: for each a float32 array (L+1, T, D), sentence markers removed, in the given
order. Words are read once and remembered; sentences of like length run side by side; a sentence
too long for that runs in chunks.
"""

from collections.abc import Iterator, Sequence
from math import inf
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.inference.long_sentences import Write, run_in_chunks
from elmo.inference.token_vector_cache import WordMemory
from elmo.network.bilm import BiLM, BiLMOutput, BiLMState, carry_over
from elmo.text.batches import batches_by_length, marker_numbers, number_words
from elmo.text.characters import Word

Array = NDArray[np.float32]
Tokens = Sequence[str]

# Enough sentences side by side to keep the cores busy; see benchmarks/.
BATCH_TOKENS = 4096
# Bounds the memory of the convolutions where there are no kernels; more at once is no faster.
WORDS_AT_ONCE = 512


class Embedder:
    """A biLM with a memory of the words it has read."""

    def __init__(self, bilm: BiLM, n_remembered_words: int) -> None:
        self.bilm = bilm
        self.memory = WordMemory(n_remembered_words, self._encode, self._version)

    @torch.inference_mode()
    def embed(
        self,
        sentences: Sequence[Tokens],
        batch_size: int | None = None,
        start: BiLMState | None = None,
    ) -> list[Array]:
        """The layers of each sentence, each from a fresh state, or from the one of `start`."""
        layers: list[Array | None] = [None] * len(sentences)
        for batch in length_batches(sentences, batch_size):
            tokens = [sentences[k] for k in batch]
            if len(tokens[0]) > BATCH_TOKENS:
                layers[batch[0]] = self._embed_long(tokens[0], start)
                continue
            starts = None if start is None else start.rows(torch.tensor([0] * len(batch)))
            found = self.bilm.contextualize_joined(*self._read_joined(tokens), starts)
            joined = found.float().cpu().numpy()
            end = 0
            for k in batch:
                begin, end = end, end + len(sentences[k]) + 2
                # A copy: a view would keep the whole batch for as long as one sentence lives.
                layers[k] = joined[:, begin + 1 : end - 1].copy()
        return [array for array in layers if array is not None]

    @torch.inference_mode()
    def embed_carrying(
        self, sentences: Sequence[Tokens], carried: BiLMState
    ) -> tuple[list[Array], BiLMState]:
        """The layers of one batch, each sentence from the state that its place was left in."""
        vectors, index, lengths = self.read(sentences)
        output, carried = carry_over(
            carried,
            len(sentences),
            self.bilm,
            lambda before: self.bilm.contextualize(vectors, index, lengths, before),
        )
        return _without_markers(output, sentences), carried

    @torch.inference_mode()
    def warm_state(self) -> BiLMState:
        """What an empty sentence leaves behind: a start that is always the same, and not zero."""
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
        """Write weighted sums (K, L+1) of one sentence's layers, a piece at a time.

        `write(tokens, columns, values)` gets values (K, n, P) for a range of tokens.
        """

        def write_tokens(places: slice, columns: slice, values: NDArray[Any]) -> None:
            # Place 0 and the last one hold the markers, so token k stands at place k + 1.
            first, last = max(places.start, 1), min(places.stop, len(tokens) + 1)
            if first < last:
                inside = slice(first - places.start, last - places.start)
                write(slice(first - 1, last - 1), columns, values[:, inside])

        vectors, index, _ = self.read([tokens])
        device_weights = torch.from_numpy(weights).to(vectors)
        run_in_chunks(self.bilm, vectors, index[0], device_weights, write_tokens, state=start)

    def _embed_long(self, tokens: Tokens, start: BiLMState | None) -> Array:
        config = self.bilm.config
        n_layers = config.lstm.n_layers + 1
        layers = np.empty((n_layers, len(tokens), config.output_dim), dtype=np.float32)

        def write(places: slice, columns: slice, values: NDArray[Any]) -> None:
            layers[:, places, columns] = values

        self.write(tokens, np.eye(n_layers, dtype=np.float32), write, start)
        return layers

    def read(self, sentences: Sequence[Tokens]) -> tuple[Tensor, Tensor, Tensor]:
        """Token vectors (U, P) of the distinct words, and where they stand (B, T), lengths (B,)."""
        vectors, joined, lengths = self._read_joined(sentences)
        index = joined.new_zeros(len(sentences), max(map(len, sentences), default=0) + 2)
        index[torch.arange(index.shape[1], device=joined.device) < lengths[:, None]] = joined
        return vectors, index, lengths

    def _read_joined(self, sentences: Sequence[Tokens]) -> tuple[Tensor, Tensor, Tensor]:
        """Token vectors (U, P), the sentences' words one after the other (N,), lengths (B,)."""
        distinct = marker_numbers()
        joined = [k for words in sentences for k in (0, *number_words(words, distinct), 1)]
        vectors = self.memory.vectors(list(distinct))
        lengths = [len(words) + 2 for words in sentences]
        return (
            vectors,
            torch.tensor(joined, dtype=torch.int64, device=vectors.device),
            torch.tensor(lengths, dtype=torch.int64, device=vectors.device),
        )

    def _encode(self, words: Sequence[Word]) -> Tensor:
        """Token vectors (U, P), read some at a time, words of like length together."""
        anything = next(self.bilm.parameters())
        vectors = anything.new_empty(len(words), self.bilm.config.lstm.projection_dim)
        by_length = sorted(range(len(words)), key=lambda k: len(str(words[k])))
        for start in range(0, len(words), WORDS_AT_ONCE):
            some = by_length[start : start + WORDS_AT_ONCE]
            char_ids = self.bilm.reader.encode([words[k] for k in some])
            vectors[some] = self.bilm.token_vectors(char_ids.to(anything.device))
        return vectors

    def _version(self) -> tuple[object, ...]:
        """Something that changes when the token layer is trained, loaded or moved."""
        weights = [weight.detach() for weight in self.bilm.token_parameters()]
        # Fused optimizers write without raising a tensor's version: so look at some numbers too.
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
    """Numbers of sentences that run side by side: like lengths together, longest first."""
    lengths = [len(tokens) + 2 for tokens in sentences]
    return batches_by_length(lengths, max_items=batch_size or inf, max_tokens=BATCH_TOKENS)
