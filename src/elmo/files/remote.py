"""Where files lie: a path of this machine, or an address (`s3://...`) that fsspec opens.

In: a path or an address as a user writes it. Out: a `Place`, which can be handed to another process
or machine by its address.
"""

import os
import posixpath
from dataclasses import dataclass
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from elmo.errors import ConfigError


@dataclass(frozen=True)
class Place:
    """A file or folder, which need not be there."""

    system: Any  # of fsspec
    path: str

    @property
    def is_local(self) -> bool:
        """Whether it lies on a file system of this machine."""
        return isinstance(self.system, LocalFileSystem)

    @property
    def address(self) -> str:
        """What finds this place from anywhere."""
        return self.path if self.is_local else str(self.system.unstrip_protocol(self.path))

    @property
    def name(self) -> str:
        """The last part of the path."""
        return posixpath.basename(self.path)

    def child(self, name: str) -> "Place":
        """What lies under this folder by that name."""
        return Place(self.system, posixpath.join(self.path, name))

    def holds(self, other: "Place") -> bool:
        """Whether another place is this one or lies under it."""
        is_under = f"{other.path}/".startswith(f"{self.path.rstrip('/')}/")
        return type(self.system) is type(other.system) and is_under

    def files(self) -> dict[str, "Place"]:
        """All files under this folder by their names in it, in the order of these; hidden ones
        and those in hidden folders are left out.
        """
        self.system.invalidate_cache()  # another process may have written since it was listed
        names = sorted(posixpath.relpath(path, self.path) for path in self.system.find(self.path))
        return {
            name: self.child(name)
            for name in names
            if not any(part.startswith(".") for part in name.split("/"))
        }


def find_place(address: str | os.PathLike[str]) -> Place:
    """The place of a path or an address."""
    address = os.fspath(address)
    if "://" not in address:  # a path may hold characters that mean something to fsspec
        return Place(LocalFileSystem(), os.path.abspath(address))
    try:
        return Place(*fsspec.core.url_to_fs(address))
    except (ValueError, ImportError) as error:
        raise ConfigError(
            f"{address}: cannot be reached ({error}); expected a path, or an address that fsspec "
            "knows; correct it, or install what fsspec needs for it"
        ) from error
