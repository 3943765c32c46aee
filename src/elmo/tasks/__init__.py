"""Tasks: models that read ELMo, or do without. `task.py` says what a task is.

In: a task's name. Out: the task, imported when it is asked for.
"""

from collections.abc import Sequence
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from elmo.errors import ConfigError
from elmo.settings import nearest

if TYPE_CHECKING:
    from elmo.api import Elmo
    from elmo.tasks.task import AnyTask

# Each name and the module of this folder that has its `build_task(name)`.
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
    """The task of that name."""
    if name not in TASKS:
        raise ConfigError(f"unknown task {name!r}{nearest(name, TASKS)}; name a task")
    task: AnyTask = import_module(f"elmo.tasks.{TASKS[name]}.model").build_task(name)
    return task


class Labeller(Protocol):
    """A trained model that labels words."""

    name: str

    def label(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """A label for each token of each sentence."""


def load_labeller(folder: Path, elmo: "Elmo") -> Labeller:
    """A trained tagger, with the biLM that is already open."""
    from elmo.tasks.tagging.model import TrainedTagger

    return TrainedTagger.open(folder, elmo)
