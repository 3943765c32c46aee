"""The training text of the English model: all documents that share no passage with test data.

In: the folder with the texts and the evaluation data. Out: a folder of `.txt.xz` files for
`elmo pretrain --train`, and `excluded.json` with what was left out and why. A document (an
article, a chapter) is left out where it shares a run of N_SHARED words with an evaluation text.

    python -m benchmarks.english_text DATA OUT
"""

import argparse
import csv
import json
import lzma
import multiprocessing
import re
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tqdm import tqdm

# As GPT-3's filter (Brown et al. 2020, appendix C).
N_SHARED = 13
WORD = re.compile(r"\w+")

# Runs of words of the evaluation data and where they are from; forked processes share it.
known: dict[int, str] = {}


def main() -> None:
    """Read, filter, write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    known.update(evaluation_shingles(options.data))
    options.out.mkdir(parents=True, exist_ok=True)
    paths = sorted(options.data.glob("*/train-*.txt.xz"))
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("fork")) as pool:
        jobs = [
            pool.submit(filter_file, path, options.out / f"{path.parent.name}-{path.name}")
            for path in paths
        ]
        report = [job.result() for job in tqdm(jobs, unit="file")]
    (options.out / "excluded.json").write_text(json.dumps(report, indent=1) + "\n")


def filter_file(path: Path, out: Path) -> dict[str, object]:
    """Copy the documents of a file that share nothing with the evaluation data; count the rest."""
    n_documents = n_words = n_words_out = 0
    excluded: Counter[str] = Counter()
    with (
        lzma.open(path, "rt", encoding="utf-8") as file,
        lzma.open(out, "wt", preset=1, encoding="utf-8") as written,
    ):
        for document in documents(file):
            n_documents += 1
            n_in_document = sum(len(line.split()) for line in document)
            n_words += n_in_document
            found = {known[each] for line in document for each in shingles(line) if each in known}
            if found:
                excluded.update(found)
                excluded["any"] += 1
                n_words_out += n_in_document
            else:
                written.writelines(f"{line}\n" for line in [*document, ""])
    return {
        "file": f"{path.parent.name}/{path.name}",
        "documents": n_documents,
        "words": n_words,
        "documents_excluded": dict(excluded),
        "words_excluded": n_words_out,
    }


def documents(lines: Iterable[str]) -> Iterator[list[str]]:
    """Paragraphs of each document; a blank line ends one."""
    document: list[str] = []
    for line in lines:
        if line.strip():
            document.append(line.rstrip("\n"))
        elif document:
            yield document
            document = []
    if document:
        yield document


def shingles(text: str) -> Iterator[int]:
    """Hashes of all runs of N_SHARED words."""
    words = WORD.findall(text.lower())
    for start in range(len(words) - N_SHARED + 1):
        yield hash(tuple(words[start : start + N_SHARED]))


def evaluation_shingles(data: Path) -> dict[int, str]:
    """Each run of words of the evaluation data, and the data set it is from."""
    found: dict[int, str] = {}
    for name, texts in evaluation_texts(data).items():
        for text in texts:
            for each in shingles(text):
                found.setdefault(each, name)
    return found


def evaluation_texts(data: Path) -> dict[str, Iterable[str]]:
    """Development and test texts of the tasks and probes.

    The held-out texts are other articles and books by construction; what they share with training
    documents is formulaic (census tables), and stays on both sides.
    """
    ontogum, litbank = data / "coref/ontogum", data / "coref/litbank"
    propbank, research = data / "srl/propbank-ewt", data / "research-only"
    return {
        "squad": squad_contexts(data / "squad/dev.json.xz"),
        "gap": (
            row["Text"] for path in sorted((data / "coref/gap").glob("*.tsv")) for row in rows(path)
        ),
        "wikigold": column_texts([data / "ner/wikigold.conll"], 0),
        "wnut17": column_texts(
            [data / "ner/wnut17" / f"{part}.conll" for part in ("dev", "test")], 0
        ),
        "ewt": column_texts([propbank / f"{part}.conll.xz" for part in ("dev", "test")], 3),
        "ontogum": column_texts([ontogum / f"{part}.conll.xz" for part in ("dev", "test")], 1),
        "litbank": column_texts([litbank / f"{part}.conll.xz" for part in ("dev", "test")], 3),
        "sst": (
            re.sub(r"[()\d]+", " ", line)
            for part in ("dev", "test")
            for line in open_text(research / "sst" / f"{part}.txt")
        ),
        "wsd": wsd_texts(research / "wsd-eval"),
    }


def open_text(path: Path) -> Iterator[str]:
    """Lines of a plain or compressed file."""
    with (
        lzma.open(path, "rt", encoding="utf-8")
        if path.suffix == ".xz"
        else path.open(encoding="utf-8") as file
    ):
        yield from file


def rows(path: Path) -> Iterator[dict[str, str]]:
    """Rows of a TSV file with a header."""
    with path.open(encoding="utf-8", newline="") as file:
        yield from csv.DictReader(file, delimiter="\t")


def squad_contexts(path: Path) -> Iterator[str]:
    """The paragraphs of a SQuAD file."""
    with lzma.open(path, "rt", encoding="utf-8") as file:
        for article in json.load(file)["data"]:
            for paragraph in article["paragraphs"]:
                yield paragraph["context"]


def column_texts(paths: Iterable[Path], column: int) -> Iterator[str]:
    """The words of whole files in CoNLL columns, sentence ends passed over."""
    for path in paths:
        lines = (line.split() for line in open_text(path) if not line.startswith("#"))
        yield " ".join(columns[column] for columns in lines if len(columns) > column)


def wsd_texts(folder: Path) -> Iterator[str]:
    """The sentences of the all-words evaluation sets."""
    for path in sorted(folder.glob("*/*.data.xml")):
        text = path.read_text(encoding="utf-8")
        yield re.sub(r"<[^>]+>", " ", text)


if __name__ == "__main__":
    main()
