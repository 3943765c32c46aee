"""Locks between processes.

In: the path of a lock file. Out: a context that one process at a time can enter. The system
releases the lock when its process ends, even if it is killed; the empty lock file stays. On a file
system without `flock`, filelock uses a SoftFileLock: a file that exists while the lock is held.
That of a killed process is removed by the next one on the same host, but not on another host.
"""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from elmo.errors import ConfigError, WriteError


@contextmanager
def exclusive(path: Path, *, wait: bool = False) -> Iterator[None]:
    """Hold the lock file at `path`; if another process has it, wait for it or raise ConfigError."""
    lock = FileLock(path, timeout=-1 if wait else 0, thread_local=False)
    try:
        lock.acquire()
    except Timeout as error:
        raise ConfigError(
            f"{path.parent}: another process is writing here; wait until it has finished"
        ) from error
    except OSError as error:
        raise WriteError(f"{path}: cannot be locked ({error.strerror or error})") from error
    try:
        yield
    finally:
        lock.release()
