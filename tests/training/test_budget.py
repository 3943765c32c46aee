"""Budgets: by epochs, steps or minutes, over all restarts."""

import pytest

from elmo.errors import ConfigError
from elmo.training.budget import Budget, Plan


def test_steps_end_a_run_before_its_epochs_do():
    assert Plan(Budget(max_steps=5), 10).n_steps == 5
    assert Plan(Budget(), 10).n_steps == 10
    plan = Plan(Budget(max_steps=50), 10)
    assert plan.n_steps == 10
    assert not plan.is_over(9)
    assert plan.is_over(10)


def test_minutes_count_over_restarts_and_plan_the_steps():
    plan = Plan(Budget(max_minutes=10), 100_000)
    plan.start(seconds_before=300, n_steps=250)
    assert plan.n_steps == 250  # as the checkpoint has it
    assert not plan.is_over(100)
    plan.update(150)  # no step at which the plan is updated
    assert plan.n_steps == 250
    plan.update(200)
    assert plan.n_steps == pytest.approx(400, abs=2)  # half the time took 200 steps
    plan.start(seconds_before=600, n_steps=400)
    assert plan.is_over(200)


def test_a_run_made_longer_plans_anew_at_once():
    plan = Plan(Budget(max_minutes=20), 100_000)
    plan.start(seconds_before=600, n_steps=150)
    plan.update(151)  # the first step after a restart, past what ten minutes were planned for
    assert plan.n_steps == pytest.approx(302, abs=2)


def test_a_plan_by_the_clock_never_exceeds_the_epochs():
    plan = Plan(Budget(max_minutes=10), 300)
    plan.start(seconds_before=60, n_steps=None)
    plan.update(200)
    assert plan.n_steps == 300


@pytest.mark.parametrize("budget", [{"max_steps": 0}, {"max_minutes": -1.0}])
def test_a_budget_of_nothing_is_refused(budget):
    with pytest.raises(ConfigError, match="> 0"):
        Budget(**budget)
