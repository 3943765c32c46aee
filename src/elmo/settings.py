"""Settings as frozen dataclasses: read, checked and written in one place.

In: TOML written by people, JSON written by programs, or `name=value` from a command line.
Out: a checked dataclass. All problems are reported together, an unknown key with the nearest known
one and a renamed key with its new name.

A field's annotation declares the allowed values and the help text:
`batch_size: Annotated[PositiveInt, "sequences per step", Renamed("n_rows")] = 32`.
"""

import copy
import dataclasses
import difflib
import json
import operator
import sys
import tomllib
import types
import typing
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from annotated_types import Ge, Gt, Le, Lt, MinLen

from elmo.errors import ConfigError

Settings = TypeVar("Settings")

PositiveInt = Annotated[int, Gt(0)]
NonNegativeInt = Annotated[int, Ge(0)]
Dim = Annotated[int, Gt(0), Le(65_536)]
LayerCount = Annotated[int, Ge(0), Le(100)]
Seed = Annotated[int, Ge(0), Lt(2**32)]
PositiveFloat = Annotated[float, Gt(0)]
NonNegativeFloat = Annotated[float, Ge(0)]
Fraction = Annotated[float, Gt(0), Le(1)]
Rate = Annotated[float, Ge(0), Lt(1)]  # of dropout or decay
Filters = Annotated[tuple[tuple[PositiveInt, Dim], ...], MinLen(1)]

# Supported constraints: the attribute that holds the bound, the comparison, its symbol.
BOUNDS: dict[type, tuple[str, Callable[[Any, Any], bool], str]] = {
    Gt: ("gt", operator.gt, ">"),
    Ge: ("ge", operator.ge, ">="),
    Lt: ("lt", operator.lt, "<"),
    Le: ("le", operator.le, "<="),
}
MAX_INT = 10**9  # the upper bound of integers without an explicit one
MAX_SHOWN = 80  # characters of a wrong value in a message


@dataclasses.dataclass(frozen=True, slots=True)
class Renamed:
    """Marks a field that had another name in an earlier version."""

    old: str


def checked(kind: type[Settings]) -> type[Settings]:
    """Check every field against its annotation when an instance of the dataclass is created.

    Apply it below `@dataclass`. The class's own `__post_init__` runs afterwards, for conditions on
    several fields.
    """
    check_more: Callable[[object], None] | None = getattr(kind, "__post_init__", None)

    def check(self: object) -> None:
        reader = _Reader()
        for name, hint in _hints(type(self)).items():
            value = reader.convert(hint, getattr(self, name), name)
            object.__setattr__(self, name, value)  # an int may become a float, a list a tuple
        raise_problems(self, reader.problems)
        if check_more is not None:
            check_more(self)

    setattr(kind, "__post_init__", check)  # noqa: B010 - mypy knows no such method of a type
    return kind


def raise_problems(settings: object, problems: Sequence[str]) -> None:
    """Raise one ConfigError that lists all problems, if there are any."""
    if problems:
        raise ConfigError(f"{type(settings).__name__}: " + "; ".join(problems))


def from_mapping(
    kind: type[Settings], mapping: Mapping[str, Any], where: str, *, accept_old: bool = False
) -> Settings:
    """Build settings of type `kind` from nested mappings; `where` names their source in errors.

    `accept_old`: map keys of earlier versions to their new names instead of rejecting them.
    """
    reader = _Reader(accept_old)
    settings = reader.build(kind, mapping, "")
    if reader.problems:
        raise ConfigError(f"{where}: " + "; ".join(reader.problems))
    assert isinstance(settings, kind)
    return settings


def to_mapping(settings: Any) -> dict[str, Any]:  # noqa: ANN401 - any settings dataclass
    """Convert settings to nested JSON-serializable values, which `from_mapping` reads back."""
    mapping = json.loads(json.dumps(dataclasses.asdict(settings)))
    assert isinstance(mapping, dict)
    return mapping


def read_toml(path: Path) -> dict[str, Any]:
    """Nested mappings of a TOML file."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8-sig"))
    except OSError as error:
        raise ConfigError(f"{path}: cannot be read ({error.strerror})") from error
    except (ValueError, RecursionError) as error:
        raise ConfigError(f"{path}: not TOML ({error})") from error


def merge(below: dict[str, Any], above: dict[str, Any]) -> dict[str, Any]:
    """Merge nested mappings recursively; values of `above` override those of `below`."""
    merged = dict(below)
    for key, value in above.items():
        is_group = isinstance(value, dict) and isinstance(merged.get(key), dict)
        merged[key] = merge(merged[key], value) if is_group else value
    return merged


def apply_sets(mapping: dict[str, Any], sets: Sequence[str]) -> dict[str, Any]:
    """Return a copy of nested mappings with `a.b=value` overrides applied."""
    changed = copy.deepcopy(mapping)
    for entry in sets:
        path, has_value, text = entry.partition("=")
        if not has_value or not path.strip():
            raise ConfigError(f"--set {entry!r}: expected name=value, such as train.seed=7")
        *groups, name = path.strip().split(".")
        group = changed
        for key in groups:
            group = group.setdefault(key, {})
            if not isinstance(group, dict):
                raise ConfigError(f"--set {entry!r}: {key!r} is a value, not a group of settings")
        group[name] = _parse_value(text.strip())
    return changed


def nearest(key: str, known: Iterable[str]) -> str:
    """Suggest the closest known key, or list all keys, as the end of an error message."""
    names = list(known)
    close = difflib.get_close_matches(key, names, n=1, cutoff=0.5)
    return f" (did you mean {close[0]!r}?)" if close else f" (expected {', '.join(names)})"


def describe(hint: Any) -> str:  # noqa: ANN401 - any annotation
    """The values that an annotation allows, such as `int > 0`."""
    hint, markers = _split(hint)
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (types.UnionType, typing.Union):
        kinds = [_annotate(argument, markers) for argument in arguments]
        return " or ".join(map(describe, kinds))
    if origin is Literal:
        return " or ".join(map(str, arguments))
    if origin is tuple and arguments[-1] is Ellipsis:
        return f"list of {describe(arguments[0])}"
    if origin is tuple:
        return f"[{', '.join(map(describe, arguments))}]"
    name = "none" if hint is types.NoneType else hint.__name__
    bounds = " and ".join(f"{sign} {bound:,}" for _, bound, sign in _bounds(markers))
    return f"{name} {bounds}".strip()


def help_text(hint: Any) -> str:  # noqa: ANN401 - any annotation
    """The help text of an annotation; empty if it has none."""
    return next((marker for marker in _split(hint)[1] if isinstance(marker, str)), "")


def _parse_value(text: str) -> Any:  # noqa: ANN401 - whatever TOML can hold
    """Parse a TOML value; other text is a string, and `none` is None."""
    if text.lower() == "none":
        return None
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except (ValueError, RecursionError):
        return text


def _hints(kind: type) -> dict[str, Any]:
    return typing.get_type_hints(kind, include_extras=True)


def _renamed(kind: type) -> dict[str, str]:
    """Map old names to new ones; a subclass that redefines a field need not repeat its old name."""
    return {
        marker.old: name
        for base in kind.__mro__
        if dataclasses.is_dataclass(base)
        for name, hint in _hints(base).items()
        for marker in _split(hint)[1]
        if isinstance(marker, Renamed)
    }


def _split(hint: Any) -> tuple[Any, tuple[Any, ...]]:  # noqa: ANN401
    """Split an annotation into its type and its markers."""
    if typing.get_origin(hint) is Annotated:
        return hint.__origin__, hint.__metadata__
    return hint, ()


def _annotate(hint: Any, markers: tuple[Any, ...]) -> Any:  # noqa: ANN401
    """Apply the markers of a union to one of its members."""
    return hint if hint is types.NoneType or not markers else Annotated[hint, *markers]


def _bounds(markers: Iterable[Any]) -> Iterator[tuple[Callable[[Any, Any], bool], Any, str]]:
    for marker in markers:
        if type(marker) in BOUNDS:
            attribute, compare, sign = BOUNDS[type(marker)]
            yield compare, getattr(marker, attribute), sign


class _Reader:
    """Converts plain values to their annotated types and collects all problems."""

    def __init__(self, accept_old: bool = False) -> None:
        self.problems: list[str] = []
        self._accept_old = accept_old

    def build(self, kind: Any, mapping: Any, prefix: str) -> Any:  # noqa: ANN401
        """Build settings of type `kind`; None if there is a problem with them."""
        if not isinstance(mapping, Mapping):
            return self._refuse(prefix[:-1] or "the settings", mapping, "a group of settings")
        hints, renamed, n_before = _hints(kind), _renamed(kind), len(self.problems)
        values: dict[str, Any] = {}
        for key, value in mapping.items():
            name = str(renamed.get(key, key))
            if name != key and not self._accept_old:
                self.problems.append(f"{prefix + key!r} was renamed to {prefix + name!r}")
            if name in hints:
                values[name] = self.convert(hints[name], value, prefix + name)
            else:
                self.problems.append(f"unknown key {prefix + key!r}{nearest(key, hints)}")
        self.problems += [
            f"key {prefix + field.name!r} is missing"
            for field in dataclasses.fields(kind)
            if field.default is dataclasses.MISSING
            and field.default_factory is dataclasses.MISSING
            and field.name not in values
        ]
        if len(self.problems) > n_before:
            return None
        try:
            return kind(**values)
        except ConfigError as error:
            self.problems.append(str(error))
            return None

    def convert(self, hint: Any, value: Any, name: str) -> Any:  # noqa: ANN401
        """Convert a value to its annotated type; None if it is not allowed."""
        plain, markers = _split(hint)
        origin, arguments = typing.get_origin(plain), typing.get_args(plain)
        if origin in (types.UnionType, typing.Union):
            if value is None and types.NoneType in arguments:
                return None
            given = next(argument for argument in arguments if argument is not types.NoneType)
            return self.convert(_annotate(given, markers), value, name)
        if dataclasses.is_dataclass(plain):
            is_built = isinstance(value, typing.cast(type, plain))
            return value if is_built else self.build(plain, value, name + ".")
        if origin is tuple:
            n_items = len(value) if isinstance(value, list | tuple) else -1
            hints = [arguments[0]] * n_items if arguments[-1] is Ellipsis else list(arguments)
            if n_items != len(hints):
                return self._refuse(name, value, describe(hint))
            if not value and any(isinstance(marker, MinLen) for marker in markers):
                return self._refuse(name, value, "at least one")
            return tuple(map(self.convert, hints, value, [name] * n_items))
        bounds = list(_bounds(markers))
        if not _is_of(plain, value) or not all(compare(value, b) for compare, b, _ in bounds):
            return self._refuse(name, value, describe(hint))
        if plain is float and not abs(value) <= sys.float_info.max:
            return self._refuse(name, value, "a finite number")
        if plain is int and not any(sign[0] == "<" for *_, sign in bounds) and abs(value) > MAX_INT:
            return self._refuse(name, value, f"at most {MAX_INT:,}")
        return float(value) if plain is float else value

    def _refuse(self, name: str, value: object, expected: str) -> None:
        text = repr(value)
        shown = text if len(text) <= MAX_SHOWN else text[: MAX_SHOWN - 3] + "..."
        self.problems.append(f"{name} is {shown}, expected {expected}")


def _is_of(plain: Any, value: object) -> bool:  # noqa: ANN401
    """Whether a value is of a plain type: an int is a float too, a bool is not a number."""
    if typing.get_origin(plain) is Literal:  # True == 1
        return any(value == each and type(value) is type(each) for each in typing.get_args(plain))
    return type(value) in ((int, float) if plain is float else (plain,))
