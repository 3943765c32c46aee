"""Batching: requests that wait together run together, and a long one does not hold up short ones.

In: orders, each a list of sentences (or questions about one) for one operation. Out: their answers
in order. One thread owns the model; while it works on a batch the next one gathers.
"""

import asyncio
import heapq
import logging
import threading
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from itertools import count
from typing import Any

# From the pieces of any orders to their answers, one for each.
Operation = Callable[[Sequence[Any]], Sequence[Any]]
# Told of each batch: how many orders it served, how many tokens it had.
Observer = Callable[[int, int], None]


@dataclass(eq=False)
class Order:
    """What one request wants: pieces of work, each with its number of tokens."""

    operation: str
    pieces: Sequence[Any]
    sizes: Sequence[int]
    answer: "Future[list[Any]]" = field(default_factory=Future)
    n_taken: int = 0
    results: dict[int, Any] = field(default_factory=dict)

    def is_over(self) -> bool:
        """Whether nobody waits for it any more, or all of it is under way."""
        return self.answer.done() or self.n_taken == len(self.pieces)

    def finish(self, number: int, result: object) -> None:
        """Note the answer to one piece; the last one answers the order."""
        self.results[number] = result
        if len(self.results) == len(self.pieces):
            settle(self.answer, [self.results[k] for k in range(len(self.pieces))])


class FairQueue:
    """Orders that wait, served as if each got a token in turn (weighted fair queueing).

    The clock counts turns: serving n tokens while m orders wait moves it by n / m. An order is due
    at the turn of its next token, counted from when it came: so a short order goes ahead of the
    rest of a long one, and no order waits for ever.
    """

    def __init__(self) -> None:
        self._waiting: list[tuple[float, int, Order]] = []
        self._now = 0.0
        self._arrivals = count()

    def add(self, order: Order) -> None:
        """Let an order wait for its turn."""
        heapq.heappush(self._waiting, (self._now, next(self._arrivals), order))

    def take(self, n_tokens: int) -> list[tuple[Order, int]]:
        """The pieces that are due next, up to so many tokens, but at least one if any waits."""
        taken: list[tuple[Order, int]] = []
        while self._waiting:
            due, arrival, order = self._waiting[0]
            if order.is_over():
                heapq.heappop(self._waiting)
                continue
            size = order.sizes[order.n_taken]
            if taken and size > n_tokens:
                break
            taken.append((order, order.n_taken))
            n_tokens -= size
            order.n_taken += 1
            self._now = max(due, self._now + size / len(self._waiting))
            heapq.heapreplace(self._waiting, (due + size, arrival, order))
        return taken

    def drain(self) -> list[Order]:
        """All orders that wait; none waits then."""
        orders = [order for _, _, order in self._waiting if not order.is_over()]
        self._waiting = []
        return orders


class Batcher:
    """The thread that owns the model, and the queue before it."""

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

    async def run(self, operation: str, pieces: Sequence[Any], sizes: Sequence[int]) -> list[Any]:
        """The answers to all pieces; cancel it, and what has not begun is never done."""
        if not pieces:
            return []
        order = Order(operation, pieces, sizes)
        with self._changed:
            if self._is_stopping:
                raise StoppedError
            self._queue.add(order)
            self._changed.notify()
        try:
            return await asyncio.wrap_future(order.answer)
        finally:
            order.answer.cancel()  # at once: asyncio would let the thread know some turns later

    def stop(self) -> None:
        """Finish the batch that is running; what still waits gets `StoppedError`."""
        with self._changed:
            self._is_stopping = True
            self._changed.notify()
        self._thread.join()

    def _work(self) -> None:
        while batch := self._next_batch():
            self._run_batch(batch)
        for order in self._queue.drain():
            settle(order.answer, StoppedError())

    def _next_batch(self) -> list[tuple[Order, int]]:
        """What is due, as soon as anything is; nothing when the server stops."""
        with self._changed:
            while not self._is_stopping:
                if batch := self._queue.take(self._batch_tokens):
                    return batch
                self._changed.wait()
        return []

    def _run_batch(self, batch: Sequence[tuple[Order, int]]) -> None:
        groups: dict[str, list[tuple[Order, int]]] = defaultdict(list)
        for order, number in batch:
            groups[order.operation].append((order, number))
        for operation, group in groups.items():
            self._run_group(self._operations[operation], group)
        n_tokens = sum(order.sizes[number] for order, number in batch)
        self._observe(len({id(order) for order, _ in batch}), n_tokens)

    def _run_group(self, operation: Operation, group: Sequence[tuple[Order, int]]) -> None:
        try:
            results = operation([order.pieces[number] for order, number in group])
        except Exception as error:  # the thread must live on, and the one who asked be told
            if len(group) == 1:
                settle(group[0][0].answer, error)
                return
            logging.getLogger(__name__).info("a batch failed (%r); its parts run alone", error)
            for one in group:
                self._run_group(operation, [one])
            return
        for (order, number), result in zip(group, results, strict=True):
            order.finish(number, result)


class StoppedError(Exception):
    """The server stops, so this order is not served."""


def settle(answer: "Future[list[Any]]", outcome: list[Any] | Exception) -> None:
    """Answer an order, unless nobody waits for it any more."""
    if answer.done() or not answer.set_running_or_notify_cancel():
        return
    if isinstance(outcome, Exception):
        answer.set_exception(outcome)
    else:
        answer.set_result(outcome)
