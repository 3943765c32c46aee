"""Run the study, show its plan, or write its report."""

import argparse
import json
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from benchmarks.study import __doc__ as usage
from benchmarks.study.plan import SIDES, STUDIED, TABLES, Choices, Run, make_runs
from benchmarks.study.results import Result, Results, is_planned
from elmo.errors import ElmoError


def main() -> None:
    """Parse the command line."""
    parser = argparse.ArgumentParser(
        "python -m benchmarks.study",
        description=usage,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    verbs = parser.add_subparsers(dest="verb", required=True)
    data = verbs.add_parser("data", help="compare the data with that of the published study")
    data.add_argument("--write", action="store_true", help="record this data as the study's")
    plan = verbs.add_parser("plan", help="what will run, in order")
    run = verbs.add_parser("run", help="run what is not finished")
    for verb in (plan, run):
        verb.add_argument("--out", type=Path, required=verb is run, help="the study's folder")
        verb.add_argument("--only", choices=TABLES, help="runs of this table")
        verb.add_argument("--task", choices=STUDIED, nargs="+", help="runs of these tasks")
    for verb in (data, run):
        verb.add_argument("--data", type=Path, required=True, help="folder of the task data")
    run.add_argument("--glove", type=Path, required=True, help="word vectors of all tasks")
    run.add_argument("--max-minutes", type=float, help="stop then; run the same command to resume")
    report = verbs.add_parser("report", help="tables and plots of finished runs")
    report.add_argument("folder", type=Path, help="the study's folder, or one of result files")
    report.add_argument("--docs", type=Path, default=Path("docs"))
    for verb in (run, report):
        verb.add_argument("--model", "-m", type=Path, help="the biLM; the package's own by default")
    settings = parser.parse_args()
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(message)s", datefmt="%H:%M:%S")
    if settings.verb == "data":
        compare_data(settings.data, is_written=settings.write)
        return
    if settings.verb == "report":
        report_on(settings.folder, settings.docs, settings.model)
        return

    def plan_runs(choices: Choices) -> list[Run]:
        return [
            run
            for run in make_runs(choices)
            if (settings.only is None or settings.only in run.tables)
            and (settings.task is None or run.task in settings.task)
        ]

    if settings.verb == "plan":
        # Before their dev scores are known, the first settings stand for the chosen ones.
        first = {(task, side): 0 for task in STUDIED for side in SIDES}
        found = [] if settings.out is None else read_files(settings.out)
        show(plan_runs({**first, **Results(found).choices()}), found)
        return
    from benchmarks.study.parts import check_overlap
    from benchmarks.study.runner import StudyPaths, run_all

    paths = StudyPaths(settings.data, settings.out, settings.glove, settings.model)
    with one_line_errors():
        if any(run.task == "squad" for run in plan_runs({})):
            check_overlap(paths.bilm_sha256)
        failed = run_all(paths, settings.max_minutes, plan_runs)
        runs = plan_runs(paths.choices())
        print(f"{sum(map(paths.has, runs))} of {len(runs)} runs are done")
    sys.exit(1 if failed else 0)


@contextmanager
def one_line_errors() -> Iterator[None]:
    """Print an error that the user can fix, and exit with code 2."""
    try:
        yield
    except ElmoError as error:
        print(error, file=sys.stderr)
        sys.exit(2)


def compare_data(folder: Path, *, is_written: bool) -> None:
    """Print how the data differs from the recorded data, or record it."""
    from benchmarks.study.data import RECORD, describe_data, differences
    from elmo.files.atomic import write_json

    with one_line_errors():
        found = describe_data(folder)
    if is_written:
        write_json(RECORD, found)
        return
    lines = differences(found, json.loads(RECORD.read_text()))
    print("\n".join(lines) or "the data is that of the published study")
    sys.exit(1 if lines else 0)


def report_on(folder: Path, docs: Path, model: Path | None) -> None:
    """Write the page, or print the error in one line."""
    from benchmarks.study.report import write_report
    from benchmarks.study.runner import hash_model

    with one_line_errors():
        print(write_report(folder, docs, hash_model(model)))


def read_files(out: Path) -> list[Result]:
    """The results of finished runs, of any data and biLM."""
    found = [json.loads(path.read_text()) for path in (out / "runs").glob("*.json")]
    return [result for result in found if is_planned(result)]


def show(runs: list[Run], found: list[Result]) -> None:
    """Print one line per run: its minutes, the cumulative minutes, its tables."""
    total = 0.0
    done = {result["key"] for result in found}
    for run in runs:
        total += run.minutes
        is_done = run.key in done
        mark, tables = "done" if is_done else "", " ".join(sorted(run.tables))
        print(f"{run.minutes:5.1f} {total:6.0f}  {run.key:32} {tables:48} {mark}".rstrip())
    print(f"{len(runs)} runs, about {total / 60:.1f} hours of one core")


if __name__ == "__main__":
    main()
