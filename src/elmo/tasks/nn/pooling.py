"""Softmax and pooling over the tokens of padded rows.

In: vectors (B, T, D) and a mask (B, T), or scores and a mask of the same shape. Out: (B, D), or
weights that sum to one.
"""

import torch
from torch import Tensor

# Instead of minus infinity; representable in half precision.
LOWEST = -1e4


def masked_softmax(scores: Tensor, mask: Tensor) -> Tensor:
    """Softmax over the last dimension, zero where the mask is false."""
    return torch.softmax(scores.masked_fill(~mask, LOWEST), dim=-1) * mask


def max_over_tokens(vectors: Tensor, mask: Tensor) -> Tensor:
    """(B, T, D), (B, T) -> (B, D)."""
    return vectors.masked_fill(~mask[..., None], LOWEST).amax(1)


def min_over_tokens(vectors: Tensor, mask: Tensor) -> Tensor:
    """(B, T, D), (B, T) -> (B, D)."""
    return vectors.masked_fill(~mask[..., None], -LOWEST).amin(1)


def mean_over_tokens(vectors: Tensor, mask: Tensor) -> Tensor:
    """(B, T, D), (B, T) -> (B, D)."""
    return (vectors * mask[..., None]).sum(1) / mask.sum(1, keepdim=True).clamp_min(1)
