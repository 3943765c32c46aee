"""The results of runs, read from their files and looked up by task and variant.

In: a folder of JSON files. Out: `Results`, with the mean and the spread over seeds of any cell.
Runs with other settings than those of the plan, or with another biLM than the reported one, are
left out.
"""

import json
import logging
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from benchmarks.study.plan import VARIANTS, Run

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Cell:
    """A number over seeds."""

    values: tuple[float, ...]

    @property
    def mean(self) -> float:
        """Over the seeds."""
        return mean(self.values)

    @property
    def spread(self) -> float:
        """Standard deviation; 0 of one seed."""
        return stdev(self.values) if len(self.values) > 1 else 0.0

    def __str__(self) -> str:
        spread = f" ± {self.spread:.2f}" if len(self.values) > 1 else ""
        return f"{self.mean:.2f}{spread}"


@dataclass(frozen=True)
class Results:
    """The results of all runs."""

    runs: Sequence[Mapping[str, Any]]
    tunings: Sequence[Mapping[str, Any]]

    @staticmethod
    def read(folder: Path, bilm_sha256: str) -> "Results":
        """Of a folder's files; those of a study's folder are in `runs`."""
        inner = folder / "runs" if (folder / "runs").is_dir() else folder
        found = [json.loads(path.read_text()) for path in sorted(inner.glob("*.json"))]
        kept = []
        for result in found:
            if problem := _problem(result, bilm_sha256):
                log.warning("%s was made with %s; it is left out", result["key"], problem)
            else:
                kept.append(result)
        runs = sorted((each for each in kept if "studied" in each), key=lambda run: run["seed"])
        return Results(runs, [each for each in kept if "text" in each])

    def of(self, task: str, variant: str) -> list[Mapping[str, Any]]:
        """The runs of a task's variant, by seed."""
        return [run for run in self.runs if (run["studied"], run["variant"]) == (task, variant)]

    def cell(
        self, task: str, variant: str, part: str = "scores", seeds: Container[int] | None = None
    ) -> Cell | None:
        """The metric of a task's variant; `part` may be `test_scores`, `seeds` some of all."""
        runs = [
            run
            for run in self.of(task, variant)
            if run.get(part) and (seeds is None or run["seed"] in seeds)
        ]
        return Cell(tuple(run[part][run["metric"]] for run in runs)) if runs else None

    def metric(self, task: str) -> str:
        """By its name."""
        return next((str(run["metric"]) for run in self.runs if run["studied"] == task), "")

    def tuning(self, text: str) -> Mapping[str, Any] | None:
        """How the biLM was tuned on a text."""
        return next((each for each in self.tunings if each["text"] == text), None)


def _plan(result: Mapping[str, Any]) -> Run:
    """The run that a result says it is of."""
    return Run(result["studied"], result["variant"], result["seed"], frozenset())


def _problem(result: Mapping[str, Any], bilm_sha256: str) -> str | None:
    """Why a result is not one of the study as it is now, if so."""
    is_run = "studied" in result
    if is_run and not _plan(result).is_made_by(result):
        return "other settings"
    # What has weights of its own says so in its variant's title.
    is_of_one_bilm = not is_run or _has_this_bilm(result["variant"])
    if is_of_one_bilm and result["started_from"] != bilm_sha256:
        return f"another biLM, {result['started_from'][:16]}"
    return None


def _has_this_bilm(variant: str) -> bool:
    """Whether it has the study's biLM, as it is or tuned."""
    return VARIANTS[variant].has_elmo and VARIANTS[variant].weights is None
