"""Disks that fill up while `elmo` runs: a small tmpfs if one can be mounted, else a limit on the
size of each written file.

As a program: run commands in one process, each with a given amount of free space, and print their
results. A crash shows as the exit code of the program.
"""

import contextlib
import hashlib
import io
import json
import os
import resource
import subprocess
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent.parent
DISK_BYTES = 64 * 2**20
FILLER = "filler"


@dataclass(frozen=True)
class SmallDisk:
    """A folder on a small disk, or one whose files cannot be large."""

    folder: Path
    is_mounted: bool

    def runs(
        self, commands: Sequence[tuple[Sequence[object], Sequence[float | None]]]
    ) -> list[Any]:
        """Run each `elmo` command once per share, with that share of the needed space free.

        None is unlimited space. The needed space is what such a run of the command wrote or, before
        the first one, what the previous command needed. Returns, for each run of each command, its
        exit code, its messages, and the hash of each file after it.
        """
        words = [[list(map(str, arguments)), shares] for arguments, shares in commands]
        program = [sys.executable, "-m", "tests.cli.small_disks", str(self.folder)]
        done = subprocess.run(
            [*program, json.dumps([self.is_mounted, words])],
            capture_output=True,
            text=True,
            cwd=ROOT,
            env=os.environ | {"OMP_NUM_THREADS": "1", "PYTHONPATH": os.pathsep.join(sys.path)},
            check=False,
        )
        assert done.returncode == 0, (done.returncode, done.stderr)
        return json.loads(done.stdout)

    def leave(self, n_bytes: int | None) -> None:
        """Leave `n_bytes` free, or all space if None."""
        if not self.is_mounted:
            limit = resource.RLIM_INFINITY if n_bytes is None else n_bytes
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit, resource.RLIM_INFINITY))
            return
        filler = self.folder / FILLER
        filler.unlink(missing_ok=True)
        if n_bytes is not None:
            found = os.statvfs(self.folder)
            with filler.open("wb") as file:
                n_filled = found.f_bavail * found.f_frsize - n_bytes
                os.posix_fallocate(file.fileno(), 0, max(1, n_filled))

    def size(self) -> int:
        """The total size of all files, or the largest one if the size of files is limited."""
        sizes = [path.stat().st_size for path in self.folder.rglob("*") if path.is_file()]
        return sum(sizes) if self.is_mounted else max(sizes, default=0)

    def hashes(self) -> dict[str, str]:
        """The hash of each file, including hidden ones; an empty string for each folder."""
        return {
            str(path.relative_to(self.folder)): ""
            if path.is_dir()
            else hashlib.sha256(path.read_bytes()).hexdigest()
            for path in sorted(self.folder.rglob("*"))
        }


@contextlib.contextmanager
def small_disk(folder: Path, *, may_mount: bool = True) -> Iterator[SmallDisk]:
    """A new folder, on a disk of its own if that is allowed."""
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)]
    try:
        is_mounted = may_mount and not subprocess.run(mount, capture_output=True).returncode
    except OSError:  # there is no such command
        is_mounted = False
    try:
        yield SmallDisk(folder, is_mounted)
    finally:
        if is_mounted:
            subprocess.run(["umount", "--lazy", str(folder)], check=True)


def run(disk: SmallDisk, arguments: list[str], messages: io.StringIO) -> list[Any]:
    """The exit code, messages and hashes of one run."""
    from elmo.cli.main import main as elmo

    messages.seek(0)
    messages.truncate()
    with contextlib.redirect_stderr(messages), contextlib.redirect_stdout(io.StringIO()):
        try:
            elmo(arguments)
        except SystemExit as left:
            code = left.code or 0
    disk.leave(None)
    return [code, messages.getvalue(), disk.hashes()]


def main(folder: str, settings: str) -> None:
    """Run the commands and print their results as JSON."""
    is_mounted, commands = json.loads(settings)
    disk = SmallDisk(Path(folder), is_mounted)
    messages, results, n_needed = io.StringIO(), [], 0
    for arguments, shares in commands:
        results.append([])
        for share in shares:
            n_before = disk.size() if is_mounted else 0
            disk.leave(None if share is None else int(share * n_needed))
            results[-1].append(run(disk, arguments, messages))
            if share is None:
                n_needed = max(n_needed if len(results[-1]) > 1 else 0, disk.size() - n_before)
            sys.stderr.write(f"{arguments} {share} {results[-1][-1][:2]}\n")
    sys.stdout.write(json.dumps(results))


if __name__ == "__main__":
    main(*sys.argv[1:])
