"""The protocol of benchmark workers: processes that run one job per request.

The benchmark writes a line of JSON, a job's name and settings; the worker answers with a line of
JSON, the seconds it took and whatever else it measured. So two implementations run in separate
environments, in turns, which makes them comparable on a machine that is not idle.
"""

import json
import sys
import time
from collections.abc import Callable
from typing import Any

Job = Callable[..., dict[str, Any] | None]


def serve(jobs: dict[str, Job]) -> None:
    """Answer jobs from standard input until it ends."""
    answers, sys.stdout = sys.stdout, sys.stderr  # keeps what libraries print out of the answers
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
    """Peak memory of this process in RAM.

    `getrusage` would include the peak of the process that started this one.
    """
    return _status_bytes("VmHWM")


def _status_bytes(field: str) -> int:
    with open("/proc/self/status", encoding="ascii") as file:
        fields = dict(line.split(":", 1) for line in file)
    return int(fields[field].split()[0]) * 1024
