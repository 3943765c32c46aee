"""Build the training text of the English model: documents that share no passage with test data.

In: the folder with the texts and the evaluation data. Out: a folder of `.txt.xz` files for
`elmo pretrain --train`, and `excluded.json` with what was excluded and why. A document (an
article, a chapter) is excluded if it shares a run of 13 words with an evaluation text, as
`overlap.py` counts.

    python -m benchmarks.english_text DATA OUT
"""

import argparse
import json
import lzma
import multiprocessing
from collections import Counter
from collections.abc import Iterable, Iterator
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

from tqdm import tqdm

from benchmarks.overlap import evaluation_documents, shingles
from elmo.files.text_files import find_text_files

# Data sets by hashes of word runs of the evaluation data; shared by forked processes.
known: dict[int, str] = {}


def main() -> None:
    """Filter all training files, and write the report."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("data", type=Path)
    parser.add_argument("out", type=Path)
    options = parser.parse_args()
    known.update(evaluation_shingles(options.data))
    options.out.mkdir(parents=True, exist_ok=True)
    paths = find_text_files(f"{options.data}/*/train-*.txt.xz")
    with ProcessPoolExecutor(mp_context=multiprocessing.get_context("fork")) as pool:
        jobs = [
            pool.submit(filter_file, path, options.out / f"{path.parent.name}-{path.name}")
            for path in paths
        ]
        report = [job.result() for job in tqdm(jobs, unit="file")]
    (options.out / "excluded.json").write_text(json.dumps(report, indent=1) + "\n")


def filter_file(path: Path, out: Path) -> dict[str, object]:
    """Copy the documents that share nothing with the evaluation data; count the others."""
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
    """The paragraphs of each document; a blank line ends a document."""
    document: list[str] = []
    for line in lines:
        if line.strip():
            document.append(line.rstrip("\n"))
        elif document:
            yield document
            document = []
    if document:
        yield document


def evaluation_shingles(data: Path) -> dict[int, str]:
    """Data sets by hashes of all word runs of the development and test data.

    Held-out texts are not included: what training documents share with them is formulaic (census
    tables).
    """
    found: dict[int, str] = {}
    for document in evaluation_documents(data):
        if document.part != "train":
            for each in document.shingles():
                found.setdefault(each, document.data_set)
    return found


if __name__ == "__main__":
    main()
