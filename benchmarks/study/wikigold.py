"""Wikigold has no split of its own: one by articles, the same wherever it is made.

In: its file, with a line between articles. Out: a folder with `train.conll`, `dev.conll` and
`test.conll`: of ten articles eight, one and one.
"""

import os
from pathlib import Path

from elmo.shards import read_lines
from elmo.tasks.columns import DOCUMENT_START

PARTS = ("train",) * 8 + ("dev", "test")


def split_articles(source: Path, folder: Path) -> None:
    """Write the parts, each whole or not at all."""
    articles = [""]
    for line in read_lines(source):
        if line.startswith(DOCUMENT_START):
            articles.append("")
        else:
            articles[-1] += f"{line}\n"
    articles = [article.strip("\n") for article in articles if article.strip()]
    folder.mkdir(parents=True, exist_ok=True)
    for part in dict.fromkeys(PARTS):
        own = [text for k, text in enumerate(articles) if PARTS[k % len(PARTS)] == part]
        unfinished = folder / f"{part}.{os.getpid()}.unfinished"
        unfinished.write_text("\n\n".join(own) + "\n", encoding="utf-8")
        os.replace(unfinished, folder / f"{part}.conll")
