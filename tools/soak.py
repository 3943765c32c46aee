"""Soak test: load, kills, full disks and damaged files, in under 20 minutes.

    python -m tools.soak --json docs/benchmarks/soak.json

Each part is a set of tests, or a program with a time limit. Writes the counts of each part, and
exits with 1 if something failed.
"""

import argparse
import asyncio
import datetime
import json
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import elmo
from benchmarks.serve import measure
from elmo import Elmo
from elmo.models import ENGLISH

TESTS = {
    "kills": [
        "tests/files/test_atomic.py",
        "tests/files/test_locks.py",
        "tests/training/test_run_folder.py",
        "tests/pretraining/test_pretrain.py::"
        "test_a_run_killed_again_and_again_has_the_losses_of_one_that_never_was",
        "tests/tasks/test_learner.py::"
        "test_a_run_killed_again_and_again_has_the_losses_of_one_that_never_was",
        "tests/vectors/corpus/test_embed.py",
        "tests/vectors/corpus/test_workers.py",
    ],
    "signals": ["tests/cli/test_signals.py"],
    "full disks": [
        "tests/cli/test_full_disk.py",
        "tests/cli/test_bad_outputs.py",
        "tests/files/test_hdf5.py",
    ],
    "server": ["tests/serve/test_robustness.py", "tests/serve/test_limits.py"],
    "hostile files": [
        "tests/models/formats/test_hostile_files.py",
        "tests/models/formats/test_archives.py",
        "tests/tasks/test_hostile_json.py",
        "tests/network/kernels/test_locate.py",
    ],
}
N_CLIENTS = 16
OUTCOMES = ("accepted", "refused", "traceback", "crash", "hang", "memory")


def run_tests(paths: list[str]) -> dict[str, Any]:
    """Run tests with pytest and return its counts."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.xml"
        words = [sys.executable, "-m", "pytest", "--quiet", f"--junitxml={report}", *paths]
        code = subprocess.run(words, check=False, stdout=sys.stderr).returncode
        suite = next(ElementTree.parse(report).getroot().iter("testsuite"))
    counts = {name: int(suite.attrib[name]) for name in ("tests", "skipped", "failures", "errors")}
    return {**counts, "is_passed": code == 0}


def run_fuzz(seconds: float) -> dict[str, Any]:
    """Run the fuzzer and return the counts of damaged files by outcome."""
    words = [sys.executable, "-m", "tools.fuzz", "--seconds", str(seconds)]
    words += ["--seed", str(int(time.time()))]
    done = subprocess.run(words, check=False, stdout=subprocess.PIPE, text=True)
    by_format = json.loads(done.stdout)
    outcomes: dict[str, int] = {}
    for counts in by_format.values():
        for outcome, n in counts.items():
            outcomes[outcome] = outcomes.get(outcome, 0) + n
    return {"formats": len(by_format), **outcomes, "is_passed": done.returncode == 0}


def run_load(seconds: float) -> dict[str, Any]:
    """Load a server of the English model with many clients; compare results with the library."""
    path = Path(ENGLISH)
    found = asyncio.run(measure(path, Elmo.load(path), N_CLIENTS, seconds))
    kept = ("requests", "errors", "worst_difference", "memory_mb")
    result = {name: found[name] for name in kept}
    is_passed = not found["errors"] and found["worst_difference"] < 1e-4
    return {"clients": N_CLIENTS, **result, "is_passed": is_passed}


def describe(name: str, result: dict[str, Any]) -> str:
    """A row of the table in docs/reliability.md."""
    if name == "load":
        counts = f"{result['clients']} clients, {result['requests']:,} requests"
        found = f"{result['errors']} errors, {max(result['memory_mb'])} MB at most"
    elif name == "fuzz":
        good = result["accepted"] + result["refused"]
        n_cases = sum(n for key, n in result.items() if key in OUTCOMES)
        counts = f"{n_cases:,} damaged files of {result['formats']} formats"
        found = f"{result['refused']:,} refused, {result['accepted']:,} accepted, "
        found += f"{n_cases - good} otherwise"
    else:
        n_bad = result["failures"] + result["errors"]
        counts, found = f"{result['tests']} tests", f"{n_bad} failed, {result['skipped']} skipped"
    return f"| {name} | {counts} | {found} | {result['seconds']} s | {result['date']} |"


def main() -> None:
    """Run the parts, write the counts, and exit with 1 if something failed."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument(
        "--seconds", type=float, default=240, help="of the load, and of the fuzzing"
    )
    parser.add_argument("--parts", default=",".join(["load", *TESTS, "fuzz"]))
    parser.add_argument("--json", type=Path, help="file for the counts; other parts in it are kept")
    settings = parser.parse_args()
    is_passed = True
    for name in settings.parts.split(","):
        started_at = time.monotonic()
        if name in TESTS:
            result = run_tests(TESTS[name])
        else:
            result = {"load": run_load, "fuzz": run_fuzz}[name](settings.seconds)
        result["seconds"] = round(time.monotonic() - started_at)
        result["date"] = datetime.date.today().isoformat()
        result["version"] = elmo.__version__
        is_passed &= result["is_passed"]
        sys.stdout.write(f"{name}: {json.dumps(result)}\n")
        sys.stdout.flush()
        if settings.json:
            known = json.loads(settings.json.read_text()) if settings.json.exists() else {}
            settings.json.write_text(json.dumps(known | {name: result}, indent=1) + "\n")
    sys.exit(not is_passed)


if __name__ == "__main__":
    main()
