"""The scalar mix of a task: gamma * sum_j s_j h_j, s the softmax of learned weights.

In: all layers (L+1, B, T, D) and the mask (B, T). Out: one vector per token (B, T, D).
Layer norm before the sum is optional: "token" normalizes each vector; "bilm" and "allennlp", as in
the originals, normalize over the batch, so that a vector depends on its batch.
"""

from collections.abc import Sequence
from typing import Literal, get_args

import torch
from torch import Tensor, nn

from elmo.errors import ConfigError

LayerNorm = Literal["token", "bilm", "allennlp"]
LAYER_NORMS: tuple[LayerNorm, ...] = get_args(LayerNorm)


class ScalarMix(nn.Module):
    """A learned weighted sum of layers.

    `initial_weights` are the weights before the softmax; they are trained unless `is_frozen`.
    """

    weights: Tensor
    gamma: Tensor

    def __init__(
        self,
        n_layers: int,
        *,
        initial_weights: Sequence[float] | None = None,
        initial_gamma: float = 1.0,
        is_frozen: bool = False,
        layer_norm: LayerNorm | None = None,
        penalty: float = 0.0,
    ) -> None:
        super().__init__()
        start = [0.0] * n_layers if initial_weights is None else list(initial_weights)
        if len(start) != n_layers:
            raise ConfigError(
                f"{len(start)} initial weights, expected {n_layers}: one for each layer, with the "
                "token layer"
            )
        if layer_norm not in (None, *LAYER_NORMS):
            raise ConfigError(
                f"layer norm {layer_norm!r} is unknown; expected one of {', '.join(LAYER_NORMS)} "
                "or None"
            )
        self.layer_norm = layer_norm
        self.penalty_factor = penalty
        # Without a dtype, integers would become integer tensors, which cannot be trained.
        self.weights = nn.Parameter(torch.tensor(start, dtype=torch.float32), not is_frozen)
        self.gamma = nn.Parameter(torch.tensor(initial_gamma, dtype=torch.float32), not is_frozen)

    def layer_weights(self) -> Tensor:
        """The weight of each layer after the softmax, (L+1,)."""
        return torch.softmax(self.weights, dim=0)

    def penalty(self) -> Tensor:
        """lambda * ||w||^2, to be added to the loss; it regularizes the mix toward the mean."""
        return self.penalty_factor * self.weights.square().sum()

    def forward(self, layers: Tensor, mask: Tensor) -> Tensor:
        """(L+1, B, T, D), (B, T) -> (B, T, D)."""
        if self.layer_norm == "token":
            layers = nn.functional.layer_norm(layers, layers.shape[-1:])
        elif self.layer_norm is not None:
            layers = _norm_over_batch(layers, mask, self.layer_norm)
        # Autocast computes a softmax in float32, but layers in lower precision.
        mixed: Tensor = torch.tensordot(self.layer_weights().to(layers.dtype), layers, dims=1)
        return self.gamma * mixed


def _norm_over_batch(layers: Tensor, mask: Tensor, kind: LayerNorm) -> Tensor:
    """Normalize each layer by its mean and variance over the batch, excluding padding.

    bilm-tf also excludes the sentence markers; AllenNLP includes them. Each has its own epsilon.
    """
    epsilon = 1e-12 if kind == "bilm" else 1e-13
    counted = (_without_markers(mask) if kind == "bilm" else mask)[..., None].to(layers.dtype)
    n_values = counted.sum() * layers.shape[-1]
    mean = (layers * counted).sum((1, 2, 3), keepdim=True) / n_values
    variance = ((layers - mean) * counted).square().sum((1, 2, 3), keepdim=True) / n_values
    return (layers - mean) / torch.sqrt(variance + epsilon)


def _without_markers(mask: Tensor) -> Tensor:
    """The mask of the tokens between the first and the last of each sentence."""
    followed = torch.zeros_like(mask)
    followed[:, :-1] = mask[:, 1:]
    inner = mask & followed
    inner[:, :1] = False
    return inner
