"""Reference of a module that is read, not imported: for what stands on other people's libraries.

In: `.. by-source:: elmo.adapters.NAME`. Out: its docstring, its public classes with their methods
and its functions, as autodoc would show them. Importing all adapters' libraries takes as long as
the rest of the build, and not all of them fit into one environment.
"""

import ast
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

from docutils.nodes import Node
from plain_docstrings import as_rst
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

Function = ast.FunctionDef | ast.AsyncFunctionDef


class BySource(SphinxDirective):
    """The directive."""

    required_arguments = 1

    def run(self) -> list[Node]:
        """The module's documentation."""
        spec = find_spec(self.arguments[0])
        if spec is None or spec.origin is None:
            raise self.error(f"there is no module {self.arguments[0]}")
        self.env.note_dependency(spec.origin)
        module = ast.parse(Path(spec.origin).read_text(encoding="utf-8"))
        return self.parse_text_to_nodes("\n".join(lines_of(self.arguments[0], module)))


def lines_of(name: str, module: ast.Module) -> Iterator[str]:
    """A module as RST."""
    yield from described(f"py:module:: {name}", module, "", is_nested=False)
    for thing in module.body:
        if isinstance(thing, ast.ClassDef) and not thing.name.startswith("_"):
            members = {f.name: f for f in thing.body if isinstance(f, Function)}
            start = members.get("__init__")
            yield from described(
                f"py:class:: {thing.name}{signature(start, 1) if start else ''}", thing, ""
            )
            for function in members.values():
                if not function.name.startswith("_"):
                    yield from described_function("py:method", function, "   ", 1)
        elif isinstance(thing, Function) and not thing.name.startswith("_"):
            yield from described_function("py:function", thing, "", 0)


def described_function(kind: str, function: Function, indent: str, n_bound: int) -> Iterator[str]:
    """A function or method; a property shows no arguments, a static method all."""
    decorators = {ast.unparse(decorator) for decorator in function.decorator_list}
    if decorators & {"property", "cached_property"}:
        yield from described(f"py:property:: {function.name}", function, indent)
        return
    n_bound = 0 if "staticmethod" in decorators else n_bound
    yield from described(
        f"{kind}:: {function.name}{signature(function, n_bound)}", function, indent
    )


def signature(function: Function, n_bound: int) -> str:
    """Arguments with their types and defaults, the first `n_bound` left out, and what it gives."""
    arguments = function.args
    if n_bound:
        named = arguments.posonlyargs or arguments.args
        del named[:n_bound]
    gives = f" -> {ast.unparse(function.returns)}" if function.returns else ""
    return f"({ast.unparse(arguments)}){'' if function.name == '__init__' else gives}"


def described(
    directive: str,
    thing: ast.Module | ast.ClassDef | Function,
    indent: str,
    *,
    is_nested: bool = True,
) -> Iterator[str]:
    """A directive, and the docstring inside it or, for a module, after it."""
    inner = f"{indent}   " if is_nested else ""
    yield from ("", f"{indent}.. {directive}", "")
    yield from (
        f"{inner}{line}".rstrip() for line in as_rst(ast.get_docstring(thing) or "").split("\n")
    )
    yield ""


def setup(app: Sphinx) -> None:
    """Sphinx calls this."""
    app.add_directive("by-source", BySource)
