"""Both language models' top layers, put where each of them predicts a word.

In: sentences of tokens, and a state. Out: `Predictions`. Each direction is read as in training:
the forward model from the begin marker to the last word, the backward one from the end marker to
the first; the marker that would come next is predicted, not read.
Shapes: B sentences, M predictions (for T words T + 1), N of them, P projection.
"""

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from elmo.bilm import BiLMState, Packing
from elmo.embedder import Embedder, Tokens
from elmo.long_text import CHUNK_TOKENS


@dataclass(frozen=True)
class Predictions:
    """For each direction a row per prediction, sentence by sentence, from left to right.

    Forward these are a sentence's words and then its end; backward its begin and then its words.
    """

    hidden: tuple[Tensor, ...]  # per direction (M, P)
    is_backward: tuple[bool, ...]
    first: Tensor  # (B,), where each sentence's rows begin
    last: Tensor  # (B,), and its last row
    state: BiLMState  # after the last word that each direction read

    def words(self) -> list[Tensor]:
        """The rows that predict words, per direction (N, P), in the order of the words."""
        found = []
        for rows, markers in zip(self.hidden, self._marker_rows(), strict=True):
            is_word = torch.ones(len(rows), dtype=torch.bool, device=rows.device)
            is_word[markers] = False
            found.append(rows[is_word])
        return found

    def markers(self) -> list[Tensor]:
        """The rows that predict the end of each sentence, or its begin, per direction (B, P)."""
        return [
            rows[markers] for rows, markers in zip(self.hidden, self._marker_rows(), strict=True)
        ]

    def at(self, positions: Sequence[int]) -> list[Tensor]:
        """The rows that predict the word at one position of each sentence, per direction (B, P)."""
        places = self.first + torch.tensor(positions, device=self.first.device)
        return [
            rows[places + is_backward]
            for rows, is_backward in zip(self.hidden, self.is_backward, strict=True)
        ]

    def _marker_rows(self) -> list[Tensor]:
        return [self.first if is_backward else self.last for is_backward in self.is_backward]


def predict(
    embedder: Embedder, sentences: Sequence[Tokens], state: BiLMState | None = None
) -> Predictions:
    """Read sentences, from the given state or from nothing."""
    bilm = embedder.bilm
    is_backward = tuple(direction == "backward" for direction in bilm.config.directions)
    vectors, words, lengths = embedder.read(sentences)
    packing = Packing.of(lengths - 1, bilm.config.directions)
    # Backward, what is predicted at a place was read from the place after it.
    index = [
        words[packing.row, place + backward]
        for place, backward in zip(packing.place, is_backward, strict=True)
    ]
    before = (state or bilm.initial_state(len(sentences))).rows(packing.order)
    tops, after = _run(embedder, vectors, index, packing.batch_sizes, before)
    ends = torch.cumsum(lengths - 1, 0)
    first = ends - (lengths - 1)
    hidden = [torch.empty_like(top) for top in tops]
    for rows, top, place in zip(hidden, tops, packing.place, strict=True):
        rows[first[packing.row] + place] = top
    return Predictions(
        tuple(hidden), is_backward, first, ends - 1, after.rows(torch.argsort(packing.order))
    )


def _run(
    embedder: Embedder,
    vectors: Tensor,
    index: Sequence[Tensor],
    batch_sizes: Sequence[int],
    state: BiLMState,
) -> tuple[list[Tensor], BiLMState]:
    """The top layer of each direction, (M, P), in its reading order."""
    # A sentence alone may be of any length, so it is read in chunks; packed, it is its own steps.
    is_alone = batch_sizes[0] == 1
    n_at_once = CHUNK_TOKENS if is_alone else len(index[0])
    tops: list[list[Tensor]] = []
    for start in range(0, len(index[0]), n_at_once):
        chunk = slice(start, start + n_at_once)
        steps = batch_sizes[chunk] if is_alone else batch_sizes
        layers, state = embedder.bilm.run(vectors, [rows[chunk] for rows in index], steps, state)
        tops.append(layers[-1])
    return [torch.cat(chunks) for chunks in zip(*tops, strict=True)], state
