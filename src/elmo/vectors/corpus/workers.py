"""Who writes the shards of a corpus: this process, or several of this machine.

In: what is wanted and units of work. Out: shards, in the order in which they are done.
"""

import multiprocessing
import os
import signal
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import Protocol

import torch

from elmo.errors import DataError
from elmo.vectors.corpus.shards import Shard, ShardWriter, Wanted
from elmo.vectors.corpus.units import Cut, NamedFile, Unit, cut_here


class Workers(Protocol):
    """Anything that has a corpus cut into units and their shards written."""

    def cut(self, cut: Cut, files: Sequence[NamedFile]) -> Iterator[list[Unit]]:
        """The units of each file, in any order."""

    def write(self, wanted: Wanted, units: Sequence[Unit]) -> Iterator[Shard]:
        """Write the shard of each unit that is not there and whole."""


class LocalWorkers:
    """Processes of this machine, between which torch's threads are divided."""

    def __init__(self, n_workers: int = 1) -> None:
        self.n_workers = n_workers

    def cut(self, cut: Cut, files: Sequence[NamedFile]) -> Iterator[list[Unit]]:
        """Read with all cores: the model does not run yet."""
        return cut_here(cut, files)

    def write(self, wanted: Wanted, units: Sequence[Unit]) -> Iterator[Shard]:
        """Write in this process if it is the only one."""
        n_workers = min(self.n_workers, len(units))
        if n_workers == 1:
            yield from map(ShardWriter(wanted).write, units)
            return
        n_threads = max(1, torch.get_num_threads() // n_workers)
        # Torch does not outlive a fork.
        context = multiprocessing.get_context("spawn")
        with ProcessPoolExecutor(n_workers, context, _begin, (wanted, n_threads)) as pool:
            pending = [pool.submit(_write, unit) for unit in units]
            try:
                for done in as_completed(pending):
                    yield done.result()
            except BrokenProcessPool as error:
                raise DataError(
                    "a worker was killed, perhaps because there was too little memory; expected "
                    "all to live; start again to go on, with fewer workers"
                ) from error
            finally:
                pool.shutdown(wait=False, cancel_futures=True)


_writer: ShardWriter | None = None  # of this process, if it is a worker


def _begin(wanted: Wanted, n_threads: int) -> None:
    """What a worker process does first."""
    global _writer
    # Ctrl-C reaches all processes of a terminal: a worker ends by it without a word.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, daemon=True).start()
    torch.set_num_threads(n_threads)
    _writer = ShardWriter(wanted)


def _end_with_parent() -> None:
    """A worker whose parent was killed would wait for work for ever."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    parent.join()
    os._exit(1)


def _write(unit: Unit) -> Shard:
    assert _writer is not None
    return _writer.write(unit)
