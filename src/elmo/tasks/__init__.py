"""Task models with and without ELMo; `task.py` describes what a task consists of.

In: the name of a task. Out: the task, imported on first use.
"""

from importlib import import_module
from typing import TYPE_CHECKING

from elmo.errors import ConfigError
from elmo.exports import lazy_exports
from elmo.settings import nearest

if TYPE_CHECKING:
    from elmo.tasks.config import read_config as read_config
    from elmo.tasks.saved import open_task as open_task
    from elmo.tasks.task import AnyTask
    from elmo.tasks.train import train_task as train_task

_lazy, __getattr__, __dir__ = lazy_exports(
    __name__, {"config": "read_config", "saved": "open_task", "train": "train_task"}
)
__all__ = ["TASKS", "find_task", *_lazy]

# The package of each task; its model.py has `build_task(name)`.
TASKS = {
    "ner": "tagging",
    "pos": "tagging",
    "chunk": "tagging",
    "sentiment": "sentiment",
    "nli": "nli",
    "srl": "srl",
    "coref": "coref",
    "squad": "squad",
}


def find_task(name: str) -> "AnyTask":
    """The task with this name."""
    if name not in TASKS:
        raise ConfigError(f"unknown task {name!r}{nearest(name, TASKS)}")
    task: AnyTask = import_module(f"elmo.tasks.{TASKS[name]}.model").build_task(name)
    return task
