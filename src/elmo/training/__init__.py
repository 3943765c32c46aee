"""Shared parts of all training runs: budget, checkpoints, metrics, optimizers, processes."""

from typing import TYPE_CHECKING

from elmo.exports import lazy_exports

if TYPE_CHECKING:
    from elmo.training.budget import Budget as Budget
    from elmo.training.distributed import join_processes as join_processes

__all__, __getattr__, __dir__ = lazy_exports(
    __name__, {"budget": "Budget", "distributed": "join_processes"}
)
