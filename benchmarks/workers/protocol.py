"""What a worker of a benchmark is: a process that runs one job each time it is told to.

The benchmark writes a line of JSON, a job's name and settings; the worker answers with a line of
JSON, the seconds it took and whatever else it measured. So two implementations run in environments
of their own, in turns, on a machine that is not quiet.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

Job = Callable[..., dict[str, Any] | None]


def serve(jobs: dict[str, Job]) -> None:
    """Answer jobs from standard input until it ends."""
    answers, sys.stdout = sys.stdout, sys.stderr  # libraries print; the answers stay clean
    for line in sys.stdin:
        job = json.loads(line)
        name = job.pop("job")
        started_at, cpu_started_at = time.perf_counter(), time.process_time()
        more = jobs[name](**job)
        spent = {
            "seconds": time.perf_counter() - started_at,
            "cpu_seconds": time.process_time() - cpu_started_at,
        }
        print(json.dumps({**spent, **(more or {})}), file=answers, flush=True)


def resident_bytes() -> int:
    """Memory that this process has in RAM."""
    return _status_bytes("VmRSS")


def peak_bytes() -> int:
    """The most memory that this process has had in RAM.

    `getrusage` would count what the process that started this one had, too.
    """
    return _status_bytes("VmHWM")


def _status_bytes(field: str) -> int:
    with open("/proc/self/status", encoding="ascii") as file:
        fields = dict(line.split(":", 1) for line in file)
    return int(fields[field].split()[0]) * 1024
