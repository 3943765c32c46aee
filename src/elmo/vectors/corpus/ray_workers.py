"""Ray Data as the workers of a corpus: the shards of embed.py, written by a cluster.

In: files to cut and units of work. Out: the same shards as from one machine. A row of a dataset is
a file or a unit; shards are written by actors that open the model once. Where rows run, and what is
done when a worker or its machine dies, is Ray's own business.
"""

import json
import logging
import os
import socket
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict
from typing import Any

import torch

from elmo.errors import ConfigError, ElmoError, needs_extra
from elmo.vectors.corpus.shards import Shard, ShardWriter, Wanted
from elmo.vectors.corpus.units import Cut, NamedFile, Unit

Row = dict[str, str]


class RayWorkers:
    """Workers of a Ray cluster, each with one core."""

    def __init__(self, address: str | None = None, n_workers: int | None = None) -> None:
        """Work on the cluster at `address`, or on one started here; as many as it has cores.

        A program that has called `ray.init` works on the cluster that it has joined.
        """
        self._address = address
        self._n_workers = n_workers

    def cut(self, cut: Cut, files: Sequence[NamedFile]) -> Iterator[list[Unit]]:
        """The units of each file, a task a file."""
        data = self._join()

        def units_of(row: Row) -> Row:
            named = row["name"], row["address"]
            return _answer(lambda: [asdict(unit) for unit in cut(named)])

        rows = [{"name": name, "address": place.address} for name, place in files]
        cut_files = _one_a_block(data, rows).map(units_of)
        for units in _results(cut_files):
            yield [Unit(**unit) for unit in units]

    def write(self, wanted: Wanted, units: Sequence[Unit]) -> Iterator[Shard]:
        """Write the shard of each unit that is not there and whole."""
        data = self._join()
        rows = [{"unit": json.dumps(asdict(unit))} for unit in units]
        written = _one_a_block(data, rows).map(
            _ShardActor,
            fn_constructor_args=(asdict(wanted),),
            compute=data.ActorPoolStrategy(size=min(self._count(), len(units))),
            num_cpus=1,
        )
        for shard in _results(written):
            yield Shard(**shard)

    def _join(self) -> Any:  # noqa: ANN401 - the module ray.data
        with needs_extra("ray"):
            import ray
            from ray import data
        if not ray.is_initialized():
            _connect(self._address, self._n_workers)
        # Progress is told by whoever asked for the shards.
        data.DataContext.get_current().enable_progress_bars = False
        logging.getLogger("ray.data").setLevel(logging.ERROR)
        return data

    def _count(self) -> int:
        import ray

        return self._n_workers or int(ray.cluster_resources().get("CPU", 1))


class _ShardActor:
    """A worker of the cluster."""

    def __init__(self, wanted: dict[str, Any]) -> None:
        torch.set_num_threads(1)
        self._writer = ShardWriter(Wanted(**wanted))

    def __call__(self, row: Row) -> Row:
        """Write a unit's shard."""
        unit = Unit(**json.loads(row["unit"]))
        return _answer(lambda: asdict(self._writer.write(unit)))


def _one_a_block(data: Any, rows: list[Row]) -> Any:  # noqa: ANN401 - Ray's
    """A block is what Ray gives out and, if its worker dies, gives out again."""
    return data.from_items(rows, override_num_blocks=len(rows))


def _answer(work: Callable[[], object]) -> Row:
    """What a user can mend is no failure of the worker, and trying again is no help."""
    try:
        return {"result": json.dumps(work()), "error": ""}
    except ElmoError as error:
        return {"result": "", "error": str(error)}


def _results(dataset: Any) -> Iterator[Any]:  # noqa: ANN401 - Ray's, JSON's
    for row in dataset.iter_rows():
        if row["error"]:
            raise ElmoError(row["error"])
        yield json.loads(row["result"])


def _connect(address: str | None, n_workers: int | None) -> None:
    """Join a cluster, or start one of this machine's cores."""
    import ray

    os.environ.setdefault("RAY_USAGE_STATS_ENABLED", "0")  # nothing is sent to anyone
    started = {} if address else {"num_cpus": n_workers, "include_dashboard": False}
    if address is not None and address != "auto":
        reach(address)
    try:
        ray.init(address or "local", logging_level="warning", log_to_driver=False, **started)
    except (ConnectionError, ray.exceptions.RayError) as error:
        raise _unreachable(address, error) from error


def reach(address: str) -> None:
    """See that something listens at HOST:PORT or ray://HOST:PORT: Ray itself tries for minutes."""
    host, _, port = address.rpartition("://")[2].rpartition(":")
    try:
        socket.create_connection((host, int(port)), timeout=10).close()
    except (OSError, ValueError) as error:
        raise _unreachable(address, error) from error


def _unreachable(address: str | None, error: Exception) -> ConfigError:
    return ConfigError(
        f"{address}: no Ray cluster can be reached there ({error}); expected HOST:PORT or "
        "ray://HOST:PORT of one that runs; correct it, or leave it out to start one here"
    )
