"""Apply a function to many items in several processes.

In: a function and items that can be pickled. Out: the results, in the order of the items.
"""

import multiprocessing
import sys
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from typing import TypeVar

Item = TypeVar("Item")
Result = TypeVar("Result")


def map_in_order(
    function: Callable[[Item], Result], items: Iterable[Item], n_workers: int
) -> Iterator[Result]:
    """Like `map`, with `n_workers` processes; only a few items are read ahead of the results."""
    if n_workers == 1:
        yield from map(function, items)
        return
    # A forked child needs no import guard in the caller's script and starts immediately. The
    # functions passed use neither torch nor threads. Other systems have no safe fork.
    context = multiprocessing.get_context("fork" if sys.platform == "linux" else "spawn")
    with ProcessPoolExecutor(n_workers, mp_context=context) as pool:
        pending: deque[Future[Result]] = deque()
        for item in items:
            pending.append(pool.submit(function, item))
            if len(pending) > 2 * n_workers:
                yield pending.popleft().result()
        while pending:
            yield pending.popleft().result()
