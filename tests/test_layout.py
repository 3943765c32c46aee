"""The layout of the package: what the import contract of pyproject.toml does not say."""

import ast
import re
import tomllib
from pathlib import Path

import pytest

import elmo

PACKAGE = Path(elmo.__file__).parent
ROOT = Path(__file__).parent.parent
SOURCES = sorted(PACKAGE.rglob("*.py"))
MOST_TREE_LINES = 25


def imports(path: Path) -> list[ast.ImportFrom]:
    tree = ast.parse(path.read_text(encoding="utf-8"))
    return [node for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]


@pytest.mark.parametrize("path", SOURCES, ids=lambda path: str(path.relative_to(PACKAGE)))
def test_no_module_imports_a_private_name_of_another(path):
    for node in imports(path):
        assert node.level == 0, f"{path}:{node.lineno}: a relative import"
        if (node.module or "").startswith("elmo"):
            private = [a.name for a in node.names if re.match(r"_(?!_)", a.name)]
            assert not private, f"{path}:{node.lineno}: imports {private}"


def test_the_readme_lists_the_packages_in_the_order_of_their_layers():
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    tree = readme.partition("\nsrc/elmo/\n")[2].partition("\ntests/")[0].splitlines()
    names = re.findall(r"^  (\w+)(?:\.py|/) +\S", "\n".join(tree), flags=re.MULTILINE)
    contract = tomllib.loads((ROOT / "pyproject.toml").read_text())["tool"]["importlinter"]
    assert names == contract["contracts"][0]["layers"][::-1]
    assert len(tree) <= MOST_TREE_LINES
