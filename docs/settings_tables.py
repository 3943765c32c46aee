"""Tables of settings, from the dataclasses that declare them: name, values, default, help text.

In: `.. settings:: elmo.pretraining.config.PretrainConfig`, or `.. task-settings::`. Out: a row for
each setting, with the dotted name of `--set`.
"""

import dataclasses
from collections.abc import Iterator
from importlib import import_module
from types import UnionType
from typing import Annotated, Any, Union, get_args, get_origin, get_type_hints

from docutils.nodes import Node
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from elmo.settings import describe, help_text
from elmo.tasks import TASKS, find_task

HEAD = ("name", "values", "default", "meaning")


class Settings(SphinxDirective):
    """All settings of a config class, with its own defaults."""

    required_arguments = 1

    def run(self) -> list[Node]:
        """The table."""
        module, _, name = self.arguments[0].rpartition(".")
        return self.parse_text_to_nodes("\n".join(table(getattr(import_module(module), name)())))


class TaskSettings(SphinxDirective):
    """All settings of every task, each with its own defaults."""

    def run(self) -> list[Node]:
        """A title and a table a task."""
        lines: list[str] = []
        for name in TASKS:
            lines += [f".. rubric:: elmo train {name}", ""]
            lines += [*table(find_task(name).defaults()), ""]
        return self.parse_text_to_nodes("\n".join(lines))


def table(settings: object) -> Iterator[str]:
    """A table as RST."""
    yield from (".. list-table::", "   :header-rows: 1", "")
    for row in (HEAD, *rows(settings, "")):
        yield from (f"   {'* -' if k == 0 else '  -'} {cell}" for k, cell in enumerate(row))


def rows(settings: Any, prefix: str) -> Iterator[tuple[str, str, str, str]]:  # noqa: ANN401
    """A row for each setting, including those of nested groups."""
    hints = get_type_hints(type(settings), include_extras=True)
    for field in dataclasses.fields(settings):
        hint, value = hints[field.name], getattr(settings, field.name)
        name, meaning = f"``{prefix}{field.name}``", escaped(help_text(hint))
        group = find_group(hint)
        if group is None:
            yield name, escaped(describe(hint)), shown(value), meaning
            continue
        if value is None:
            yield name, "group", "none", meaning
        yield from rows(value or group(), f"{prefix}{field.name}.")


def find_group(hint: Any) -> type | None:  # noqa: ANN401
    """The dataclass of an annotation, if it is a group of settings."""
    if get_origin(hint) is Annotated:
        return find_group(hint.__origin__)
    if get_origin(hint) in (Union, UnionType):
        return next(filter(None, map(find_group, get_args(hint))), None)
    return hint if dataclasses.is_dataclass(hint) else None


def shown(value: object) -> str:
    """A default as TOML writes it."""
    if value is None:
        return "none"
    if isinstance(value, bool):
        return f"``{str(value).lower()}``"
    if isinstance(value, tuple):
        return f"``{str(value).replace('(', '[').replace(',)', ']').replace(')', ']')}``"
    return f"``{value}``"


def escaped(text: str) -> str:
    """Text with RST's special characters escaped."""
    return text.replace("*", "\\*").replace("|", "\\|")


def setup(app: Sphinx) -> None:
    """Sphinx calls this."""
    app.add_directive("settings", Settings)
    app.add_directive("task-settings", TaskSettings)
