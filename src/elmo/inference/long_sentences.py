"""Run a sentence of any length in bounded memory, with the same result as in one run.

In: token vectors and the tokens' rows in them (T,). Out: weighted sums of the layers, written
chunk by chunk into any array. The forward direction runs from the start and the backward one from
the end; each chunk starts from the state after the one before.
Shapes: T tokens with markers, K weighted sums, L+1 layers, P projection, U distinct words.
"""

from collections.abc import Callable
from typing import Any

import torch
from numpy.typing import NDArray
from torch import Tensor

from elmo.network.bilm import BiLM, BiLMState

# Long enough that starting a chunk costs nothing, short enough that its layers fit any memory.
CHUNK_TOKENS = 2048

Write = Callable[[slice, slice, NDArray[Any]], None]


def run_in_chunks(
    bilm: BiLM,
    token_vectors: Tensor,
    words: Tensor,
    weights: Tensor,
    write: Write,
    n_chunk_tokens: int = CHUNK_TOKENS,
    state: BiLMState | None = None,
) -> None:
    """Call `write(tokens, columns, values)`, values (K, n, P), until all T tokens are written.

    `weights` (K, L+1) are layer weights; `state` is the initial state, zeros by default.
    """
    n_tokens = len(words)
    width = bilm.config.lstm.projection_dim
    is_backward = [direction == "backward" for direction in bilm.config.directions]
    state = bilm.initial_state(1) if state is None else state
    for start in range(0, n_tokens, n_chunk_tokens):
        end = min(start + n_chunk_tokens, n_tokens)
        positions = [
            slice(n_tokens - end, n_tokens - start) if back else slice(start, end)
            for back in is_backward
        ]
        chunks = [
            words[position].flip(0) if back else words[position]
            for position, back in zip(positions, is_backward, strict=True)
        ]
        # Pass only the chunk's words, because the input product of every row is computed.
        distinct, index = torch.unique(torch.stack(chunks), return_inverse=True)
        rows = token_vectors[distinct]
        layers, state = bilm.run(rows, list(index), [1] * (end - start), state)
        for r, position in enumerate(positions):
            all_layers = torch.stack([rows[index[r]], *(layer[r] for layer in layers)])
            mixed = torch.tensordot(weights, all_layers, dims=1)  # (K, n, P)
            mixed = mixed.flip(1) if is_backward[r] else mixed
            write(position, slice(r * width, (r + 1) * width), mixed.float().cpu().numpy())
