"""Task models that the server can ask: those that give each word of a sentence a label."""

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Protocol

from elmo.api import Elmo
from elmo.errors import ConfigError


class TaskModel(Protocol):
    """A trained model that labels words."""

    @property
    def name(self) -> str:
        """What it does: ner, pos, ..."""

    def label(self, sentences: Sequence[Sequence[str]]) -> Sequence[Sequence[str]]:
        """A label for each token of each sentence; O where there is nothing to say."""


def load_tasks(folders: Sequence[Path], elmo: Elmo) -> dict[str, TaskModel]:
    """The task models of some folders, by name."""
    if not folders:
        return {}
    if find_spec("elmo.tasks") is None:
        raise ConfigError(
            f"{folders[0]}: a task model is asked for, expected none, as this version has no "
            "tasks; leave --task out"
        )
    tasks: list[TaskModel] = [
        import_module("elmo.tasks").load_labeller(folder, elmo) for folder in folders
    ]
    names = [task.name for task in tasks]
    if len(set(names)) < len(names):
        raise ConfigError(
            f"two task models are both named {max(names, key=names.count)!r}, expected one of "
            "each; leave one out"
        )
    return dict(zip(names, tasks, strict=True))
