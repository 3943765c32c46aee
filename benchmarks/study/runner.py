"""Make the runs of a plan, one after the other, each with what `elmo train` calls.

In: runs, where data and vectors are, a folder. Out: `DIR/runs/KEY.json` for each run, written whole
when it has ended. What has such a file, of the same settings and biLM, is not run again; what was
killed goes on where it was, by the checkpoints in `DIR/work/KEY`. The biLM's layers are kept once,
in `DIR/cache`. Several processes may work on one folder, each on runs that no other has in hand.
"""

import fcntl
import hashlib
import json
import logging
import os
import shutil
import signal
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cached_property
from pathlib import Path
from types import FrameType
from typing import Any

import elmo
from benchmarks.study.parts import find_part
from benchmarks.study.plan import STUDIED, VARIANTS, Run, StudiedTask, Variant
from benchmarks.study.weights import find_weights
from elmo.api import Elmo
from elmo.errors import ElmoError
from elmo.models import ENGLISH
from elmo.models.identity import model_hash
from elmo.tasks import TASKS, find_task
from elmo.tasks.config import read_config
from elmo.tasks.saved import open_task
from elmo.tasks.train import train_task

TUNED_EPOCHS = 1.0  # as the paper
# An exception is lost if it falls into a destructor, so the clock speaks again.
SECONDS_BETWEEN_SIGNALS = 60.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Places:
    """Where things are."""

    data: Path
    out: Path
    glove: Path | None = None
    bilm: Path | None = None  # absent: the package's own

    @cached_property
    def bilm_sha256(self) -> str:
        """Of the biLM that runs with ELMo have if nothing else is said, or were tuned from."""
        return model_hash(Elmo.load(self.bilm or ENGLISH).bilm)

    def find_bilm(self, variant: Variant) -> Path | None:
        """The biLM that a variant has, or that its own is tuned from; absent: the package's."""
        if variant.weights is None:
            return self.bilm
        with self.claim(f"bilm-{variant.weights}", wait=True):
            return find_weights(variant.weights, self.out / "bilms")

    def started_from(self, variant: Variant) -> str | None:
        """The hash of that biLM."""
        if not variant.has_elmo:
            return None
        if variant.weights is None:
            return self.bilm_sha256
        return model_hash(Elmo.load(self.find_bilm(variant)).bilm)

    def find(self, name: str) -> Path:
        """A file of the data, or a part that is made of one."""
        return find_part(name, self.data, self.out / "data")

    def result(self, key: str) -> Path:
        """The file of a finished run."""
        return self.out / "runs" / f"{key}.json"

    def has(self, run: Run) -> bool:
        """Whether a run is finished; one with other settings or another biLM is not."""
        found = self._read(run.key)
        if found is None or not run.is_made_by(found):
            return False
        return bool(found["started_from"] == self.started_from(VARIANTS[run.variant]))

    def has_tuned(self, key: str) -> bool:
        """Whether the perplexities of this biLM, tuned on a text, are known."""
        found = self._read(key)
        return found is not None and found["started_from"] == self.bilm_sha256

    def work(self, run: Run) -> Path:
        """Where a run is made; what was begun with other settings or another biLM is elsewhere."""
        bilm = self.started_from(VARIANTS[run.variant])
        digest = hashlib.sha256(json.dumps([run.sets, bilm]).encode()).hexdigest()
        return self.out / "work" / run.key / digest[:16]

    def _read(self, key: str) -> dict[str, Any] | None:
        path = self.result(key)
        return json.loads(path.read_text()) if path.exists() else None

    @contextmanager
    def claim(self, key: str, *, wait: bool = False) -> Iterator[bool]:
        """Hold a run against other processes; false if another one has it in hand."""
        path = self.out / "locks" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("w") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | (0 if wait else fcntl.LOCK_NB))
            except BlockingIOError:
                yield False
            else:
                yield True


class Stopped(KeyboardInterrupt):
    """Somebody asked to stop, or the time is up."""


def run_all(
    runs: Sequence[Run],
    places: Places,
    max_minutes: float | None = None,
    studied: Mapping[str, StudiedTask] = STUDIED,
) -> list[str]:
    """Make what is not there yet; gives the keys of runs that failed."""
    failed: list[str] = []
    present = [run for run in runs if run.task in studied and studied[run.task].task in TASKS]
    for task in sorted({run.task for run in runs} - {run.task for run in present}):
        log.warning("%s: no such task in this version; its runs are skipped", task)
    try:
        with _stopping(max_minutes):
            for run in present:
                with places.claim(run.key) as is_ours:
                    if not is_ours or places.has(run):
                        continue
                    log.info("%s, about %.0f minutes", run.key, run.minutes)
                    try:
                        make(run, places, studied[run.task])
                    except ElmoError as error:
                        log.error("%s failed: %s", run.key, error)
                        failed.append(run.key)
    except Stopped:
        log.info("stopped; the same command goes on")
    return failed


def make(run: Run, places: Places, studied: StudiedTask) -> None:
    """Train one model, measure it on the test data too, and write its result."""
    variant, task = VARIANTS[run.variant], find_task(studied.task)
    config = read_config(task.defaults(), None, run.sets, has_elmo=variant.has_elmo)
    bilm = tune(studied, places) if variant.is_tuned else places.find_bilm(variant)
    work = places.work(run)
    result = train_task(
        task,
        config,
        places.find(studied.train),
        places.find(studied.dev),
        work,
        bilm=bilm,
        static=places.glove if variant.has_glove else None,
        cache=places.out / "cache",
    )
    if result is None:
        raise Stopped
    trained = open_task(work)
    measured = {
        name: trained.measure(trained.read(places.find(name)))
        for name in (studied.test, *studied.also)
        if name is not None
    }
    test_scores = None if studied.test is None else measured.pop(studied.test)
    more = {
        "studied": run.task,
        "variant": run.variant,
        "sets": list(run.sets),
        "test_scores": test_scores,
        "also": measured,
        "started_from": places.started_from(variant),
        "version": elmo.__version__,
    }
    write_result(places.result(run.key), {"key": run.key, **result, **more})
    shutil.rmtree(work.parent)  # its model and checkpoints: what the tables need is in the result


def tune(studied: StudiedTask, places: Places) -> Path:
    """A biLM that has gone on learning from a task's text; its perplexities are a result too."""
    from benchmarks.finetune import tune as tune_on

    assert studied.text is not None
    folder = places.out / "tuned" / places.bilm_sha256[:16]
    key, model = f"tune-{studied.text}", folder / studied.text / "model"
    with places.claim(key, wait=True):
        if places.has_tuned(key) and model.exists():
            return model
        started_at = time.perf_counter()
        start = places.bilm or Path(ENGLISH)
        tuned = tune_on(start, studied.text, places.data, folder, TUNED_EPOCHS)
        if not tuned.is_finished:
            raise Stopped
        result = {
            "key": key,
            "text": studied.text,
            "seconds": time.perf_counter() - started_at,
            "before": None if tuned.before is None else asdict(tuned.before),
            "after": None if tuned.after is None else asdict(tuned.after),
            "started_from": places.bilm_sha256,
            "version": elmo.__version__,
        }
        write_result(places.result(key), result)
    return model


def write_result(path: Path, result: dict[str, Any]) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(".unfinished")
    unfinished.write_text(json.dumps(result, indent=1) + "\n", encoding="utf-8")
    os.replace(unfinished, path)


@contextmanager
def _stopping(max_minutes: float | None) -> Iterator[None]:
    """Raise `Stopped` at Ctrl-C, at SIGTERM, and when the time is up.

    The clock sends this process a SIGTERM. While a run trains, the trainer takes it: it saves and
    stops. All else can be done again: what it writes, it writes whole or not at all.
    """

    is_over = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        if not is_over.is_set():
            raise Stopped

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}

    def tell_time(seconds: float) -> None:
        while not is_over.wait(seconds):
            os.kill(os.getpid(), signal.SIGTERM)
            seconds = SECONDS_BETWEEN_SIGNALS

    if max_minutes is not None:
        threading.Thread(target=tell_time, args=(60 * max_minutes,), daemon=True).start()
    try:
        yield
    finally:
        while not is_over.is_set():
            with suppress(Stopped):  # of a signal that comes just now: the clock must still end
                is_over.set()
        for number, action in before.items():
            signal.signal(number, action)
