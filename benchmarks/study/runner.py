"""Run the plan of the study, one run after another, with the function that `elmo train` calls.

In: a plan, the paths of data and vectors, a folder. Out: `DIR/runs/KEY.json` for each finished run,
with its scores, all its epochs, its settings and its environment. The plan is rebuilt after each
run, as the settings of later runs depend on the dev scores of earlier ones. A run that has such a
file with the same settings, data and biLM is skipped; a killed run resumes from its checkpoints in
`DIR/work/KEY`. The biLM's layers are cached in `DIR/cache`. Several processes may work on one
folder, each on different runs.
"""

import hashlib
import json
import logging
import os
import shutil
import signal
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass
from functools import cache, cached_property
from pathlib import Path
from types import FrameType
from typing import Any

import elmo
from benchmarks.environment import describe_environment
from benchmarks.study.parts import find_part
from benchmarks.study.plan import (
    STUDIED,
    VARIANTS,
    VERSION,
    Choices,
    Run,
    StudiedTask,
    Variant,
    make_runs,
)
from benchmarks.study.results import Results, run_of
from benchmarks.study.weights import find_weights
from elmo.api import Elmo
from elmo.errors import ConfigError, ElmoError
from elmo.files.atomic import write_json
from elmo.files.locks import exclusive
from elmo.models import ENGLISH
from elmo.models.identity import file_hash, model_hash
from elmo.tasks import find_task
from elmo.tasks.saved import open_task
from elmo.tasks.train import train_task

TUNED_EPOCHS = 1.0  # as in the paper
# An exception in a destructor is lost, so the signal is repeated.
SECONDS_BETWEEN_SIGNALS = 60.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class StudyPaths:
    """The paths of a study."""

    data: Path
    out: Path
    glove: Path
    bilm: Path | None = None  # None: the package's own model

    @cached_property
    def bilm_sha256(self) -> str:
        """The hash of the study's biLM, before any tuning."""
        return hash_model(self.bilm)

    def find_bilm(self, variant: Variant) -> Path | None:
        """The biLM of a variant, before any tuning; None: the package's own model."""
        if variant.weights is None:
            return self.bilm
        with self.claim(f"bilm-{variant.weights}", wait=True):
            return find_weights(variant.weights, self.out / "bilms")

    def started_from(self, variant: Variant) -> str | None:
        """The hash of a variant's biLM, before any tuning; None without ELMo."""
        if not variant.has_elmo:
            return None
        if variant.weights is None:
            return self.bilm_sha256
        return hash_model(self.find_bilm(variant))

    def find(self, name: str, fold: int = 0) -> Path:
        """A data file, or a part of one."""
        return find_part(name.format(fold=fold), self.data, self.out / "data")

    def data_sha256(self, run: Run, studied: StudiedTask) -> dict[str, str]:
        """Hashes of the files of a run."""
        names = {"train": studied.train, "dev": studied.dev, "test": studied.test}
        files = {part: self.find(name, run.fold) for part, name in names.items()}
        if VARIANTS[run.variant].has_glove:
            files["words"] = self.glove
        return {part: _hash_file(path) for part, path in files.items()}

    def choices(self, studied: Mapping[str, StudiedTask] = STUDIED) -> Choices:
        """The settings chosen by the dev scores of finished runs with the current data."""

        def is_current(result: Mapping[str, Any]) -> bool:
            run = run_of(result)
            return bool(result["data_sha256"] == self.data_sha256(run, studied[run.task]))

        return Results.read(self.out, self.bilm_sha256, is_current).choices()

    def result(self, key: str) -> Path:
        """The file of a finished run."""
        return self.out / "runs" / f"{key}.json"

    def has(self, run: Run, studied: StudiedTask | None = None) -> bool:
        """Whether a run is finished; one with other settings, data or biLM is not."""
        found = self._read(run.key)
        if found is None or not run.is_made_by(found):
            return False
        has_bilm = found["started_from"] == self.started_from(VARIANTS[run.variant])
        has_data = found["data_sha256"] == self.data_sha256(run, studied or STUDIED[run.task])
        return bool(has_bilm and has_data)

    def has_tuned(self, key: str) -> bool:
        """Whether there is a result of fine-tuning the study's biLM on a text."""
        found = self._read(key)
        return found is not None and found["started_from"] == self.bilm_sha256

    def work(self, run: Run) -> Path:
        """The folder of an unfinished run, by its settings and biLM."""
        bilm = self.started_from(VARIANTS[run.variant])
        digest = hashlib.sha256(json.dumps([run.settings, bilm]).encode()).hexdigest()
        return self.out / "work" / run.key / digest[:16]

    def _read(self, key: str) -> dict[str, Any] | None:
        path = self.result(key)
        return json.loads(path.read_text()) if path.exists() else None

    @contextmanager
    def claim(self, key: str, *, wait: bool = False) -> Iterator[bool]:
        """Lock a run; yields False if another process holds the lock."""
        path = self.out / "locks" / key
        path.parent.mkdir(parents=True, exist_ok=True)
        with ExitStack() as stack:
            is_held = True
            try:
                stack.enter_context(exclusive(path, wait=wait))
            except ConfigError:
                is_held = False
            yield is_held


@cache
def _hash_file(path: Path) -> str:
    return file_hash(path)


@cache
def hash_model(path: Path | None) -> str:
    """The hash of a biLM, by default the package's."""
    return model_hash(Elmo.load(path or ENGLISH).bilm)


class Stopped(KeyboardInterrupt):
    """Raised at a signal, and at the end of `--max-minutes`."""


Plan = Callable[[Choices], Sequence[Run]]


def run_all(
    paths: StudyPaths,
    max_minutes: float | None = None,
    plan: Plan = make_runs,
    studied: Mapping[str, StudiedTask] = STUDIED,
) -> list[str]:
    """Run what is not finished; returns the keys of failed runs."""
    describe_environment()  # caches the commit of the code that was started
    failed: list[str] = []
    try:
        with _stopping(max_minutes):
            while _run_next(plan(paths.choices(studied)), paths, studied, failed):
                pass
    except Stopped:
        log.info("stopped; run the same command to resume")
    return failed


def _run_next(
    runs: Sequence[Run], paths: StudyPaths, studied: Mapping[str, StudiedTask], failed: list[str]
) -> bool:
    """Execute the first run that is neither done, failed nor claimed by another process, if any."""
    for run in runs:
        with paths.claim(run.key) as is_ours:
            if not is_ours or run.key in failed or paths.has(run, studied[run.task]):
                continue
            log.info("%s, about %.0f minutes", run.key, run.minutes)
            try:
                make(run, paths, studied[run.task])
            except ElmoError as error:
                log.error("%s failed: %s", run.key, error)
                failed.append(run.key)
            return True
    return False


def make(run: Run, paths: StudyPaths, studied: StudiedTask) -> None:
    """Train one model, measure it on the test data, and write its result."""
    variant, task = VARIANTS[run.variant], find_task(studied.task)
    bilm = tune(studied, paths) if variant.is_tuned else paths.find_bilm(variant)
    work = paths.work(run)
    result = train_task(
        task,
        run.config,
        paths.find(studied.train, run.fold),
        paths.find(studied.dev, run.fold),
        work,
        bilm=bilm,
        static=paths.glove if variant.has_glove else None,
        cache=paths.out / "cache",
    )
    if result is None:
        raise Stopped
    trained = open_task(work, cache=paths.out / "cache")
    measured = {}
    for name in (studied.test, *studied.also):
        examples = trained.read(paths.find(name, run.fold))
        trained.cache_layers(examples)
        measured[name] = trained.measure(examples)
    test_scores = measured.pop(studied.test)
    more = {
        "plan": VERSION,
        "studied": run.task,
        "variant": run.variant,
        "tried": run.tried,
        "fold": run.fold,
        "sets": list(run.sets),
        "data_sha256": paths.data_sha256(run, studied),
        "test_scores": test_scores,
        "also": measured,
        "started_from": paths.started_from(variant),
        "version": elmo.__version__,
        "environment": describe_environment(),
    }
    write_result(paths.result(run.key), {"key": run.key, **result, **more})
    shutil.rmtree(work.parent)  # model and checkpoints, which the tables do not need


def tune(studied: StudiedTask, paths: StudyPaths) -> Path:
    """The biLM fine-tuned on a task's text; its perplexities are written as a result."""
    from benchmarks.finetune import tune as tune_on

    assert studied.text is not None
    folder = paths.out / "tuned" / paths.bilm_sha256[:16]
    key, model = f"tune-{studied.text}", folder / studied.text / "model"
    with paths.claim(key, wait=True):
        if paths.has_tuned(key) and model.exists():
            return model
        started_at = time.perf_counter()
        start = paths.bilm or Path(ENGLISH)
        tuned = tune_on(start, studied.text, paths.data, folder, TUNED_EPOCHS)
        if tuned is None:
            raise Stopped
        result = {
            "key": key,
            "text": studied.text,
            "seconds": time.perf_counter() - started_at,
            "before": asdict(tuned.before),
            "after": asdict(tuned.after),
            "started_from": paths.bilm_sha256,
            "version": elmo.__version__,
            "environment": describe_environment(),
        }
        write_result(paths.result(key), result)
    return model


def write_result(path: Path, result: dict[str, Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_json(path, result)


@contextmanager
def _stopping(max_minutes: float | None) -> Iterator[None]:
    """Raise `Stopped` at Ctrl-C, at SIGTERM, and after `max_minutes`.

    A thread sends this process a SIGTERM. The training loop handles it by saving and stopping. All
    other steps write their files atomically and can be repeated.
    """

    is_over = threading.Event()

    def stop(number: int, frame: FrameType | None) -> None:
        if not is_over.is_set():
            raise Stopped

    before = {number: signal.signal(number, stop) for number in (signal.SIGINT, signal.SIGTERM)}

    def send_signals(seconds: float) -> None:
        while not is_over.wait(seconds):
            os.kill(os.getpid(), signal.SIGTERM)
            seconds = SECONDS_BETWEEN_SIGNALS

    try:
        if max_minutes is not None:
            threading.Thread(target=send_signals, args=(60 * max_minutes,), daemon=True).start()
        yield
    finally:
        while not is_over.is_set():
            with suppress(Stopped):  # of a signal during this loop: the thread must still end
                is_over.set()
        for number, action in before.items():
            signal.signal(number, action)
