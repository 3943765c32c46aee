"""Averages of a model's weights over the steps of training, which foresee better than the last.

In: named parameters, after every step. Out: exponential moving averages (EMA), which take the
weights' place while a model is measured or saved.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager

import torch
from torch import Tensor, nn

# Weights move little in a few steps: averages that are brought up to date in every tenth step are
# as good, and cost a tenth.
EVERY = 10


class Averages:
    """Moving averages of parameters."""

    def __init__(self, parameters: Mapping[str, nn.Parameter], decay: float | None) -> None:
        """`decay` is how much of an average is left after a step; none: the weights themselves."""
        parameters = {} if decay is None else parameters
        self._parameters = parameters
        self._decay = (decay or 0.0) ** EVERY
        self._averages = {name: each.detach().clone() for name, each in parameters.items()}

    @torch.no_grad()
    def update(self, n_steps: int) -> None:
        """Take the weights in, after the n-th step; early averages are of fewer steps."""
        if not self._averages or (n_steps > EVERY and n_steps % EVERY):
            return
        n_updates = n_steps // EVERY
        # Before the first update, a run of a few steps would be measured with its initial weights.
        decay = min(self._decay, n_updates / (n_updates + 9)) if n_updates else 0.0
        weights = [each.detach() for each in self._parameters.values()]
        torch._foreach_lerp_(list(self._averages.values()), weights, 1 - decay)

    @contextmanager
    def in_place(self) -> Iterator[None]:
        """The parameters are the averages within the context."""
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
        """All averages, by the parameter's name."""
        return self._averages

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Go on from what `state` gave."""
        for name, average in self._averages.items():
            average.copy_(state[name])
