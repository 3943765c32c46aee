"""A room imports only rooms above it in the README's tree, so the code reads from its top down."""

import ast
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import elmo

PACKAGE = Path(elmo.__file__).parent
README = Path(__file__).parent.parent / "README.md"
TREE = README.read_text(encoding="utf-8").partition("\nsrc/elmo/\n")[2].partition("\ntests/")[0]
ROOMS = re.findall(r"^  (\w+)(?:\.py|/) +\S", TREE, flags=re.MULTILINE)
# The public names come from all rooms; `python -m elmo` is the command line.
DOORS = {"__init__", "__main__"}


def room_of(path: Path) -> str:
    return path.relative_to(PACKAGE).with_suffix("").parts[0]


def imported_rooms(path: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
        names = []
        if isinstance(node, ast.Import):
            names = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            assert node.level == 0, f"{path}: a relative import"
            names = [f"{node.module}.{alias.name}" for alias in node.names]
        yield from (name.split(".")[1] for name in names if name.startswith("elmo."))


SOURCES = [path for path in sorted(PACKAGE.rglob("*.py")) if room_of(path) not in DOORS]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_a_room_imports_only_rooms_above_it(path):
    room = room_of(path)
    assert room in ROOMS, f"{room} has no line in the README's tree: give it one"
    below = set(ROOMS[ROOMS.index(room) + 1 :]) & set(imported_rooms(path))
    assert not below, f"{room} stands above {sorted(below)}, which it imports"


def test_the_readme_has_no_room_that_is_gone():
    assert set(ROOMS) == {room_of(path) for path in SOURCES}
    assert len(ROOMS) == len(set(ROOMS))
