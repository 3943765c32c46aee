"""The order of the queue, and the thread that runs the model."""

import asyncio
import random
import threading
from collections import defaultdict

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.inference.occurrence import Occurrence
from elmo.search.build import temporary_index
from elmo.search.examples import ExampleIndex
from elmo.serve.operations import NeighborsItem, Service
from elmo.serve.scheduler import Batcher, FairQueue, Job, Operation, StoppedError


def job(name, *sizes):
    return Job(name, [f"{name}{k}" for k in range(len(sizes))], sizes, sizes)


def names(taken):
    return [job.items[number] for job, number in taken]


def test_a_short_job_overtakes_the_rest_of_a_long_one():
    queue = FairQueue()
    queue.add(job("long", *[10] * 50))
    assert names(queue.take(40)) == ["long0", "long1", "long2", "long3"]
    queue.add(job("short", 10))
    assert "short0" in names(queue.take(40))


def test_jobs_that_wait_together_get_equal_shares():
    queue = FairQueue()
    queue.add(job("a", *[10] * 20))
    queue.add(job("b", *[5] * 40))
    queue.add(job("c", *[20] * 10))
    taken = names(queue.take(120))
    assert {name: sum(n.startswith(name) for n in taken) for name in "abc"} == {
        "a": 4,
        "b": 8,
        "c": 2,
    }


def test_a_long_job_is_served_though_short_ones_keep_coming():
    queue = FairQueue()
    queue.add(job("long", *[10] * 5))
    served = []
    for number in range(30):
        queue.add(job(f"short{number}.", 10))
        queue.add(job(f"more{number}.", 10))
        served += names(queue.take(20))
    assert [name for name in served if name.startswith("long")] == [f"long{k}" for k in range(5)]


def test_a_job_that_has_waited_longer_gets_a_larger_share():
    clock = iter([0, 10, 10])
    queue = FairQueue(lambda: next(clock))
    queue.add(job("old", *[10] * 20))
    queue.add(job("new", *[10] * 20))
    taken = names(queue.take(70))
    assert [sum(name.startswith(kind) for name in taken) for kind in ("old", "new")] == [6, 1]


def test_under_constant_load_long_jobs_end_in_time_and_short_ones_do_not_wait():
    rng = random.Random(1)
    seconds = 0.0
    queue = FairQueue(lambda: seconds)
    latencies = defaultdict(list)

    def add():
        n_items, cost = rng.choice([(1, 1), (1, 9)] * 7 + [(8, 1), (8, 9)] * 2 + [(60, 9)])
        queue.add(job("x", *[17 * cost] * n_items))

    for _ in range(80):
        add()
    while seconds < 120:
        batch = queue.take(2_000)
        seconds += sum(one.costs[number] for one, number in batch) / 22_000
        for one, number in batch:
            if number == len(one.items) - 1:
                latencies[len(one.items)].append(seconds - one.arrived_at)
                add()
    assert max(latencies[60]) < 30
    assert max(latencies[1]) < 0.5


def test_a_piece_larger_than_a_batch_runs_alone():
    queue = FairQueue()
    queue.add(job("huge", 1000))
    queue.add(job("small", 1))
    assert names(queue.take(10)) == ["huge0"]
    assert names(queue.take(10)) == ["small0"]
    assert queue.take(10) == []


def test_what_nobody_waits_for_is_not_taken():
    queue = FairQueue()
    dropped, kept = job("dropped", 1, 1, 1), job("kept", 1)
    queue.add(dropped)
    queue.add(kept)
    dropped.answer.cancel()
    assert names(queue.take(10)) == ["kept0"]


@given(st.lists(st.lists(st.integers(1, 30), min_size=1, max_size=8), max_size=8))
def test_every_item_is_taken_once_and_in_the_order_of_its_job(all_sizes):
    queue = FairQueue()
    jobs = [job(f"{k}.", *sizes) for k, sizes in enumerate(all_sizes)]
    for one in jobs:
        queue.add(one)
    taken = []
    while batch := queue.take(25):
        sizes = [one.costs[number] for one, number in batch]
        assert sum(sizes) <= 25 or len(sizes) == 1
        taken += batch
    for one in jobs:
        assert [number for who, number in taken if who is one] == list(range(len(one.items)))


class Recorder:
    """An operation that records its batches, can be blocked, and fails on "bad"."""

    def __init__(self):
        self.batches = []
        self.may_continue = threading.Event()

    def double(self, items):
        self.batches.append(list(items))
        assert self.may_continue.wait(20)
        if "bad" in items:
            raise ValueError("bad")
        return [item * 2 for item in items]


async def until(is_so):
    for _ in range(2000):
        if is_so():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("condition never became true")


def run(scenario):
    """Run a scenario with a batcher, and stop it."""
    recorder = Recorder()
    observed = []
    batcher = Batcher(
        {"double": Operation(recorder.double)}, 100, lambda *seen: observed.append(seen)
    )
    try:
        return asyncio.run(scenario(batcher, recorder)), recorder, observed
    finally:
        recorder.may_continue.set()
        batcher.stop()


def test_jobs_that_arrive_while_the_model_works_run_together():
    async def scenario(batcher, recorder):
        first = asyncio.ensure_future(batcher.run("double", ["x"], [1]))
        await until(lambda: recorder.batches)
        others = [asyncio.ensure_future(batcher.run("double", [k, k], [1, 1])) for k in range(5)]
        await asyncio.sleep(0.05)
        recorder.may_continue.set()
        return await asyncio.gather(first, *others)

    answers, recorder, observed = run(scenario)
    assert answers == [["xx"], *([2 * k, 2 * k] for k in range(5))]
    assert sorted(recorder.batches[1]) == [0, 0, 1, 1, 2, 2, 3, 3, 4, 4]
    assert observed == [(1, 1), (5, 10)]


def test_a_job_that_fails_does_not_take_others_with_it():
    async def scenario(batcher, recorder):
        waiting = [
            asyncio.ensure_future(batcher.run("double", items, [1] * len(items)))
            for items in (["a"], ["b", "bad", "bad"], ["c", "d"])
        ]
        await until(lambda: recorder.batches)
        recorder.may_continue.set()
        return await asyncio.gather(*waiting, return_exceptions=True)

    (first, failed, last), _, _ = run(scenario)
    assert (first, last) == (["aa"], ["cc", "dd"])
    assert isinstance(failed, ValueError)


def test_canceled_work_is_not_done():
    async def scenario(batcher, recorder):
        first = asyncio.ensure_future(batcher.run("double", ["x"], [1]))
        await until(lambda: recorder.batches)
        dropped = asyncio.ensure_future(batcher.run("double", ["dropped"], [1]))
        await asyncio.sleep(0.02)
        dropped.cancel()
        await asyncio.sleep(0.02)
        recorder.may_continue.set()
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
        recorder.may_continue.set()
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


def test_a_batch_is_bounded_by_cost_and_its_cheapest_operation_runs_first():
    ran = []
    may_continue = threading.Event()

    def record(name):
        def run_items(items):
            ran.append((name, len(items)))
            assert name != "first" or may_continue.wait(20)
            return items

        return run_items

    async def scenario():
        names = ["first", "dear", "cheap"]
        waiting = [asyncio.ensure_future(batcher.run("first", ["f"], [10]))]
        await until(lambda: ran)
        waiting += [
            asyncio.ensure_future(batcher.run(name, [name] * 4, [10] * 4)) for name in names[1:]
        ]
        await asyncio.sleep(0.02)
        may_continue.set()
        await asyncio.gather(*waiting)

    operations = {name: Operation(record(name)) for name in ("first", "cheap")}
    operations["dear"] = Operation(record("dear"), lambda _, length: 5.0 * length)
    batcher = Batcher(operations, 100, lambda *seen: None)
    try:
        asyncio.run(scenario())
    finally:
        batcher.stop()
    assert ran == [("first", 1), ("cheap", 4), ("dear", 1), ("dear", 2), ("dear", 1)]


SEARCHES = {
    name: NeighborsItem(Occurrence([name], 0), 1, "top", any_word)
    for name, any_word in {"Bow": False, "ship": False, "unseen": False, "any": True}.items()
}


def search(service, names):
    """Run searches that arrive together, and return the number of searches of each batch."""
    batches = []

    async def ask():
        waiting = [batcher.run("neighbors", [SEARCHES[name]], [3]) for name in names]
        await asyncio.gather(*waiting)

    batcher = Batcher(service.operations(), 100, lambda *seen: batches.append(seen))
    try:
        asyncio.run(ask())
    finally:
        batcher.stop()
    return [n_requests for n_requests, _ in batches]


def test_a_search_that_embeds_many_sentences_runs_alone(model):
    sentences = [["a", "bow", str(number)] for number in range(30)] + [["one", "ship"]]
    service = Service(model, "tiny", ExampleIndex(model, sentences))
    assert search(service, ["Bow", "any", "Bow"]) == [1, 1, 1]
    cost = service.operations()["neighbors"].cost
    costs = [cost(SEARCHES[name], 3) for name in ("Bow", "ship", "unseen", "any")]
    assert costs == [3 + 30 * 5, 3 + 4, 3, 3 + 30 * 5 + 4]


def test_a_search_that_compares_many_vectors_runs_alone(model):
    index = temporary_index(model, [["a", "bow", "."]] * 700 + [["one", "ship"]])
    service = Service(model, "tiny", index)
    assert search(service, ["any", "any", "any"]) == [1, 1, 1]
    cost = service.operations()["neighbors"].cost
    costs = [cost(SEARCHES[name], 3) for name in ("unseen", "ship", "Bow", "any")]
    assert 3 < costs[0] < costs[1] < 5 < costs[2] < costs[3] / 2
