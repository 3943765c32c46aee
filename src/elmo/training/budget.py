"""The budget of a run: it ends after its epochs, a number of steps, or a time.

In: a budget and the clock. Out: the planned number of steps, which the decay of the learning rate
needs. Time is counted over all starts of a run. With a time limit the plan is updated at intervals,
and a checkpoint stores it, so that a resumed run takes the steps it would have taken.
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
    """The planned number of steps of a run; None while it is unknown."""

    def __init__(self, budget: Budget, n_epoch_steps: int) -> None:
        self._max_steps = min(n_epoch_steps, budget.max_steps or n_epoch_steps)
        self._max_seconds = None if budget.max_minutes is None else 60 * budget.max_minutes
        self._seconds_before = 0.0
        self._started_at = time.perf_counter()
        self.n_steps: int | None = None if self._max_seconds else self._max_steps

    @property
    def seconds(self) -> float:
        """Time spent on the run, including earlier starts."""
        return self._seconds_before + time.perf_counter() - self._started_at

    def start(self, seconds_before: float, n_steps: int | None) -> None:
        """Start the clock of a run, with the time and the plan of its earlier starts."""
        self._seconds_before = seconds_before
        self._started_at = time.perf_counter()
        if self._max_seconds:
            self.n_steps = n_steps

    def update(self, step: int) -> None:
        """With a time limit, estimate the number of steps from the speed so far.

        This is done at intervals, and immediately when the planned steps are done: a run whose
        limit was raised would otherwise stay at the end of its old plan.
        """
        is_done = self.n_steps is not None and step >= self.n_steps
        if self._max_seconds and (is_done or step % STEPS_BETWEEN_PLANS == 0):
            n_by_clock = round(step * self._max_seconds / self.seconds)
            self.n_steps = max(step, min(self._max_steps, n_by_clock))

    def is_over(self, step: int) -> bool:
        """Whether the run ends at this step."""
        return step >= self._max_steps or bool(
            self._max_seconds and self.seconds >= self._max_seconds
        )
