"""The released models that are known by name: `catalog.toml`, checked.

In: a name such as `original`, `many-langs:de`, `nlpl:217`. Out: a `Release`: what it is and the
addresses of its files.
"""

import difflib
import hashlib
import re
import tomllib
from dataclasses import dataclass, field
from functools import cache
from importlib.resources import files
from pathlib import PurePosixPath
from typing import Any
from urllib.parse import unquote, urlsplit

from elmo.errors import ConfigError
from elmo.settings import from_mapping

HUGGING_FACE = "hf:"  # hf:owner/name, hf:owner/name@revision


@dataclass(frozen=True, kw_only=True, slots=True)
class Release:
    """One released model."""

    name: str
    about: str
    languages: tuple[str, ...] = ()
    files: tuple[str, ...] = ()  # addresses; empty if only a page is known
    softmax: str | None = None  # which of the files holds the output words' weights
    vocabulary: str | None = None  # which of the files holds the output words
    license: str | None = None
    page: str | None = None
    hashes: tuple[str, ...] = field(default=())  # SHA-256 of the files, in the same order

    def file_names(self) -> dict[str, str]:
        """The addresses of the files by their names."""
        return {PurePosixPath(unquote(urlsplit(url).path)).name: url for url in self.files}

    def hash_of(self, file_name: str) -> str | None:
        """The SHA-256 of a file; None if it is not known."""
        return dict(zip(self.file_names(), self.hashes, strict=False)).get(file_name)


@cache
def releases() -> dict[str, Release]:
    """All models of the catalog by their names."""
    found: dict[str, Release] = {}
    for family in _families().values():
        defaults = {key: family[key] for key in ("license", "page") if key in family}
        for model in family["models"]:
            release = from_mapping(Release, {**defaults, **model}, "catalog.toml")
            found[release.name] = release
    return found


def find(name: str) -> Release:
    """Find a model by its name; the error for an unknown one lists the nearest names."""
    known = releases()
    if name in known:
        return known[name]
    for prefix, family in _families().items():
        number = re.fullmatch(rf"{prefix}:(\d+)", name)
        if number and "pattern" in family:
            address = family["pattern"].format(number=number[1])
            return Release(name=name, about=family["about"], files=(address,), page=family["page"])
    raise ConfigError(f"{name}: no model of this name; `elmo models` lists them{nearest(name)}")


def of_addresses(*addresses: str) -> Release:
    """Create an entry for a model that is known only by the addresses of its files."""
    digest = hashlib.sha256(" ".join(addresses).encode()).hexdigest()[:16]
    return Release(name=f"address-{digest}", about=addresses[0], files=addresses)


def nearest(name: str) -> str:
    """Suggest similar names, as the end of an error message."""
    close = difflib.get_close_matches(name, [*releases(), "english"], n=3, cutoff=0.5)
    return f" (did you mean {', '.join(close)}?)" if close else ""


def is_name(text: str) -> bool:
    """Whether a text has the form of a released model's name."""
    if text in releases() or text.startswith(HUGGING_FACE):
        return True
    return text.partition(":")[0] in _families() and ":" in text


@cache
def _families() -> dict[str, Any]:
    text = files("elmo.models").joinpath("catalog.toml").read_text(encoding="utf-8")
    families = tomllib.loads(text)["families"]
    assert isinstance(families, dict)
    return families
