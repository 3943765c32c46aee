"""Where a run ends: after its epochs, after so many steps, or when its time is up.

In: a budget and the clock. Out: the number of steps the run is planned to have, which the learning
rate's decay needs. Time counts over all restarts of a run. A plan by the clock is made anew now
and then, and a checkpoint holds it, so that steps after a restart follow the plan they had.
"""

import time
from dataclasses import dataclass

from elmo.settings import PositiveFloat, PositiveInt, checked

STEPS_BETWEEN_PLANS = 100


@dataclass(frozen=True)
@checked
class Budget:
    """Limits of a run in steps and time, if it should end before its epochs."""

    max_steps: PositiveInt | None = None
    max_minutes: PositiveFloat | None = None


class Plan:
    """The number of steps a run will have, as far as is known."""

    def __init__(self, budget: Budget, n_steps_of_epochs: int) -> None:
        self._n_at_most = min(n_steps_of_epochs, budget.max_steps or n_steps_of_epochs)
        self._max_seconds = None if budget.max_minutes is None else 60 * budget.max_minutes
        self._seconds_before = 0.0
        self._started_at = time.perf_counter()
        self.n_steps: int | None = None if self._max_seconds else self._n_at_most

    @property
    def seconds(self) -> float:
        """Time spent on the run, earlier starts included."""
        return self._seconds_before + time.perf_counter() - self._started_at

    def start(self, seconds_before: float, n_steps: int | None) -> None:
        """Start the clock of a run that took so long before and was planned so."""
        self._seconds_before = seconds_before
        self._started_at = time.perf_counter()
        if self._max_seconds:
            self.n_steps = n_steps

    def update(self, step: int) -> None:
        """Plan anew from the pace so far, if the clock decides; at once where a plan has ended.

        A run that was made longer would else stand still at the end of its old plan.
        """
        is_behind = self.n_steps is not None and step >= self.n_steps
        if self._max_seconds and (is_behind or step % STEPS_BETWEEN_PLANS == 0):
            n_by_clock = round(step * self._max_seconds / self.seconds)
            self.n_steps = max(step, min(self._n_at_most, n_by_clock))

    def is_over(self, step: int) -> bool:
        """Whether no step is left."""
        return step >= self._n_at_most or bool(
            self._max_seconds and self.seconds >= self._max_seconds
        )
