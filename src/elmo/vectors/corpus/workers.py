"""The workers that write the shards of a corpus: processes of this machine, or a Ray cluster.

In: an `EmbedJob` and chunks of a corpus. Out: shards, in the order of completion; all workers
write the same ones. With Ray, a row of a dataset is a file or a chunk, and actors that load the
model once write the shards. Ray schedules the rows and retries those of a worker that died.
"""

import json
import logging
import multiprocessing
import os
import signal
import socket
import threading
from collections.abc import Callable, Generator, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from dataclasses import asdict
from multiprocessing.connection import Connection
from typing import Any, Protocol

import torch

from elmo.errors import ConfigError, DataError, ElmoError, needs_extra
from elmo.vectors.corpus.chunks import Chunk, NamedFile, SplitFile, split_locally
from elmo.vectors.corpus.shards import EmbedJob, Shard, ShardWriter

Row = dict[str, str]
ShardGenerator = Generator[Shard, None, None]


class Workers(Protocol):
    """Anything that splits files into chunks and writes their shards."""

    def split(self, split: SplitFile, files: Sequence[NamedFile]) -> Iterator[list[Chunk]]:
        """The chunks of each file, in any order."""

    def write(self, job: EmbedJob, chunks: Sequence[Chunk]) -> ShardGenerator:
        """Write the shard of each chunk unless an intact one exists.

        Closing the generator stops the work.
        """


class LocalWorkers:
    """Processes on this machine, which share torch's threads evenly."""

    def __init__(self, n_workers: int = 1) -> None:
        self.n_workers = n_workers

    def split(self, split: SplitFile, files: Sequence[NamedFile]) -> Iterator[list[Chunk]]:
        """Split files with all cores, because the model does not run yet."""
        return split_locally(split, files)

    def write(self, job: EmbedJob, chunks: Sequence[Chunk]) -> ShardGenerator:
        """Write shards; a single worker runs in this process."""
        n_workers = min(self.n_workers, len(chunks))
        if n_workers == 1:
            yield from map(ShardWriter(job).write, chunks)
            return
        n_threads = max(1, torch.get_num_threads() // n_workers)
        # Torch does not work in a forked process.
        context = multiprocessing.get_context("spawn")
        # Workers end when this process closes its end of the pipe, or is killed.
        stopped, running = context.Pipe(duplex=False)
        started = (job, n_threads, stopped)
        with running, ProcessPoolExecutor(n_workers, context, _start_worker, started) as pool:
            pending = [pool.submit(_write, chunk) for chunk in chunks]
            try:
                for done in as_completed(pending):
                    yield done.result()
            except BrokenProcessPool as error:
                raise DataError(
                    "a worker process was killed, perhaps for lack of memory; run the same command "
                    "with fewer workers to resume"
                ) from error
            except BaseException:  # such as Ctrl-C: the other shards are no longer needed
                running.close()
                raise


class RayWorkers:
    """Workers of a Ray cluster, one core each."""

    def __init__(self, address: str | None = None, n_workers: int | None = None) -> None:
        """Use the cluster at `address`, or start a local one; by default, one worker per core.

        A program that has called `ray.init` uses the cluster that it is connected to.
        """
        self._address = address
        self._n_workers = n_workers

    def split(self, split: SplitFile, files: Sequence[NamedFile]) -> Iterator[list[Chunk]]:
        """The chunks of each file; one task per file."""
        data = self._connect()

        def chunks_of(row: Row) -> Row:
            named = row["name"], row["address"]
            return _answer(lambda: [asdict(chunk) for chunk in split(named)])

        rows = [{"name": name, "address": path.address} for name, path in files]
        for chunks in _results(_one_per_block(data, rows).map(chunks_of)):
            yield [Chunk(**chunk) for chunk in chunks]

    def write(self, job: EmbedJob, chunks: Sequence[Chunk]) -> ShardGenerator:
        """Write the shard of each chunk unless an intact one exists."""
        data = self._connect()
        rows = [{"chunk": json.dumps(asdict(chunk))} for chunk in chunks]
        written = _one_per_block(data, rows).map(
            _ShardActor,
            fn_constructor_args=(job,),
            compute=data.ActorPoolStrategy(size=min(self._count(), len(chunks))),
            num_cpus=1,
        )
        for shard in _results(written):
            yield Shard(**shard)

    def _connect(self) -> Any:  # noqa: ANN401 - the module ray.data
        with needs_extra("ray"):
            import ray
            from ray import data
        if not ray.is_initialized():
            _start_ray(self._address, self._n_workers)
        # The caller reports progress.
        data.DataContext.get_current().enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        return data

    def _count(self) -> int:
        import ray

        return self._n_workers or int(ray.cluster_resources().get("CPU", 1))


_writer: ShardWriter | None = None  # of this process, if it is a worker


def _start_worker(job: EmbedJob, n_threads: int, stopped: Connection) -> None:
    global _writer
    # Ctrl-C reaches all processes of a terminal: workers exit without a message.
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    threading.Thread(target=_end_with_parent, args=(stopped,), daemon=True).start()
    torch.set_num_threads(n_threads)
    _writer = ShardWriter(job)


def _end_with_parent(stopped: Connection) -> None:
    """Exit when the parent closes the pipe or dies; it or the next run removes a partial shard."""
    stopped.poll(None)
    os._exit(1)


def _write(chunk: Chunk) -> Shard:
    assert _writer is not None
    return _writer.write(chunk)


class _ShardActor:
    """A Ray actor that writes shards."""

    def __init__(self, job: EmbedJob) -> None:
        torch.set_num_threads(1)
        self._writer = ShardWriter(job)

    def __call__(self, row: Row) -> Row:
        """Write the shard of a chunk."""
        chunk = Chunk(**json.loads(row["chunk"]))
        return _answer(lambda: asdict(self._writer.write(chunk)))


def _one_per_block(data: Any, rows: list[Row]) -> Any:  # noqa: ANN401 - Ray's
    """A dataset with one row per block, the unit that Ray schedules and retries."""
    return data.from_items(rows, override_num_blocks=len(rows))


def _answer(work: Callable[[], object]) -> Row:
    """Return an error that the user can fix as a result, because a retry would not help."""
    try:
        return {"result": json.dumps(work()), "error": ""}
    except ElmoError as error:
        return {"result": "", "error": str(error)}


def _results(dataset: Any) -> Iterator[Any]:  # noqa: ANN401 - Ray's, JSON's
    for row in dataset.iter_rows():
        if row["error"]:
            raise ElmoError(row["error"])
        yield json.loads(row["result"])


def _start_ray(address: str | None, n_workers: int | None) -> None:
    """Connect to a cluster, or start one with this machine's cores."""
    import ray

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # no usage statistics are sent
    started = {} if address else {"num_cpus": n_workers, "include_dashboard": False}
    if address is not None and address != "auto":
        check_reachable(address)
    try:
        ray.init(address or "local", logging_level="warning", log_to_driver=False, **started)
    except (ConnectionError, RuntimeError, ValueError, ray.exceptions.RayError) as error:
        raise ConfigError(
            f"{address or 'Ray'}: cannot be joined ({error}); Ray's own messages are above; a "
            "cluster that requires a token needs RAY_AUTH_MODE=token and its token in "
            "RAY_AUTH_TOKEN or ~/.ray/auth_token"
        ) from error


def check_reachable(address: str) -> None:
    """Check that HOST:PORT or ray://HOST:PORT accepts connections; Ray would try for minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, ValueError) as error:
        raise ConfigError(
            f"{address}: no Ray cluster can be reached ({error}); expected HOST:PORT or "
            "ray://HOST:PORT of a running cluster"
        ) from error
