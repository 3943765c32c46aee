"""Archives (.zip, .tar, compressed .tar), read member by member without extracting them.

In: the path of an archive. Out: `Member`s, which are read like paths; nothing is written to disk.
Rejected before any member is read: names that point outside the archive, links and devices, members
that unpack to far more than is stored.
"""

import bz2
import gzip
import lzma
import stat
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import IO, Any, cast

from elmo.errors import CheckpointError

# Weights hardly compress, and text to a third; what unpacks to more than this is no model.
MAX_EXPANSION = 20
FREE_BYTES = 64 * 2**20  # small files may compress well
MAX_MEMBERS = 10_000
LARGEST_HEADER = 2**20  # bytes of the header of a member in a tar file
TAR_ENDINGS = (".tar", ".tar.gz", ".tgz", ".tar.bz2", ".tar.xz")

# A damaged member fails in the decompressor; an encrypted one or a rare method cannot be read.
BROKEN_ARCHIVE = (
    zipfile.BadZipFile,
    tarfile.TarError,
    zlib.error,
    lzma.LZMAError,
    EOFError,
    OSError,
    UnicodeDecodeError,
    RuntimeError,
    NotImplementedError,
    ValueError,
    OverflowError,
)


@dataclass(frozen=True)
class Entry:
    """A file in an archive: its name, its unpacked size, and its offset in a tar file."""

    name: str
    n_bytes: int
    offset: int = 0


class Archive:
    """An archive's files by their names."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._is_zip = zipfile.is_zipfile(path)

    @cached_property
    def entries(self) -> dict[PurePosixPath, Entry]:
        """All files that are not hidden (macOS adds a hidden file beside each)."""
        found: dict[PurePosixPath, Entry] = {}
        n_allowed = FREE_BYTES + MAX_EXPANSION * self.path.stat().st_size
        try:
            for number, entry in enumerate(self._list(n_allowed)):
                n_allowed -= entry.n_bytes
                if n_allowed < 0 or number >= MAX_MEMBERS:
                    raise self._refusal(
                        f"unpacks to far more than its size, at member {entry.name!r}"
                    )
                inside = self._check_name(entry.name)
                if inside in found:
                    raise self._refusal(f"has two members {entry.name!r}")
                if not inside.name.startswith("."):
                    found[inside] = entry
        except BROKEN_ARCHIVE as error:
            raise self._broken(error) from error
        return found

    def folders(self) -> list["Member"]:
        """All folders, the shallowest first."""
        folders = {folder for path in self.entries for folder in path.parents}
        return [Member(self, f) for f in sorted(folders, key=lambda f: (len(f.parts), f))]

    def read(self, inside: PurePosixPath) -> bytes:
        entry = self.entries[inside]
        try:
            if self._is_zip:
                with zipfile.ZipFile(self.path) as archive:
                    return archive.read(entry.name)
            with self._open_tar() as file:
                file.seek(entry.offset)
                content = file.read(entry.n_bytes)
        except BROKEN_ARCHIVE as error:
            raise self._broken(error) from error
        if len(content) != entry.n_bytes:
            raise self._broken(f"{inside} ends early")
        return content

    def _list(self, n_allowed: int) -> Iterator[Entry]:
        if self._is_zip:
            with zipfile.ZipFile(self.path) as archive:
                for item in archive.infolist():
                    if stat.S_ISLNK(item.external_attr >> 16):
                        raise self._refusal(f"member {item.filename!r} is a link")
                    if not item.is_dir():
                        yield Entry(item.filename, item.file_size)
            return
        with (
            _BoundedReads(self._open_tar(), n_allowed) as file,
            tarfile.open(fileobj=file, mode="r:") as tar,
        ):
            for member in tar:
                if not member.isdir() and (not member.isreg() or member.issparse()):
                    raise self._refusal(f"member {member.name!r} is no plain file")
                if not member.isdir():
                    yield Entry(member.name, member.size, member.offset_data)

    def _open_tar(self) -> IO[bytes]:
        with self.path.open("rb") as file:
            start = file.read(6)
        if start.startswith(b"\x1f\x8b"):
            return cast(IO[bytes], gzip.open(self.path))
        if start.startswith(b"BZh"):
            return bz2.open(self.path)
        if start == b"\xfd7zXZ\x00":
            return lzma.open(self.path)
        return self.path.open("rb")

    def _check_name(self, name: str) -> PurePosixPath:
        path = PurePosixPath(name)
        is_outside = path.is_absolute() or ".." in path.parts or PureWindowsPath(name).drive
        if is_outside or "\\" in name or "\0" in name or path == PurePosixPath():
            raise self._refusal(f"member {name!r} points out of the archive")
        return path

    def _refusal(self, what: str) -> CheckpointError:
        return CheckpointError(f"{self.path}: {what}, expected plain files; do not trust it")

    def _broken(self, error: object) -> CheckpointError:
        return CheckpointError(
            f"{self.path}: a broken archive ({error}), expected a whole .zip or .tar.gz; "
            "download it again"
        )


class _BoundedReads:
    """A tar file that limits the size of a read and the total that is unpacked.

    `tarfile` seeks past the members and reads whole headers, however long they claim to be.
    """

    def __init__(self, file: IO[bytes], n_allowed: int) -> None:
        self._file = file
        self._n_allowed = n_allowed

    def read(self, n_bytes: int) -> bytes:
        if n_bytes > LARGEST_HEADER:
            raise tarfile.ReadError(f"a header of {n_bytes} bytes")
        return self._file.read(n_bytes)

    def seek(self, place: int) -> int:
        if place > self._n_allowed:
            raise tarfile.ReadError("unpacks to far more than its size")
        return self._file.seek(place)

    def tell(self) -> int:
        return self._file.tell()

    def __enter__(self) -> Any:  # noqa: ANN401 - as much of a file as tarfile needs
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()


@dataclass(frozen=True)
class Member:
    """A file or folder in an archive, with the part of the `Path` interface that readers need."""

    archive: Archive
    inside: PurePosixPath

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.inside.name

    @property
    def suffix(self) -> str:
        return self.inside.suffix

    @property
    def parent(self) -> "Member":
        return Member(self.archive, self.inside.parent)

    def with_name(self, name: str) -> "Member":
        return Member(self.archive, self.inside.with_name(name))

    def __truediv__(self, name: str) -> "Member":
        return Member(self.archive, self.inside / name)

    def is_file(self) -> bool:
        """Whether the archive has such a file."""
        return self.inside in self.archive.entries

    def is_dir(self) -> bool:
        """Whether the archive has files below it."""
        return any(self.inside in path.parents for path in self.archive.entries)

    def iterdir(self) -> Iterator["Member"]:
        """The files and folders in it."""
        depth = len(self.inside.parts)
        for part in sorted(
            {p.parts[depth] for p in self.archive.entries if self.inside in p.parents}
        ):
            yield self / part

    def n_bytes(self) -> int:
        return self.archive.entries[self.inside].n_bytes

    def read_bytes(self) -> bytes:
        return self.archive.read(self.inside)

    def __str__(self) -> str:
        return str(PurePosixPath(str(self.archive.path)) / self.inside)


def is_archive(path: Path) -> bool:
    """Whether a file is a supported archive, and not a PyTorch file, which may be a zip too."""
    if zipfile.is_zipfile(path):
        return not _is_torch_file(path)
    return path.name.endswith(TAR_ENDINGS)


def _is_torch_file(path: Path) -> bool:
    try:
        with zipfile.ZipFile(path) as archive:
            return any(PurePosixPath(name).name == "data.pkl" for name in archive.namelist())
    except BROKEN_ARCHIVE:
        return False
