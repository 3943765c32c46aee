"""Averages of a model's weights over training steps, which generalize better than the last weights.

In: named parameters, after every step. Out: exponential moving averages (EMA), which replace the
weights while a model is evaluated or saved.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

# Weights change little in a few steps: averages that are updated every tenth step are as good and
# cost a tenth.
EVERY = 10


class Averages:
    """Moving averages of parameters."""

    def __init__(self, parameters: Mapping[str, nn.Parameter], decay: float | None) -> None:
        """`decay` is the decay rate per step; None: no averages, the weights are used as is."""
        parameters = {} if decay is None else parameters
        self._parameters = parameters
        self._decay = (decay or 0.0) ** EVERY
        self._averages = {name: each.detach().clone() for name, each in parameters.items()}

    @torch.no_grad()
    def update(self, n_steps: int) -> None:
        """Update the averages after `n_steps` steps; early averages cover fewer steps."""
        if not self._averages or (n_steps > EVERY and n_steps % EVERY):
            return
        n_updates = n_steps // EVERY
        # Before the first update the averages are the weights: otherwise a run of a few steps
        # would be evaluated with its initial weights.
        decay = min(self._decay, n_updates / (n_updates + 9)) if n_updates else 0.0
        weights = [each.detach() for each in self._parameters.values()]
        torch._foreach_lerp_(list(self._averages.values()), weights, 1 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """Replace the parameters by the averages within the context."""
        self._swap()
        try:
            yield
        finally:
            self._swap()

    @torch.no_grad()
    def _swap(self) -> None:
        for name, parameter in self._parameters.items():
            current = parameter.detach().clone()
            parameter.copy_(self._averages[name])
            self._averages[name].copy_(current)

    def state(self) -> dict[str, Tensor]:
        """The averages by parameter name."""
        return self._averages

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        for name, average in self._averages.items():
            average.copy_(state[name])
