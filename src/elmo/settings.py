"""Settings as frozen dataclasses: read, checked, written.

In: TOML written by people, JSON written by machines, or `name=value` from a command line.
Out: a checked dataclass; every problem found is reported at once, unknown keys with the nearest
known one.
"""

import dataclasses
import difflib
import json
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, TypeVar

from elmo.errors import ConfigError

Settings = TypeVar("Settings")


def from_mapping(kind: type[Settings], mapping: Mapping[str, Any], where: str) -> Settings:
    """Make settings of `kind` from nested mappings; `where` names their source in errors."""
    problems: list[str] = []
    settings = _build(kind, mapping, "", problems)
    if problems:
        raise ConfigError(f"{where}: " + "; ".join(problems) + "; correct the settings")
    assert isinstance(settings, kind)
    return settings


def to_mapping(settings: Any) -> dict[str, Any]:  # noqa: ANN401 - any settings dataclass
    """Nested plain values, ready for JSON; `from_mapping` reads them back."""
    mapping = json.loads(json.dumps(dataclasses.asdict(settings)))
    assert isinstance(mapping, dict)
    return mapping


def read_toml(path: Path) -> dict[str, Any]:
    """Nested mappings of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror}); name a TOML file") from error
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path}: not TOML ({error}); correct the file") from error


def merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Nested mappings with those above written over those below."""
    merged = dict(below)
    for key, value in above.items():
        is_group = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if is_group else value
    return merged


def apply_sets(mapping: dict[str, Any], sets: Sequence[str]) -> dict[str, Any]:
    """A copy of nested mappings with `a.b=value` entries written into it."""
    changed: dict[str, Any] = json.loads(json.dumps(mapping))
    for entry in sets:
        path, has_value, text = entry.partition("=")
        if not has_value or not path.strip():
            raise ConfigError(f"--set {entry!r}: expected name=value, such as train.seed=7")
        *folders, name = path.strip().split(".")
        place = changed
        for folder in folders:
            place = place.setdefault(folder, {})
            if not isinstance(place, dict):
                raise ConfigError(
                    f"--set {entry!r}: {folder!r} is a value, not a group of settings"
                )
        place[name] = _parse_value(text.strip())
    return changed


def _parse_value(text: str) -> Any:  # noqa: ANN401 - whatever TOML can hold
    """A TOML value; a bare word is a string, and `none` is an absent value."""
    if text.lower() == "none":
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _build(kind: Any, mapping: Any, prefix: str, problems: list[str]) -> Any:  # noqa: ANN401
    if not isinstance(mapping, Mapping):
        problems.append(f"{prefix[:-1] or 'the settings'} is {mapping!r}, expected a group of keys")
        return None
    hints = typing.get_type_hints(kind)
    values = {}
    for key, value in mapping.items():
        if key not in hints:
            problems.append(f"unknown key {prefix + key!r}{nearest(key, hints)}")
            continue
        values[key] = _convert(hints[key], value, prefix + key, problems)
    missing = [
        field.name
        for field in dataclasses.fields(kind)
        if field.default is dataclasses.MISSING
        and field.default_factory is dataclasses.MISSING
        and field.name not in values
    ]
    problems.extend(f"key {prefix + name!r} is missing" for name in missing)
    if problems:
        return None
    try:
        return kind(**values)
    except ConfigError as error:
        problems.append(str(error))
        return None


def _convert(hint: Any, value: Any, name: str, problems: list[str]) -> Any:  # noqa: ANN401
    if dataclasses.is_dataclass(hint):
        return _build(hint, value, name + ".", problems)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        if value is None and types.NoneType in arguments:
            return None
        return _convert(
            next(a for a in arguments if a is not types.NoneType), value, name, problems
        )
    if origin is tuple and isinstance(value, list | tuple):
        hints = [arguments[0]] * len(value) if arguments[-1] is Ellipsis else list(arguments)
        if len(hints) == len(value):
            pairs = zip(hints, value, strict=True)
            return tuple(_convert(h, v, name, problems) for h, v in pairs)
    elif origin is Literal:
        if value in arguments:
            return value
    elif hint is float and isinstance(value, int | float) and not isinstance(value, bool):
        return float(value)
    elif isinstance(hint, type) and type(value) is hint:
        return value
    problems.append(f"{name} is {value!r}, expected {_describe(hint)}")
    return None


def _describe(hint: Any) -> str:  # noqa: ANN401
    if typing.get_origin(hint) is Literal:
        return " or ".join(str(choice) for choice in typing.get_args(hint))
    return hint.__name__ if isinstance(hint, type) else str(hint)


def nearest(key: str, known: Iterable[str]) -> str:
    """What an unknown key was perhaps meant to be, for the end of a message."""
    names = list(known)
    close = difflib.get_close_matches(key, names, n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else f" (expected {', '.join(names)})"


def not_positive(settings: Any, *names: str) -> list[str]:  # noqa: ANN401
    """A problem for each named field that is given and not above zero."""
    found = {name: getattr(settings, name) for name in names}
    return [
        f"{name} is {value}, expected a positive number"
        for name, value in found.items()
        if value is not None and not value > 0
    ]


def raise_problems(settings: object, problems: list[str]) -> None:
    """Report all problems of some settings at once, if there are any."""
    if problems:
        raise ConfigError(f"{type(settings).__name__}: " + "; ".join(problems))
