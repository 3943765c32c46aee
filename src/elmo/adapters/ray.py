"""Ray Data as the workers of a corpus: the shards of `elmo.embed_corpus`, written by a cluster.

In: units of work. Out: the same shards as from one machine. A row of the dataset is a unit and a
worker an actor that opens the model once; where units run, and what is done when a worker or its
machine dies, is Ray's own business.
"""

import json
import logging
import os
import socket
from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Any

import torch

from elmo.corpus_units import Unit
from elmo.errors import ConfigError, ElmoError, needs_extra
from elmo.vector_shards import Shard, ShardWriter, Wanted


class RayWorkers:
    """Actors of a Ray cluster, each with one core."""

    def __init__(self, address: str | None = None, n_workers: int | None = None) -> None:
        """Work on the cluster at `address`, or on one started here; as many as it has cores."""
        self._address = address
        self._n_workers = n_workers

    def write(self, wanted: Wanted, units: Sequence[Unit]) -> Iterator[Shard]:
        """Write the shard of each unit that is not there and whole."""
        with needs_extra("ray"):
            import ray
            from ray import data
        is_ours = not ray.is_initialized()
        if is_ours:
            _connect(self._address, self._n_workers)
        try:
            _quieten(data)
            n_workers = self._n_workers or int(ray.cluster_resources().get("CPU", 1))
            rows = [{"unit": json.dumps(asdict(unit))} for unit in units]
            # A block is what Ray gives out and, if its worker dies, gives out again.
            written = data.from_items(rows, override_num_blocks=len(rows)).map(
                _Actor,
                fn_constructor_args=(asdict(wanted),),
                compute=data.ActorPoolStrategy(size=min(n_workers, len(units))),
                num_cpus=1,
            )
            for row in written.iter_rows():
                if row["error"]:
                    raise ElmoError(row["error"])
                yield Shard(**json.loads(row["shard"]))
        finally:
            if is_ours:
                ray.shutdown()


class _Actor:
    """A worker of the cluster."""

    def __init__(self, wanted: dict[str, Any]) -> None:
        torch.set_num_threads(1)
        self._writer = ShardWriter(Wanted(**wanted))

    def __call__(self, row: dict[str, Any]) -> dict[str, str]:
        """Write a unit's shard. What a user can mend is no failure of the worker: no retry."""
        try:
            shard = self._writer.write(Unit(**json.loads(row["unit"])))
        except ElmoError as error:
            return {"shard": "", "error": str(error)}
        return {"shard": json.dumps(asdict(shard)), "error": ""}


def _quieten(data: Any) -> None:  # noqa: ANN401 - Ray's module
    """Progress is told by whoever asked for the shards."""
    data.DataContext.get_current().enable_progress_bars = False
    logging.getLogger("ray.data").setLevel(logging.ERROR)


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
