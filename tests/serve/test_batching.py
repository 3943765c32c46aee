"""The queue's order, and the thread that owns the model."""

import asyncio
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.serve.batching import Batcher, FairQueue, Order, StoppedError


def order(name, *sizes):
    return Order(name, [f"{name}{k}" for k in range(len(sizes))], sizes)


def names(taken):
    return [order.pieces[number] for order, number in taken]


def test_a_short_order_goes_ahead_of_the_rest_of_a_long_one():
    queue = FairQueue()
    queue.add(order("long", *[10] * 50))
    assert names(queue.take(40)) == ["long0", "long1", "long2", "long3"]
    queue.add(order("short", 10))
    assert "short0" in names(queue.take(40))


def test_orders_that_wait_together_get_equal_shares():
    queue = FairQueue()
    queue.add(order("a", *[10] * 20))
    queue.add(order("b", *[5] * 40))
    queue.add(order("c", *[20] * 10))
    taken = names(queue.take(120))
    assert {name: sum(n.startswith(name) for n in taken) for name in "abc"} == {
        "a": 4,
        "b": 8,
        "c": 2,
    }


def test_a_long_order_is_served_though_short_ones_keep_coming():
    queue = FairQueue()
    queue.add(order("long", *[10] * 5))
    served = []
    for number in range(30):
        queue.add(order(f"short{number}.", 10))
        queue.add(order(f"more{number}.", 10))
        served += names(queue.take(20))
    assert [name for name in served if name.startswith("long")] == [f"long{k}" for k in range(5)]


def test_a_piece_larger_than_a_batch_runs_alone():
    queue = FairQueue()
    queue.add(order("huge", 1000))
    queue.add(order("small", 1))
    assert names(queue.take(10)) == ["huge0"]
    assert names(queue.take(10)) == ["small0"]
    assert queue.take(10) == []


def test_what_nobody_waits_for_is_not_taken():
    queue = FairQueue()
    dropped, kept = order("dropped", 1, 1, 1), order("kept", 1)
    queue.add(dropped)
    queue.add(kept)
    dropped.answer.cancel()
    assert names(queue.take(10)) == ["kept0"]


@given(st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=8), max_size=8))
def test_every_piece_is_taken_once_and_in_its_orders_order(all_sizes):
    queue = FairQueue()
    orders = [order(f"{k}.", *sizes) for k, sizes in enumerate(all_sizes)]
    for one in orders:
        queue.add(one)
    taken = []
    while batch := queue.take(25):
        sizes = [one.sizes[number] for one, number in batch]
        assert sum(sizes) <= 25 or len(sizes) == 1
        taken += batch
    for one in orders:
        assert [number for who, number in taken if who is one] == list(range(len(one.pieces)))


class Recorder:
    """An operation that notes its batches, can be held up, and fails on "bad"."""

    def __init__(self):
        self.batches = []
        self.may_go_on = threading.Event()

    def double(self, pieces):
        self.batches.append(list(pieces))
        assert self.may_go_on.wait(20)
        if "bad" in pieces:
            raise ValueError("bad")
        return [piece * 2 for piece in pieces]


async def until(is_so):
    for _ in range(2000):
        if is_so():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it never came to be")


def run(scenario):
    """Run a scenario with a batcher, and stop it."""
    recorder = Recorder()
    observed = []
    batcher = Batcher({"double": recorder.double}, 100, lambda *seen: observed.append(seen))
    try:
        return asyncio.run(scenario(batcher, recorder)), recorder, observed
    finally:
        recorder.may_go_on.set()
        batcher.stop()


def test_orders_that_come_while_the_model_works_run_together():
    async def scenario(batcher, recorder):
        first = asyncio.ensure_future(batcher.run("double", ["x"], [1]))
        await until(lambda: recorder.batches)
        others = [asyncio.ensure_future(batcher.run("double", [k, k], [1, 1])) for k in range(5)]
        await asyncio.sleep(0.05)
        recorder.may_go_on.set()
        return await asyncio.gather(first, *others)

    answers, recorder, observed = run(scenario)
    assert answers == [["xx"], *([2 * k, 2 * k] for k in range(5))]
    assert sorted(recorder.batches[1]) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert observed == [(1, 1), (5, 10)]


def test_an_order_that_fails_does_not_take_others_with_it():
    async def scenario(batcher, recorder):
        waiting = [
            asyncio.ensure_future(batcher.run("double", pieces, [1] * len(pieces)))
            for pieces in (["a"], ["b", "bad", "bad"], ["c", "d"])
        ]
        await until(lambda: recorder.batches)
        recorder.may_go_on.set()
        return await asyncio.gather(*waiting, return_exceptions=True)

    (first, failed, last), _, _ = run(scenario)
    assert (first, last) == (["aa"], ["cc", "dd"])
    assert isinstance(failed, ValueError)


def test_cancelled_work_is_not_done():
    async def scenario(batcher, recorder):
        first = asyncio.ensure_future(batcher.run("double", ["x"], [1]))
        await until(lambda: recorder.batches)
        dropped = asyncio.ensure_future(batcher.run("double", ["dropped"], [1]))
        await asyncio.sleep(0.02)
        dropped.cancel()
        await asyncio.sleep(0.02)
        recorder.may_go_on.set()
        await batcher.run("double", ["y"], [1])
        return await first

    answer, recorder, _ = run(scenario)
    assert answer == ["xx"]
    assert recorder.batches == [["x"], ["y"]]


def test_a_stop_finishes_what_runs_and_refuses_what_waits():
    async def scenario(batcher, recorder):
        running = asyncio.ensure_future(batcher.run("double", ["x"], [1]))
        await until(lambda: recorder.batches)
        waiting = asyncio.ensure_future(batcher.run("double", ["y"], [1]))
        await asyncio.sleep(0.02)
        stopping = asyncio.create_task(asyncio.to_thread(batcher.stop))
        await asyncio.sleep(0.02)
        recorder.may_go_on.set()
        await stopping
        with pytest.raises(StoppedError):
            await batcher.run("double", ["z"], [1])
        return await asyncio.gather(running, waiting, return_exceptions=True)

    (answer, refused), recorder, _ = run(scenario)
    assert answer == ["xx"]
    assert isinstance(refused, StoppedError)
    assert recorder.batches == [["x"]]


def test_nothing_to_do_is_done_at_once():
    async def scenario(batcher, recorder):
        return await batcher.run("double", [], [])

    answer, recorder, _ = run(scenario)
    assert answer == recorder.batches == []
