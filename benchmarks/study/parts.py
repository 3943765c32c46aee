"""Data that comes as one file, in the parts that a study needs, the same wherever they are made.

In: the file of Wikigold, with a line between articles and no split of its own; SICK's, with a
column that says what a pair is for; or SQuAD's dev file, whose test data nobody has. Out: a folder
with a file for each part.
"""

import json
import os
from pathlib import Path

from elmo.errors import DataError
from elmo.files.text_files import read_lines
from elmo.tasks.nli.data import DEV_SET, SET_COLUMN, TRAINING_SET
from elmo.tasks.tagging.data import DOCUMENT_START

TENTHS = ("train",) * 8 + ("dev", "test")  # of the articles
SETS = {"train": TRAINING_SET, "dev": DEV_SET, "test": "TEST"}


def split_wikigold(source: Path, folder: Path) -> None:
    """By articles: of ten eight, one and one."""
    articles = [""]
    for line in read_lines(source):
        if line.startswith(DOCUMENT_START):
            articles.append("")
        else:
            articles[-1] += f"{line}\n"
    articles = [article.strip("\n") for article in articles if article.strip()]
    for part in dict.fromkeys(TENTHS):
        own = [text for k, text in enumerate(articles) if TENTHS[k % len(TENTHS)] == part]
        _write(folder / f"{part}.conll", "\n\n".join(own))


def split_sick(source: Path, folder: Path) -> None:
    """By its column, as SemEval did."""
    header, *rows = [*read_lines(source)] or [""]
    names = header.split("\t")
    if SET_COLUMN not in names:
        raise DataError(
            f"{source}:1: the columns {', '.join(names)[:80]}, expected {SET_COLUMN} among them, "
            "as SICK has; name the folder of its file as it was published"
        )
    column = names.index(SET_COLUMN)
    for part, name in SETS.items():
        own = [row for row in rows if row and row.split("\t")[column] == name]
        _write(folder / f"{part}.tsv", "\n".join([header, *own]))


def split_squad(source: Path, folder: Path) -> None:
    """Its dev data by articles: every third to stop by, the others as a test."""
    try:
        published = json.loads("\n".join(read_lines(source)))
        articles = published["data"]
    except (ValueError, TypeError, KeyError):
        raise DataError(
            f"{source}: not SQuAD's JSON, expected an object with the articles in data; name the "
            "folder of its file as it was published"
        ) from None
    parts = {"dev": articles[2::3], "test": [a for k, a in enumerate(articles) if k % 3 != 2]}
    for part, own in parts.items():
        _write(folder / f"{part}.json", json.dumps({**published, "data": own}))


SPLITS = {
    "squad-dev": (Path("squad") / "dev.json.xz", split_squad),
    "wikigold": (Path("ner") / "wikigold.conll", split_wikigold),
    "sick": (Path("research-only") / "sick" / "SICK.txt", split_sick),
}


def find_part(name: str, data: Path, made: Path) -> Path:
    """A file of the data; parts of data that comes as one file are made if they are not there."""
    if (kind := name.partition("/")[0]) not in SPLITS:
        return data / name
    if not (made / name).exists():
        source, split = SPLITS[kind]
        split(data / source, made / kind)
    return made / name


def _write(path: Path, text: str) -> None:
    """Whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_suffix(f".{os.getpid()}.unfinished")
    unfinished.write_text(text + "\n", encoding="utf-8")
    os.replace(unfinished, path)
