"""Overlap of evaluation data with the training text of a biLM: runs of words that both contain.

In: text files, the folder of data that docs/data.md describes. Out: a JSON file, and a table. A
document of the data (an article, a tweet, a pair of sentences) overlaps if it shares a run of
N_SHARED words with the text. `english_text.py` excludes training documents with such runs.

    python -m benchmarks.overlap "text/*.txt.xz" DATA -m MODEL --json docs/benchmarks/overlap.json
"""

import argparse
import csv
import json
import multiprocessing
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path
from typing import Any

from tqdm import tqdm

from benchmarks.environment import describe_environment
from elmo.api import Elmo
from elmo.files.atomic import write_json
from elmo.files.text_files import find_text_files, read_lines
from elmo.models.identity import model_hash
from elmo.tasks.coref.data import BEGIN
from elmo.tasks.sentiment.data import read_tree
from elmo.tasks.tagging.data import DOCUMENT_START

# Like GPT-3's filter (Brown et al. 2020, appendix C).
N_SHARED = 13
WORD = re.compile(r"\w+")

# Hashes of word runs of the evaluation data; shared by forked processes.
known: set[int] = set()


@dataclass(frozen=True)
class Document:
    """A document of a data set."""

    data_set: str
    part: str  # train, dev or test; all: data without parts
    name: str
    texts: tuple[str, ...]  # paragraphs: no run of words crosses from one to the next

    def shingles(self) -> Iterator[int]:
        """Hashes of its runs of words."""
        for text in self.texts:
            yield from shingles(text)


def main() -> None:
    """Measure the overlap, write it as JSON, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("text", help="files of the biLM's training text, a pattern")
    parser.add_argument("data", type=Path)
    parser.add_argument("--model", "-m", type=Path, help="the biLM that was trained on the text")
    parser.add_argument("--json", type=Path, required=True)
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args()
    paths = find_text_files(options.text)
    found = measure(paths, list(evaluation_documents(options.data)), options.workers)
    bilm = None if options.model is None else model_hash(Elmo.load(options.model).bilm)
    write_json(options.json, {"bilm_sha256": bilm, **found, "environment": describe_environment()})
    print("\n".join(overlap_table(found)))


def measure(paths: list[Path], documents: list[Document], n_workers: int = 1) -> dict[str, Any]:
    """Count the overlap of each part of each data set with the text files."""
    known.update(each for document in documents for each in document.shingles())
    found: set[int] = set()
    n_words = 0
    with ProcessPoolExecutor(n_workers, multiprocessing.get_context("fork")) as pool:
        for hits, n in tqdm(pool.map(find_known, paths), "text", len(paths), disable=None):
            found |= hits
            n_words += n
    known.clear()
    parts: dict[str, dict[str, Any]] = {}
    for document in documents:
        name = f"{document.data_set}/{document.part}"
        counts = parts.setdefault(
            name, {"documents": 0, "overlapping": 0, "runs": 0, "runs_found": 0, "names": []}
        )
        is_found = [each in found for each in document.shingles()]
        counts["documents"] += 1
        counts["runs"] += len(is_found)
        counts["runs_found"] += sum(is_found)
        if any(is_found):
            counts["overlapping"] += 1
            counts["names"].append(document.name)
    return {
        "n_shared": N_SHARED,
        "text": {"files": [path.name for path in paths], "words": n_words},
        "parts": parts,
    }


def overlap_table(measured: Mapping[str, Any]) -> list[str]:
    """The counts as a Markdown table."""
    lines = [
        f"| data | documents | with {measured['n_shared']} words of the text | share of runs |",
        "|---|---|---|---|",
    ]
    for name, counts in measured["parts"].items():
        share = 100 * counts["runs_found"] / max(1, counts["runs"])
        lines.append(
            f"| {name} | {counts['documents']:,} | {counts['overlapping']:,} | {share:.2f}% |"
        )
    return lines


def find_known(path: Path) -> tuple[set[int], int]:
    """The known runs of words that a text file has, and its number of words."""
    hits: set[int] = set()
    n_words = 0
    for line in read_lines(path):
        n_words += len(line.split())
        hits.update(each for each in shingles(line) if each in known)
    return hits, n_words


def shingles(text: str) -> Iterator[int]:
    """Hashes of all runs of N_SHARED words."""
    words = WORD.findall(text.lower())
    for start in range(len(words) - N_SHARED + 1):
        yield hash(tuple(words[start : start + N_SHARED]))


def evaluation_documents(data: Path) -> Iterator[Document]:
    """The documents of all data sets of tasks and probes.

    UD EWT is left out, as it has the sentences of PropBank EWT; so are the held-out texts of the
    biLM, which are other articles and books by construction.
    """
    coref, research = data / "coref", data / "research-only"
    for part in ("train", "dev"):
        yield from squad_articles(data / "squad" / f"{part}.json.xz", part)
    yield from column_documents("wikigold", "all", data / "ner/wikigold.conll", 0, article_starts)
    for part in ("train", "dev", "test"):
        wnut, ewt = data / f"ner/wnut17/{part}.conll", data / f"srl/propbank-ewt/{part}.conll.xz"
        yield from column_documents("wnut17", part, wnut, 0, blank_lines)
        yield from column_documents("propbank-ewt", part, ewt, 3, first_columns)
        for name, column in (("ontogum", 1), ("litbank", 3)):
            path = coref / name / f"{part}.conll.xz"
            yield from column_documents(name, part, path, column, document_starts)
        sst = research / f"sst/{part}.txt"
        for number, line in enumerate(read_lines(sst), start=1):
            words = read_tree(line, sst, number)[0].tokens
            yield Document("sst", part, str(number), (" ".join(words),))
        snli = data / f"nli/counterfactual-snli/{part}.tsv"
        for number, row in enumerate(read_rows(snli), start=1):
            yield Document("snli", part, str(number), (row["sentence1"], row["sentence2"]))
    sick_parts = {"TRAIN": "train", "TRIAL": "dev", "TEST": "test"}
    for row in read_rows(research / "sick/SICK.txt"):
        texts = (row["sentence_A"], row["sentence_B"])
        yield Document("sick", sick_parts[row["SemEval_set"]], row["pair_ID"], texts)
    for part in ("development", "validation", "test"):
        for row in read_rows(coref / f"gap/gap-{part}.tsv"):
            yield Document("gap", part, row["ID"], (row["Text"],))
    for path in sorted((research / "wsd-eval").glob("*/*.data.xml")):
        text = re.sub(r"<[^>]+>", " ", path.read_text(encoding="utf-8"))
        yield Document("wsd-eval", "test", path.parent.name, (text,))


def squad_articles(path: Path, part: str) -> Iterator[Document]:
    """The articles of a SQuAD file."""
    for article in json.loads("\n".join(read_lines(path)))["data"]:
        paragraphs = tuple(paragraph["context"] for paragraph in article["paragraphs"])
        yield Document("squad", part, article["title"], paragraphs)


def column_documents(
    data_set: str,
    part: str,
    path: Path,
    column: int,
    number_documents: Callable[[Iterable[str]], Iterator[tuple[str, str]]],
) -> Iterator[Document]:
    """The documents of a file in columns; runs of words may cross sentence boundaries."""
    numbered = number_documents(read_lines(path))
    for name, lines in groupby(numbered, key=lambda each: each[0]):
        rows = (line.split() for _, line in lines)
        words = [row[column] for row in rows if len(row) > column]
        if words:
            yield Document(data_set, part, name, (" ".join(words),))


def article_starts(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """A -DOCSTART- line starts a document; documents are counted from 0."""
    number = 0
    for line in lines:
        if line.startswith(DOCUMENT_START):
            number += 1
        else:
            yield str(number), line


def blank_lines(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """A blank line ends a document."""
    number = 0
    for line in lines:
        number += not line.strip()
        yield str(number), line


def first_columns(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """The first column has the name of the document."""
    for line in lines:
        if line.strip():
            yield line.split()[0], line


def document_starts(lines: Iterable[str]) -> Iterator[tuple[str, str]]:
    """A line `#begin document (name)` starts a document."""
    number, name = -1, ""
    for line in lines:
        begins = BEGIN.match(line)
        if begins:
            number, name = number + 1, f"{number + 1} {begins[1]}".strip()
        elif not line.startswith("#"):
            yield name, line


def read_rows(path: Path) -> Iterator[dict[str, str]]:
    """Rows of a table with a header, separated by tabs."""
    lines = list(read_lines(path))
    yield from csv.DictReader(lines, delimiter="\t", quoting=csv.QUOTE_NONE)


if __name__ == "__main__":
    main()
