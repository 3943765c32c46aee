"""Paths on this machine or in remote storage (`s3://...`), which fsspec opens.

In: a path or a URL as a user writes it. Out: a `StoragePath`, whose address finds the same file
from another process or machine.
"""

import os
import posixpath
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import fsspec
from fsspec.implementations.local import LocalFileSystem

from elmo.errors import ConfigError


@dataclass(frozen=True)
class StoragePath:
    """The path of a file or folder, which need not exist."""

    filesystem: Any  # an fsspec file system
    path: str

    @staticmethod
    def of(address: str | os.PathLike[str]) -> "StoragePath":
        """The storage path of a path or a URL."""
        address = os.fspath(address)
        if "://" not in address:  # a path may contain characters that are special to fsspec
            return StoragePath(LocalFileSystem(), Path(os.path.abspath(address)).as_posix())
        try:
            return StoragePath(*fsspec.core.url_to_fs(address))
        except (ValueError, ImportError) as error:
            raise ConfigError(
                f"{address}: cannot be opened ({error}); expected a path, or a URL that fsspec "
                "supports"
            ) from error

    @property
    def is_local(self) -> bool:
        """Whether it is on this machine's own file system."""
        return isinstance(self.filesystem, LocalFileSystem)

    @property
    def address(self) -> str:
        """The path if it is local, else the URL."""
        return self.path if self.is_local else str(self.filesystem.unstrip_protocol(self.path))

    @property
    def name(self) -> str:
        """The last part of the path."""
        return posixpath.basename(self.path)

    def child(self, name: str) -> "StoragePath":
        """The path of a file in this folder."""
        return StoragePath(self.filesystem, posixpath.join(self.path, name))

    def contains(self, other: "StoragePath") -> bool:
        """Whether another path is this one or below it."""
        is_below = f"{other.path}/".startswith(f"{self.path.rstrip('/')}/")
        return type(self.filesystem) is type(other.filesystem) and is_below

    def files(self) -> dict[str, "StoragePath"]:
        """All files below this folder by their relative names, sorted; hidden files and files in
        hidden folders are left out.
        """
        self.filesystem.invalidate_cache()  # another process may have written in the meantime
        found = self.filesystem.find(self.path)
        names = sorted(posixpath.relpath(path, self.path) for path in found)
        return {
            name: self.child(name)
            for name in names
            if not any(part.startswith(".") for part in name.split("/"))
        }
