"""Training, development and test parts of data that is published as one file.

In: Wikigold, which has no official split; SICK, which has a column for it; or the development file
of SQuAD, whose test data is not public. Out: a folder with one file per part, always the same.
docs/benchmarks/study-data.json lists the documents of each part.
"""

import json
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from typing import Any

from elmo.errors import DataError
from elmo.files.atomic import write_text
from elmo.files.text_files import read_lines
from elmo.tasks.nli.data import DEV_SET, SET_COLUMN, TRAINING_SET
from elmo.tasks.tagging.data import DOCUMENT_START

N_FOLDS = 5
SETS = {"train": TRAINING_SET, "dev": DEV_SET, "test": "TEST"}
# The output of benchmarks/overlap.py, which names the articles that occur in the biLM's text.
OVERLAP = Path(__file__).parents[2] / "docs" / "benchmarks" / "overlap.json"


def wikigold_part(article: int, fold: int) -> str:
    """The part of an article, counted from 0, in a fold of the cross-validation."""
    group, number = article % N_FOLDS, article // N_FOLDS
    if group == fold:
        return "test"
    # Half of the next fold: a tenth of all articles.
    return "dev" if group == (fold + 1) % N_FOLDS and number % 2 == 0 else "train"


def split_wikigold(source: Path, folder: Path) -> None:
    """Split Wikigold by article: in each fold a fifth for testing, a tenth for development."""
    articles = [""]
    for line in read_lines(source):
        if line.startswith(DOCUMENT_START):
            articles.append("")
        else:
            articles[-1] += f"{line}\n"
    articles = [article.strip("\n") for article in articles if article.strip()]
    for fold in range(N_FOLDS):
        for part in SETS:
            own = [text for k, text in enumerate(articles) if wikigold_part(k, fold) == part]
            _write(folder / str(fold) / f"{part}.conll", "\n\n".join(own))


def split_sick(source: Path, folder: Path) -> None:
    """Split SICK by its column of sets, as in SemEval."""
    header, *rows = [*read_lines(source)] or [""]
    names = header.split("\t")
    if SET_COLUMN not in names:
        raise DataError(
            f"{source}:1: the columns {', '.join(names)[:80]}, expected {SET_COLUMN} among them, "
            "as SICK has"
        )
    column = names.index(SET_COLUMN)
    for part, name in SETS.items():
        own = [row for row in rows if row and row.split("\t")[column] == name]
        _write(folder / f"{part}.tsv", "\n".join([header, *own]))


def split_squad(source: Path, folder: Path) -> None:
    """Split SQuAD's development data by article: every third for development, the rest for testing.

    Articles that occur in the biLM's training text are in neither.
    """
    try:
        published = json.loads("\n".join(read_lines(source)))
        articles = published["data"]
    except (ValueError, TypeError, KeyError):
        raise DataError(
            f"{source}: not SQuAD's JSON, expected an object with the articles in data"
        ) from None
    for part, own in squad_parts(articles, known_articles()).items():
        _write(folder / f"{part}.json", json.dumps({**published, "data": own}))


def squad_parts(
    articles: Sequence[dict[str, Any]], known: Sequence[str]
) -> dict[str, list[dict[str, Any]]]:
    """Articles for development and testing, without those in the biLM's training text."""
    parts = {"dev": articles[2::3], "test": [a for k, a in enumerate(articles) if k % 3 != 2]}
    return {part: [a for a in own if a["title"] not in known] for part, own in parts.items()}


def known_articles(overlap: Path = OVERLAP) -> list[str]:
    """The titles of SQuAD's development articles that occur in the biLM's training text."""
    if not overlap.exists():
        raise DataError(f"{overlap}: no such file; python -m benchmarks.overlap writes it")
    return list(json.loads(overlap.read_text())["parts"]["squad/dev"]["names"])


def check_overlap(bilm_sha256: str, overlap: Path = OVERLAP) -> None:
    """Refuse to split SQuAD for a biLM for whose training text the overlap was not measured."""
    found = json.loads(overlap.read_text())["bilm_sha256"]
    if found != bilm_sha256:
        raise DataError(
            f"{overlap}: of the biLM {found and found[:16]}, expected {bilm_sha256[:16]}; SQuAD is "
            "scored without articles of the training text: run python -m benchmarks.overlap with "
            "-m, or the study with --task and other tasks"
        )


SPLITS = {
    "squad-dev": (Path("squad") / "dev.json.xz", split_squad),
    "wikigold": (Path("ner") / "wikigold.conll", split_wikigold),
    "sick": (Path("research-only") / "sick" / "SICK.txt", split_sick),
}


def find_part(name: str, data: Path, made: Path) -> Path:
    """The file of a part; parts of data published as one file are written once per process."""
    if (kind := name.partition("/")[0]) not in SPLITS:
        return data / name
    _make_parts(kind, data, made)
    return made / name


@cache
def _make_parts(kind: str, data: Path, made: Path) -> None:
    source, split = SPLITS[kind]
    split(data / source, made / kind)


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text + "\n")
