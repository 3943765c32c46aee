"""Settings of the network as frozen dataclasses, and the reading and writing of any such settings.

In: TOML written by people, JSON written by machines, or `name=value` from a command line.
Out: a checked dataclass; every problem found is reported at once, unknown keys with the nearest
known one. Presets are functions: `original()`, `medium()`, `small()`, `tiny()`.
"""

import dataclasses
import difflib
import json
import tomllib
import types
import typing
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from elmo.errors import ConfigError

Settings = TypeVar("Settings")
Direction = Literal["forward", "backward"]

# The filters of every released model: [width in characters, number of filters].
RELEASED_FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))


@dataclass(frozen=True, kw_only=True, slots=True)
class CharCnnConfig:
    """How a word's characters become one vector."""

    char_dim: Annotated[int, "width of a character's vector"] = 16
    filters: Annotated[tuple[tuple[int, int], ...], "[width, number] of each convolution"] = (
        RELEASED_FILTERS
    )
    n_highways: Annotated[int, "highway layers after the convolutions"] = 2
    activation: Annotated[Literal["relu", "tanh"], "after the convolutions"] = "relu"
    max_characters: Annotated[int, "bytes of a word that are read, its two markers included"] = 50

    def __post_init__(self) -> None:
        """Check all fields, so that a network can be built from any instance."""
        widths = [width for width, _ in self.filters]
        raise_problems(
            self,
            not_positive(self, "char_dim")
            + ([] if self.n_highways >= 0 else [f"n_highways is {self.n_highways}, expected >= 0"])
            + (
                []
                if self.max_characters >= 3
                else [f"max_characters is {self.max_characters}, expected >= 3"]
            )
            + ([] if self.filters else ["filters is empty, expected at least one [width, number]"])
            + [f"filter is {pair}, expected numbers >= 1" for pair in self.filters if min(pair) < 1]
            + [
                f"filter width is {width}, expected at most max_characters {self.max_characters}"
                for width in widths
                if width > self.max_characters
            ],
        )

    @property
    def n_filters(self) -> int:
        """Width of the concatenated convolutions."""
        return sum(number for _, number in self.filters)


@dataclass(frozen=True, kw_only=True, slots=True)
class LexiconConfig:
    """What a model knows by lists of its own, beside or in place of the bytes of words."""

    n_words: Annotated[int | None, "words of its list, the three reserved ones included"] = None
    word_dim: Annotated[int | None, "width of a listed word's vector"] = None
    n_characters: Annotated[int | None, "Unicode characters of its list; absent: bytes"] = None
    has_projection: Annotated[bool, "a linear layer over words and characters together"] = False

    def __post_init__(self) -> None:
        """Check all fields, so that a network can be built from any instance."""
        raise_problems(
            self,
            not_positive(self, "n_words", "word_dim", "n_characters")
            + (
                []
                if (self.n_words is None) == (self.word_dim is None)
                else ["one of n_words and word_dim is absent, expected both or none"]
            ),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class LstmConfig:
    """The recurrent layers of one direction; both directions have the same shape."""

    dim: Annotated[int, "cells of a layer"] = 4096
    projection_dim: Annotated[int, "width of a layer's output and of a token vector"] = 512
    n_layers: Annotated[int, "layers in a direction; 0: token vectors alone"] = 2
    cell_clip: Annotated[float | None, "cells are clipped to +- this; absent: not clipped"] = 3.0
    projection_clip: Annotated[float | None, "outputs are clipped to +- this"] = 3.0
    has_skip_connections: Annotated[bool, "layers after the first add their input"] = True

    def __post_init__(self) -> None:
        """Check all fields, so that a network can be built from any instance."""
        raise_problems(
            self,
            not_positive(self, "dim", "projection_dim", "cell_clip", "projection_clip")
            + ([] if self.n_layers >= 0 else [f"n_layers is {self.n_layers}, expected >= 0"]),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class BiLMConfig:
    """The whole network: a token layer and the recurrent layers of its directions."""

    char_cnn: Annotated[CharCnnConfig | None, "absent: characters are not read"] = (
        dataclasses.field(default_factory=CharCnnConfig)
    )
    lstm: LstmConfig = dataclasses.field(default_factory=LstmConfig)
    directions: Annotated[tuple[Direction, ...], "the language models it has"] = (
        "forward",
        "backward",
    )
    lexicon: Annotated[LexiconConfig | None, "absent: words are read by their bytes alone"] = None

    def __post_init__(self) -> None:
        """Check what spans groups, and that the directions are a selection in the one order."""
        raise_problems(self, self._token_layer_problems())
        if self.directions not in (("forward", "backward"), ("forward",), ("backward",)):
            raise ConfigError(
                f"directions is {list(self.directions)}, expected forward, backward or both in "
                "this order"
            )

    @property
    def output_dim(self) -> int:
        """Width of a contextual vector: the directions side by side."""
        return len(self.directions) * self.lstm.projection_dim

    def _token_layer_problems(self) -> list[str]:
        lexicon = self.lexicon or LexiconConfig()
        if self.char_cnn is None and lexicon.word_dim is None:
            return ["neither char_cnn nor lexicon.n_words is there: nothing reads the words"]
        if self.char_cnn is None and lexicon.n_characters is not None:
            return ["lexicon.n_characters is there and char_cnn, which reads them, is not"]
        if lexicon.has_projection or lexicon.word_dim is None:
            return []
        if self.char_cnn is not None:
            return ["words and characters are both read, expected lexicon.has_projection = true"]
        if lexicon.word_dim == self.lstm.projection_dim:
            return []
        return [
            f"lexicon.word_dim is {lexicon.word_dim}, expected lstm.projection_dim "
            f"{self.lstm.projection_dim} or lexicon.has_projection = true"
        ]


def original() -> BiLMConfig:
    """The released "original" and 5.5B models: 93.6M parameters."""
    return BiLMConfig()


def medium() -> BiLMConfig:
    """The released "medium" model: 28.0M parameters."""
    return BiLMConfig(
        char_cnn=CharCnnConfig(n_highways=1), lstm=LstmConfig(dim=2048, projection_dim=256)
    )


def small() -> BiLMConfig:
    """The released "small" model: 13.6M parameters."""
    return BiLMConfig(
        char_cnn=CharCnnConfig(n_highways=1), lstm=LstmConfig(dim=1024, projection_dim=128)
    )


def tiny() -> BiLMConfig:
    """A model for tests and first tries: trains in seconds."""
    return BiLMConfig(
        char_cnn=CharCnnConfig(char_dim=8, filters=((1, 8), (2, 16), (3, 32)), n_highways=1),
        lstm=LstmConfig(dim=64, projection_dim=16),
    )


PRESETS = {"original": original, "medium": medium, "small": small, "tiny": tiny}


def preset(size: str) -> BiLMConfig:
    """The preset of that name."""
    if size not in PRESETS:
        raise ConfigError(f"unknown size {size!r}{nearest(size, PRESETS)}; name a preset")
    return PRESETS[size]()


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
