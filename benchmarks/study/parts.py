"""Training, development and test parts of data that is published as one file.

In: Wikigold, which has no official split; SICK, which has a column for it; or the development file
of SQuAD, whose test data is not public. Out: a folder with one file per part, always the same.
"""

import json
from pathlib import Path

from elmo.errors import DataError
from elmo.files.atomic import write_text
from elmo.files.text_files import read_lines
from elmo.tasks.nli.data import DEV_SET, SET_COLUMN, TRAINING_SET
from elmo.tasks.tagging.data import DOCUMENT_START

TENTHS = ("train",) * 8 + ("dev", "test")  # of the articles
SETS = {"train": TRAINING_SET, "dev": DEV_SET, "test": "TEST"}


def split_wikigold(source: Path, folder: Path) -> None:
    """By articles: of ten, eight for training, one for development and one for testing."""
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
    """By its column, as in SemEval."""
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
    """Its development data by articles: every third for development, the others for testing."""
    try:
        published = json.loads("\n".join(read_lines(source)))
        articles = published["data"]
    except (ValueError, TypeError, KeyError):
        raise DataError(
            f"{source}: not SQuAD's JSON, expected an object with the articles in data"
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
    """The file of a part; parts of data that is one file are written on first use."""
    if (kind := name.partition("/")[0]) not in SPLITS:
        return data / name
    if not (made / name).exists():
        source, split = SPLITS[kind]
        split(data / source, made / kind)
    return made / name


def _write(path: Path, text: str) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    write_text(path, text + "\n")
