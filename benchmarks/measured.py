"""Helpers of the benchmarks: workers, rounds in turns, conditions of a run, stored results.

A result file is a JSON object of sections. Each section is measured and stored by itself, with the
conditions at that moment and the numbers of every round, so that an interrupted run can continue.
"""

import datetime
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from statistics import median
from typing import Any

from benchmarks.environment import describe_environment
from elmo.network import kernels

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "docs" / "benchmarks"
PEERS = Path.home() / ".cache" / "elmo-peers"
Job = Callable[[], float]
Setting = str | int | bool | None


class Worker:
    """A process that runs jobs on request; see workers/protocol.py."""

    def __init__(
        self,
        python: Path | str,
        script: str,
        *arguments: Path | str,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self._process = subprocess.Popen(
            [str(python), str(ROOT / "benchmarks" / "workers" / script), *map(str, arguments)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, **(environment or {})},
        )

    def run(self, job: str, **settings: Setting) -> dict[str, Any]:
        """Run one job and return what it measured."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.write(json.dumps({"job": job, **settings}) + "\n")
        self._process.stdin.flush()
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the worker ended in job {job}; its message is above")
        answer: dict[str, Any] = json.loads(line)
        return answer

    def seconds(self, job: str, **settings: Setting) -> float:
        """Run one job and return the time it took."""
        return float(self.run(job, **settings)["seconds"])

    def __enter__(self) -> "Worker":
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait()


def in_turns(jobs: Mapping[str, Job], n_rounds: int) -> dict[str, list[float]]:
    """The result of each job in each round; all jobs run once in a round."""
    found: dict[str, list[float]] = {name: [] for name in jobs}
    for _ in range(n_rounds):
        for name, job in jobs.items():
            found[name].append(round(job(), 5))
    return found


def conditions(**more: str | float) -> dict[str, Any]:
    """The conditions of a measurement: environment, date, load and kernels."""
    return {
        **describe_environment(),
        "date": datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        "n_cores": os.cpu_count(),
        "busy_cores": busy_cores(),
        "kernels": kernels.describe(),
        **more,
    }


def busy_cores(seconds: float = 1.0) -> float | None:
    """Number of cores that other processes use while this one sleeps; None without /proc/stat."""
    try:
        before = _processor_times()
        time.sleep(seconds)
        spent = [now - then for now, then in zip(_processor_times(), before, strict=True)]
    except OSError:
        return None
    idle = spent[3] + spent[4]  # the latter is iowait
    return round((os.cpu_count() or 1) * (1 - idle / sum(spent)), 2)


def _processor_times() -> list[int]:
    """Ticks of all cores: user, nice, system, idle, iowait, irq, softirq, steal."""
    first_line = Path("/proc/stat").read_text().split("\n", 1)[0]
    return [int(ticks) for ticks in first_line.split()[1:9]]


def version_in(python: Path, package: str) -> str:
    """The version of a package in another environment."""
    program = f"import importlib.metadata as m; print(m.version({package!r}))"
    done = subprocess.run([str(python), "-c", program], capture_output=True, text=True, check=True)
    return done.stdout.strip()


def store(path: Path | None, section: str, result: Mapping[str, Any]) -> None:
    """Write one section to a result file, keeping the others; without a file, print it."""
    if path is None:
        print(json.dumps({section: result}, indent=1))
        return
    sections = load(path) if path.exists() else {}
    sections[section] = result
    path.write_text(json.dumps(sections, indent=1) + "\n", encoding="utf-8")
    print(f"{path.name}: {section} stored", file=sys.stderr)


def load(path: Path) -> dict[str, Any]:
    """The sections of a result file."""
    found: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    return found


class Rate:
    """Median and best rate per second, from the seconds of each round."""

    def __init__(self, amount: float, seconds: list[float]) -> None:
        self.median = amount / median(seconds)
        self.best = amount / min(seconds)
