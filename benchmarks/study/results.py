"""The results of runs, read from their files and looked up by task and variant.

In: a folder of JSON files. Out: `Results`, with the mean and the spread over seeds of any cell, the
paired test of a difference, and the settings that dev data chose. Runs with other settings than
those of the plan, or with another biLM than the reported one, are left out.
"""

import json
import logging
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from scipy.stats import ttest_rel

from benchmarks.study.plan import SIDES, STUDIED, VARIANTS, Run
from elmo.errors import DataError

MAX_P = 0.05

log = logging.getLogger(__name__)
Result = Mapping[str, Any]


@dataclass(frozen=True)
class Cell:
    """The values of a score over seeds."""

    values: tuple[float, ...]
    is_converged: bool = True  # patience ended every run

    @property
    def mean(self) -> float:
        """The mean over seeds."""
        return mean(self.values)

    @property
    def spread(self) -> float:
        """The standard deviation over seeds; 0 for one seed."""
        return stdev(self.values) if len(self.values) > 1 else 0.0

    def __str__(self) -> str:
        spread = f" ± {self.spread:.2f}" if len(self.values) > 1 else ""
        return f"{self.mean:.2f}{spread}{'' if self.is_converged else ' (!)'}"


@dataclass(frozen=True)
class Difference:
    """The difference between two variants, in pairs of the same seed."""

    before: Cell
    after: Cell
    differences: tuple[float, ...]
    p: float | None  # two-sided paired t-test; None: too few pairs, or zero variance

    @property
    def gain(self) -> float:
        """The mean difference."""
        return self.after.mean - self.before.mean

    @property
    def reduction(self) -> float:
        """The relative error reduction in percent, as in the paper."""
        return self._share_of_error(self.gain)

    @property
    def spread(self) -> float:
        """Standard deviation of the difference; infinite for one pair."""
        return stdev(self.differences) if len(self.differences) > 1 else float("inf")

    @property
    def spread_of_reduction(self) -> float:
        """The spread as a share of the error, in percent."""
        return self._share_of_error(self.spread)

    def _share_of_error(self, points: float) -> float:
        return 100 * points / (100 - self.before.mean)

    @property
    def is_clear(self) -> bool:
        """Whether a conclusion may be drawn: p is below 0.05.

        That the difference is larger than its spread would not be enough: with three pairs, every
        fourth difference is if nothing differs.
        """
        return self.p is not None and self.p < MAX_P


@dataclass(frozen=True)
class Results:
    """The results of all runs."""

    runs: Sequence[Result]
    tunings: Sequence[Result] = ()
    bilm_sha256: str | None = None

    @staticmethod
    def read(
        folder: Path, bilm_sha256: str, is_current: Callable[[Result], bool] = lambda _: True
    ) -> "Results":
        """Read the files of a folder; those of a study's folder are in `runs`.

        `is_current` tells whether a run has the current data; other runs are left out.
        """
        inner = folder / "runs" if (folder / "runs").is_dir() else folder
        found = [json.loads(path.read_text()) for path in sorted(inner.glob("*.json"))]
        kept = []
        for result in found:
            if problem := _problem(result, bilm_sha256):
                log.warning("%s was made with %s; it is left out", result["key"], problem)
            else:
                kept.append(result)
        runs = [each for each in kept if "studied" in each and is_current(each)]
        runs.sort(key=lambda run: (run["seed"], run["fold"]))
        _check_same_data(runs)
        return Results(runs, [each for each in kept if "text" in each], bilm_sha256)

    def choices(self) -> dict[tuple[str, str], int]:
        """The settings with the best dev score of seed 1, for sides whose settings have all run."""
        chosen: dict[tuple[str, str], int] = {}
        for task, studied in STUDIED.items():
            for side in SIDES:
                scores = [self.dev_of_try(task, side, k) for k in range(len(studied.tried))]
                known = [score for score in scores if score is not None]
                if len(known) == len(scores):
                    chosen[task, side] = known.index(max(known))
        return chosen

    def dev_of_try(self, task: str, side: str, tried: int) -> float | None:
        """The mean dev score over folds of seed 1 with some settings; None if a fold is missing."""
        runs = [run for run in self._all(task, side) if run["tried"] == tried and run["seed"] == 1]
        if len({run["fold"] for run in runs}) < STUDIED[task].n_folds:
            return None
        return mean(run["scores"][run["metric"]] for run in runs)

    def of(self, task: str, variant: str) -> list[Result]:
        """The runs of a task's variant with the chosen settings, by seed and fold."""
        chosen = self.choices().get((task, VARIANTS[variant].side), 0)
        return [run for run in self._all(task, variant) if run["tried"] == chosen]

    def cell(
        self,
        task: str,
        variant: str,
        part: str = "test_scores",
        seeds: Container[int] | None = None,
    ) -> Cell | None:
        """The metric of a task's variant by seed, the mean over folds; `scores` are of dev data."""
        runs = [run for run in self.of(task, variant) if seeds is None or run["seed"] in seeds]
        scores = tuple(self._by_seed(task, variant, part, seeds).values())
        return Cell(scores, all(map(is_converged, runs))) if scores else None

    def difference(
        self, task: str, before: str, after: str, part: str = "test_scores"
    ) -> Difference | None:
        """The difference between two variants, for the seeds that both have.

        Folds are averaged first: those of one seed, and one fold of several seeds, are not
        independent of each other.
        """
        both = [self._by_seed(task, variant, part) for variant in (before, after)]
        seeds = both[0].keys() & both[1].keys()
        cells = [self.cell(task, variant, part, seeds) for variant in (before, after)]
        if cells[0] is None or cells[1] is None:
            return None
        pairs = cells[0].values, cells[1].values
        differences = tuple(b - a for a, b in zip(*pairs, strict=True))
        p = None
        if len(differences) > 1 and stdev(differences) > 0:
            p = float(ttest_rel(*pairs).pvalue)
        return Difference(cells[0], cells[1], differences, p)

    def _by_seed(
        self, task: str, variant: str, part: str, seeds: Container[int] | None = None
    ) -> dict[int, float]:
        """The mean over folds, for seeds whose folds have all been run."""
        scores: dict[int, list[float]] = {}
        for run in self.of(task, variant):
            if seeds is None or run["seed"] in seeds:
                scores.setdefault(run["seed"], []).append(run[part][run["metric"]])
        n_folds = STUDIED[task].n_folds
        return {seed: mean(each) for seed, each in scores.items() if len(each) == n_folds}

    def metric(self, task: str) -> str:
        """The name of a task's metric; empty if it has no runs."""
        return next((str(run["metric"]) for run in self.runs if run["studied"] == task), "")

    def tuning(self, text: str) -> Result | None:
        """The result of fine-tuning the biLM on a text."""
        return next((each for each in self.tunings if each["text"] == text), None)

    def _all(self, task: str, variant: str) -> list[Result]:
        """The runs of a task's variant with any settings."""
        return [run for run in self.runs if (run["studied"], run["variant"]) == (task, variant)]


def is_converged(run: Result) -> bool:
    """Whether patience ended a run: its last `patience` evaluations brought no improvement."""
    train = run["settings"]["train"]
    n_epochs = train["patience"] * train["evaluate_every"]
    return bool(run["n_epochs"] - run["best_epoch"] >= n_epochs)


def _check_same_data(runs: Sequence[Result]) -> None:
    """Reject runs of one task and fold with different data, and different word vectors."""
    known: dict[tuple[str, str], tuple[str, str]] = {}
    for run in runs:
        for name, digest in run["data_sha256"].items():
            same = "" if name == "words" else f"{run['studied']}, fold {run['fold']}"
            key, first = known.setdefault((same, name), (run["key"], digest))
            if digest != first:
                raise DataError(
                    f"{run['key']}: {name} has hash {digest[:12]}, expected {first[:12]} as in "
                    f"{key}; runs of a study have the same data"
                )


def _problem(result: Result, bilm_sha256: str) -> str | None:
    """Why a result does not belong to the current study; None if it does."""
    is_run = "studied" in result
    if is_run and not is_planned(result):
        return "other settings"
    # Variants with weights of their own say so in their titles.
    is_of_one_bilm = not is_run or _has_this_bilm(result["variant"])
    if is_of_one_bilm and result["started_from"] != bilm_sha256:
        return f"another biLM, {result['started_from'][:16]}"
    return None


def is_planned(result: Result) -> bool:
    """Whether a result has the current settings of the run that it names."""
    if result.get("studied") not in STUDIED or result["variant"] not in VARIANTS:
        return False
    tried = result.get("tried", 0)
    if tried >= len(STUDIED[result["studied"]].tried):
        return False
    return run_of(result).is_made_by(result)


def run_of(result: Result) -> Run:
    """The run that a result names."""
    names = ("studied", "variant", "tried", "seed", "fold")
    return Run(*(result.get(name, 0) for name in names))


def _has_this_bilm(variant: str) -> bool:
    """Whether a variant uses the study's biLM, as it is or fine-tuned."""
    return VARIANTS[variant].has_elmo and VARIANTS[variant].weights is None
