"""ElmoLayer: the PyTorch module for task models.

In: token lists, or char ids (B, T, C). Out: `ElmoOutput`: k mixes of all layers, each (B, T, D),
and the mask (B, T), sentence markers removed. The biLM runs once for all mixes; it is frozen
unless `fine_tune` is set.
"""

from collections.abc import Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from math import inf

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import dropout

from elmo.errors import ConfigError
from elmo.network.bilm import BiLM
from elmo.network.scalar_mix import LayerNorm, ScalarMix
from elmo.text.batches import Batch
from elmo.text.inputs import check_tokens

MAX_FLOAT = float(np.finfo(np.float32).max)


@dataclass(frozen=True, eq=False)
class ElmoOutput:
    """The output of `ElmoLayer`."""

    mixes: tuple[Tensor, ...]  # each (B, T, D), zero where padded
    mask: Tensor  # (B, T)


class ElmoLayer(nn.Module):
    """A biLM with one or more mixes of its layers."""

    def __init__(
        self,
        bilm: BiLM,
        *,
        n_outputs: int = 1,
        dropout: float = 0.5,
        fine_tune: bool = False,
        initial_weights: Sequence[float] | None = None,
        initial_gamma: float = 1.0,
        freeze_mix: bool = False,
        layer_norm: LayerNorm | None = None,
        penalty: float = 0.0,
    ) -> None:
        super().__init__()
        if type(n_outputs) is not int or n_outputs < 1:
            raise ConfigError(f"n_outputs is {n_outputs!r}, expected a whole number from 1")
        _check("dropout", dropout, "a number from 0, below 1", lowest=0, below=1)
        _check("initial_gamma", initial_gamma, "a finite number")
        _check("penalty", penalty, "a finite number from 0", lowest=0)
        for weight in () if initial_weights is None else initial_weights:
            _check("an initial weight", weight, "a finite number")
        if fine_tune and any(weight.dtype == torch.bfloat16 for weight in bilm.parameters()):
            raise ConfigError("the model was loaded in bfloat16; fine-tuning expects float32")
        self.bilm = bilm.requires_grad_(fine_tune)
        if not fine_tune:
            bilm.hold_packed()  # `requires_grad_` has unpacked it, and it may be shared
        self.is_frozen = not fine_tune
        self.dropout_rate = dropout
        self.output_dim = bilm.config.output_dim
        self.mixes = nn.ModuleList(
            ScalarMix(
                bilm.config.lstm.n_layers + 1,
                initial_weights=initial_weights,
                initial_gamma=initial_gamma,
                is_frozen=freeze_mix,
                layer_norm=layer_norm,
                penalty=penalty,
            )
            for _ in range(n_outputs)
        )

    def penalty(self) -> Tensor:
        """The L2 penalty of all mixes, to be added to the task's loss."""
        return torch.stack([mix.penalty() for mix in self._mixes()]).sum()

    def forward(self, sentences: Sequence[Sequence[str]] | Tensor | Batch) -> ElmoOutput:
        """k mixes (B, T, D) and the mask (B, T) of token lists, char ids (B, T, C) or a batch."""
        # A frozen biLM needs no activations for gradients.
        with torch.no_grad() if self.is_frozen else nullcontext():
            encoded = self.bilm(self.encode(sentences))
        mask = _without_markers(encoded.mask)  # (B, T)
        mixed = (mix(encoded.layers, encoded.mask)[:, 1:-1] for mix in self._mixes())
        kept = mask[..., None]
        return ElmoOutput(
            tuple(dropout(x * kept, self.dropout_rate, self.training) for x in mixed), mask
        )

    def encode(self, sentences: Sequence[Sequence[str]] | Tensor | Batch) -> Batch:
        """Encode sentences as a batch on the device of the biLM."""
        device = next(self.bilm.parameters()).device
        if isinstance(sentences, Batch):
            return sentences.to(device)
        if isinstance(sentences, Tensor):
            return self.bilm.word_encoder.batch_of_char_ids(sentences.to(device))
        for words in sentences:
            check_tokens(words)
        encoder = self.bilm.word_encoder
        encoder.warn_truncated(sum(map(encoder.count_truncated, sentences)))
        return encoder.batch(sentences).to(device)

    def _mixes(self) -> list[ScalarMix]:
        return [mix for mix in self.mixes if isinstance(mix, ScalarMix)]


def _check(
    name: str, value: object, expected: str, lowest: float = -MAX_FLOAT, below: float = inf
) -> None:
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    if not is_number or not lowest <= value < below:  # type: ignore[operator]
        raise ConfigError(f"{name} is {value!r}, expected {expected}")


def _without_markers(mask: Tensor) -> Tensor:
    """(B, T+2) -> (B, T)."""
    return mask[:, 2:]
