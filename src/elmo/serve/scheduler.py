"""Scheduling: requests are batched together, and a long request does not delay short ones.

In: jobs, each a list of items (sentences, or questions about one) for one operation. Out: the
results in order. One thread runs the model; while it runs a batch, the next one is collected.
"""

import asyncio
import heapq
import logging
import threading
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from concurrent.futures import Future
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from starlette.requests import Request

from elmo.serve.config import Limits
from elmo.serve.metrics import Metrics
from elmo.serve.middleware import RequestError

# Called after each batch with its numbers of jobs and tokens.
Observer = Callable[[int, int], None]
SECONDS_PER_WEIGHT = 2.0  # a job that has waited this long gets twice the share of a new one


@dataclass(frozen=True)
class Operation:
    """An operation of the model's thread: items of any jobs in, one result per item out."""

    run: Callable[[Sequence[Any]], Sequence[Any]]
    # Cost by item and its number of tokens, relative to the cost of one token in the biLM.
    cost: Callable[[Any, int], float] = lambda _item, length: length


@dataclass(eq=False)
class Job:
    """The work of one request: items, each with its number of tokens and its cost."""

    operation: str
    items: Sequence[Any]
    lengths: Sequence[int]
    costs: Sequence[float]
    answer: "Future[list[Any]]" = field(default_factory=Future)
    arrived_at: float = 0.0
    n_taken: int = 0
    results: dict[int, Any] = field(default_factory=dict)

    def is_over(self) -> bool:
        """Whether it was canceled or answered, or all of its items have been taken."""
        return self.answer.done() or self.n_taken == len(self.items)

    def finish(self, number: int, result: object) -> None:
        """Store the result of one item; the last one completes the job."""
        self.results[number] = result
        if len(self.results) == len(self.items):
            resolve(self.answer, [self.results[k] for k in range(len(self.items))])


class FairQueue:
    """Waiting jobs, served by weighted fair queueing.

    Virtual time advances by c / w when items of cost c are taken while jobs of total weight w wait.
    A job is due at the virtual time of its next item, counted from its arrival. So a short job
    overtakes the rest of a long one, and no job starves. The weight of a job grows with the time it
    has waited: with equal shares, constant load would keep long jobs waiting past their timeout.
    """

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._waiting: list[tuple[float, int, Job]] = []
        self._now = 0.0
        self._arrivals = count()

    def add(self, job: Job) -> None:
        job.arrived_at = self._clock()
        heapq.heappush(self._waiting, (self._now, next(self._arrivals), job))

    def take(self, max_cost: float) -> list[tuple[Job, int]]:
        """The next items, up to a total cost, but at least one item if any job waits."""
        taken: list[tuple[Job, int]] = []
        seconds = self._clock()
        total = sum(_weight(job, seconds) for _, _, job in self._waiting)
        while self._waiting:
            due, arrival, job = self._waiting[0]
            if job.is_over():
                heapq.heappop(self._waiting)
                continue
            cost = job.costs[job.n_taken]
            if taken and cost > max_cost:
                break
            taken.append((job, job.n_taken))
            max_cost -= cost
            job.n_taken += 1
            self._now = max(due, self._now + cost / total)
            due += cost / _weight(job, seconds)
            heapq.heapreplace(self._waiting, (due, arrival, job))
        return taken

    def drain(self) -> list[Job]:
        """Remove and return all waiting jobs."""
        jobs = [job for _, _, job in self._waiting if not job.is_over()]
        self._waiting = []
        return jobs


def _weight(job: Job, seconds: float) -> float:
    return 1 + (seconds - job.arrived_at) / SECONDS_PER_WEIGHT


class Batcher:
    """The thread that runs the model, and its queue."""

    def __init__(
        self, operations: Mapping[str, Operation], batch_tokens: int, observe: Observer
    ) -> None:
        self._operations = operations
        self._batch_tokens = batch_tokens
        self._observe = observe
        self._queue = FairQueue()
        self._changed = threading.Condition()
        self._is_stopping = False
        self._thread = threading.Thread(target=self._work, name="elmo-model", daemon=True)
        self._thread.start()

    async def run(self, operation: str, items: Sequence[Any], lengths: Sequence[int]) -> list[Any]:
        """The results of all items. If canceled, items that have not started are dropped."""
        if not items:
            return []
        cost = self._operations[operation].cost
        costs = [cost(item, length) for item, length in zip(items, lengths, strict=True)]
        job = Job(operation, items, lengths, costs)
        with self._changed:
            if self._is_stopping:
                raise StoppedError
            self._queue.add(job)
            self._changed.notify()
        try:
            return await asyncio.wrap_future(job.answer)
        finally:
            job.answer.cancel()  # asyncio would cancel it only in a later iteration of its loop

    def stop(self) -> None:
        """Finish the running batch; jobs that still wait fail with `StoppedError`."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        while batch := self._next_batch():
            self._run_batch(batch)
        for job in self._queue.drain():
            resolve(job.answer, StoppedError())

    def _next_batch(self) -> list[tuple[Job, int]]:
        """Wait for the next batch; empty when the server stops."""
        with self._changed:
            while not self._is_stopping:
                if batch := self._queue.take(self._batch_tokens):
                    return batch
                self._changed.wait()
        return []

    def _run_batch(self, batch: Sequence[tuple[Job, int]]) -> None:
        groups: dict[str, list[tuple[Job, int]]] = defaultdict(list)
        for job, number in batch:
            groups[job.operation].append((job, number))
        # The cheapest group first, so that it does not wait for the others.
        for operation, group in sorted(groups.items(), key=lambda item: _cost(item[1])):
            self._run_group(self._operations[operation], group)
        n_tokens = sum(job.lengths[number] for job, number in batch)
        self._observe(len({id(job) for job, _ in batch}), n_tokens)

    def _run_group(self, operation: Operation, group: Sequence[tuple[Job, int]]) -> None:
        try:
            results = operation.run([job.items[number] for job, number in group])
        except Exception as error:  # the thread must survive, and the client gets the error
            if len(group) == 1:
                resolve(group[0][0].answer, error)
                return
            logging.getLogger(__name__).info("batch failed (%r); running its items alone", error)
            for one in group:
                self._run_group(operation, [one])
            return
        for (job, number), result in zip(group, results, strict=True):
            job.finish(number, result)


def _cost(group: Sequence[tuple[Job, int]]) -> float:
    return sum(job.costs[number] for job, number in group)


class StoppedError(Exception):
    """The server is shutting down, so the job was not run."""


def resolve(answer: "Future[list[Any]]", outcome: list[Any] | Exception) -> None:
    """Set the outcome of a job unless it was canceled."""
    if answer.done() or not answer.set_running_or_notify_cancel():
        return
    if isinstance(outcome, Exception):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)


class RequestDispatcher:
    """Runs the work of requests, with a timeout, until the client disconnects."""

    def __init__(
        self, operations: Mapping[str, Operation], limits: Limits, metrics: Metrics
    ) -> None:
        self._operations = operations
        self._limits = limits
        self._metrics = metrics
        self._batcher: Batcher | None = None

    @asynccontextmanager
    async def run(self, _app: object) -> AsyncIterator[None]:
        """Lifespan of the app: start the model's thread, and finish its batch at the end."""
        self._batcher = Batcher(
            self._operations, self._limits.batch_tokens, self._metrics.observe_batch
        )
        yield
        await asyncio.to_thread(self._batcher.stop)

    async def submit(
        self, request: Request, operation: str, items: Sequence[Any], lengths: Sequence[int]
    ) -> list[Any]:
        """The results of all items; `lengths` are their numbers of tokens."""
        if operation not in self._operations:
            raise RequestError(
                404, f"{operation} is not available; see /api/info for what is loaded"
            )
        assert self._batcher is not None
        results = asyncio.ensure_future(self._batcher.run(operation, items, lengths))
        disconnected = asyncio.ensure_future(_wait_for_disconnect(request))
        try:
            await asyncio.wait(
                {results, disconnected},
                timeout=self._limits.timeout_seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if results.done():
                return results.result()
            reason = "disconnect" if disconnected.done() else "timeout"
        except StoppedError:
            raise RequestError(503, "the server is shutting down") from None
        finally:
            results.cancel()
            disconnected.cancel()
            await asyncio.wait({results})  # the work is dropped before the response is sent
        self._metrics.dropped.labels(reason).inc()
        seconds = self._limits.timeout_seconds
        raise RequestError(
            503,
            f"no result within {seconds:g} seconds (timeout_seconds)",
            {"Retry-After": "1"},
        )


async def _wait_for_disconnect(request: Request) -> None:
    while (await request.receive())["type"] != "http.disconnect":
        pass
