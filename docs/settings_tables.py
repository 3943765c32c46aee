"""Tables of settings, from the dataclasses that hold them: name, kind, default, meaning.

In: `.. settings:: elmo.pretraining.config.PretrainConfig`, or `.. task-settings::`. Out: a row for
each setting, by the dotted name that a TOML file and `--set` know it by.
"""

import dataclasses
from collections.abc import Iterator
from importlib import import_module
from types import NoneType, UnionType
from typing import Annotated, Any, Literal, Union, get_args, get_origin, get_type_hints

from docutils.nodes import Node
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

from elmo.tasks import TASKS, find_task

HEAD = ("name", "is", "default", "")


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
    """A row for each setting, groups inside groups too."""
    hints = get_type_hints(type(settings), include_extras=True)
    for field in dataclasses.fields(settings):
        hint, meaning = hints[field.name], ""
        if get_origin(hint) is Annotated:
            hint, meaning = get_args(hint)[:2]
        value = getattr(settings, field.name)
        group = next((kind for kind in alternatives(hint) if dataclasses.is_dataclass(kind)), None)
        if group is None:
            yield f"``{prefix}{field.name}``", shown_kind(hint), shown(value), escaped(meaning)
            continue
        if value is None:
            yield f"``{prefix}{field.name}``", "a group", "absent", escaped(meaning)
        yield from rows(value or group(), f"{prefix}{field.name}.")


def alternatives(hint: object) -> tuple[object, ...]:
    """The members of a union, or the one type."""
    return get_args(hint) if get_origin(hint) in (Union, UnionType) else (hint,)


def shown_kind(hint: object) -> str:
    """What a setting may be, in a user's words."""
    if get_origin(hint) is Literal:
        return ", ".join(f"``{value}``" for value in get_args(hint))
    if get_origin(hint) in (Union, UnionType):
        return " or ".join(shown_kind(member) for member in get_args(hint))
    if hint is NoneType:
        return "absent"
    if get_origin(hint) is tuple:
        return "a list"
    return {int: "a whole number", float: "a number", bool: "true or false", str: "text"}[hint]


def shown(value: object) -> str:
    """A default as TOML writes it."""
    if value is None:
        return "absent"
    if isinstance(value, bool):
        return f"``{str(value).lower()}``"
    if isinstance(value, tuple):
        return f"``{str(value).replace('(', '[').replace(',)', ']').replace(')', ']')}``"
    return f"``{value}``"


def escaped(text: str) -> str:
    """Prose that happens to have RST's signs in it."""
    return text.replace("*", "\\*").replace("|", "\\|")


def setup(app: Sphinx) -> None:
    """Sphinx calls this."""
    app.add_directive("settings", Settings)
    app.add_directive("task-settings", TaskSettings)
