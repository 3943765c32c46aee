"""The public API, which semantic versioning covers. After an intended change, update the snapshot:

python tests/test_public_api.py
"""

import ast
import dataclasses
import inspect
import json
from collections.abc import Iterator
from dataclasses import is_dataclass
from importlib import import_module
from pathlib import Path

import click
import pytest

import elmo
from elmo.cli.main import VERBS, cli

SNAPSHOT = Path(__file__).with_name("public_api.txt")
PACKAGES = (
    "elmo",
    "elmo.inference",
    "elmo.pretraining",
    "elmo.search",
    "elmo.tasks",
    "elmo.text",
    "elmo.training",
    "elmo.vectors",
    "elmo.vectors.corpus",
)
# Adapters are parsed instead of imported, because not all of their libraries are installed.
ADAPTERS = Path(elmo.__file__).parent / "adapters"


def public_names() -> Iterator[str]:
    yield "# Names"
    for package in PACKAGES:
        module = import_module(package)
        for name in sorted(module.__all__):
            yield from members(f"{package}.{name}", getattr(module, name))
    for path in sorted(ADAPTERS.glob("[!_]*.py")):
        for node in ast.parse(path.read_text(encoding="utf-8")).body:
            is_public = isinstance(node, ast.FunctionDef | ast.ClassDef) and node.name[0] != "_"
            if is_public and path.stem != "onnx_graph":
                yield f"elmo.adapters.{path.stem}.{node.name}"


def members(called: str, thing: object) -> Iterator[str]:
    """Yield a name and, if it is a class, those of its methods and fields."""
    yield f"{called}{arguments(thing) if inspect.isfunction(thing) else ''}"
    if not inspect.isclass(thing) or issubclass(thing, Exception):
        return
    fields = {f.name: None for f in dataclasses.fields(thing)} if is_dataclass(thing) else {}
    for attribute, member in sorted({**fields, **vars(thing)}.items()):
        if attribute.startswith("_"):
            continue
        function = member.__func__ if isinstance(member, staticmethod | classmethod) else member
        is_method = inspect.isfunction(function)
        yield f"{called}.{attribute}{arguments(function) if is_method else ''}"


def arguments(function: object) -> str:
    """Names and kinds of the arguments, not their types."""
    bare = [
        parameter.replace(annotation=inspect.Parameter.empty)
        for parameter in inspect.signature(function).parameters.values()
        if parameter.name != "self"
    ]
    return str(inspect.Signature(bare))


def command_line() -> Iterator[str]:
    yield "# Command line"
    context = click.Context(cli, info_name="elmo")
    for verb in VERBS:
        yield from parameters(cli.get_command(context, verb), context, f"elmo {verb}")


def parameters(command: click.Command, context: click.Context, called: str) -> Iterator[str]:
    """Yield the parameters of a command and of its subcommands."""
    for parameter in command.params:
        shown = (parameter.metavar or parameter.name.upper(),)
        names = parameter.opts if isinstance(parameter, click.Option) else shown
        yield f"{called} {' '.join(names)}"
    if isinstance(command, click.Group):
        for name in command.list_commands(context):
            yield from parameters(command.get_command(context, name), context, f"{called} {name}")


def public_api() -> str:
    return "\n".join([*public_names(), "", *command_line()]) + "\n"


def test_the_public_api_is_what_was_last_agreed():
    assert public_api() == SNAPSHOT.read_text(encoding="utf-8")


@pytest.mark.parametrize("package", PACKAGES)
def test_unknown_names_are_refused_as_python_does(package):
    module = import_module(package)
    with pytest.raises(AttributeError, match=f"module '{package}' has no attribute 'Elmos'"):
        _ = module.Elmos
    assert set(module.__all__) <= {*dir(module), *vars(module)}


def test_keys_of_a_model_folder_are_those_of_its_version(elmo, tmp_path):
    elmo.save(tmp_path / "model")
    assert {path.name for path in (tmp_path / "model").iterdir()} == {
        "README.md",
        "config.json",
        "model.safetensors",
    }
    config = json.loads((tmp_path / "model" / "config.json").read_text())
    assert set(config) == {"format_version", "bilm", "head", "mixes"}
    assert set(config["bilm"]) == {"char_cnn", "lstm", "directions", "lexicon"}


if __name__ == "__main__":
    SNAPSHOT.write_text(public_api(), encoding="utf-8")
