"""The data of the study: its files, and our own splits as lists of documents.

In: the folder of data. Out: plain values for docs/benchmarks/study-data.json, with which
`python -m benchmarks.study data` compares another copy of the data.
"""

import hashlib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from benchmarks.overlap import (
    Document,
    article_starts,
    column_documents,
    document_starts,
    squad_articles,
)
from benchmarks.study.parts import (
    N_FOLDS,
    SETS,
    SPLITS,
    known_articles,
    squad_parts,
    wikigold_part,
)
from benchmarks.study.plan import STUDIED
from elmo.files.text_files import read_raw_lines

RECORD = Path(__file__).parents[2] / "docs" / "benchmarks" / "study-data.json"
N_WORDS = 8  # first words, which identify a document without a name


def describe_data(data: Path) -> dict[str, Any]:
    """The files of all tasks of the study, and the documents of our splits."""
    return {"files": {name: _describe_file(data / name) for name in data_files()}} | {
        "splits": describe_splits(data)
    }


def data_files() -> list[str]:
    """The names of all files of the study."""
    names = {
        name
        for studied in STUDIED.values()
        for name in (studied.train, studied.dev, studied.test, *studied.also)
    }
    whole = {str(SPLITS[name.partition("/")[0]][0]) for name in names if _is_split(name)}
    return sorted(whole | {name for name in names if not _is_split(name)})


def describe_splits(data: Path) -> dict[str, Any]:
    """The documents of each part of our own splits."""
    wikigold = list(
        column_documents("wikigold", "all", data / "ner/wikigold.conll", 0, article_starts)
    )
    folds = {
        str(fold): {
            part: [k for k in range(len(wikigold)) if wikigold_part(k, fold) == part]
            for part in SETS
        }
        for fold in range(N_FOLDS)
    }
    articles = [
        {"title": article.name} for article in squad_articles(data / "squad/dev.json.xz", "dev")
    ]
    known = known_articles()
    squad = {
        part: [article["title"] for article in own]
        for part, own in squad_parts(articles, known).items()
    }
    ontogum = {
        part: [
            first_words(document)
            for document in column_documents(
                "ontogum", part, data / f"coref/ontogum/{part}.conll.xz", 1, document_starts
            )
        ]
        for part in SETS
    }
    return {
        "wikigold": {"articles": [first_words(each) for each in wikigold], "folds": folds},
        "squad": squad | {"left out": list(known)},
        "ontogum": ontogum,
    }


def first_words(document: Document) -> str:
    """The first words of a document, which identify it if it has no name."""
    return " ".join(document.texts[0].split()[:N_WORDS])


def differences(found: Mapping[str, Any], recorded: Mapping[str, Any]) -> list[str]:
    """Describe how the data differs from the recorded data, one line per difference."""
    lines = [
        f"{name}: {mine['lines']} lines with hash {mine['sha256'][:12]}, expected "
        f"{known['lines']} with {known['sha256'][:12]}"
        for name, mine in found["files"].items()
        if mine != (known := recorded["files"].get(name, {"lines": 0, "sha256": "none"}))
    ]
    lines += [
        f"the split of {name} differs"
        for name, split in found["splits"].items()
        if split != recorded["splits"].get(name)
    ]
    return lines


def _is_split(name: str) -> bool:
    return name.partition("/")[0] in SPLITS


def _describe_file(path: Path) -> dict[str, Any]:
    """The number of lines, and a hash of the text that does not depend on its compression."""
    digest, n_lines = hashlib.sha256(), 0
    for line in read_raw_lines(path):
        digest.update(line.rstrip("\r\n").encode() + b"\n")
        n_lines += 1
    return {"lines": n_lines, "sha256": digest.hexdigest()}
