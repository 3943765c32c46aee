"""Labeled sentences: trees of the Stanford Sentiment Treebank, or lines of `label<TAB>text`.

In: a file (plain, .gz, .xz) with lines such as `(3 (2 It) (4 works))` or `3<TAB>It works`. Out:
`LabeledText`s: whole sentences, and for training also the phrases of trees.
"""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Annotated

from elmo.errors import DataError
from elmo.files.text_files import read_lines
from elmo.settings import PositiveInt, checked
from elmo.text.tokenizer import tokenize

_PIECE = re.compile(r"[()]|[^\s()]+")
# Escapes of literal brackets in treebanks.
UNESCAPED = {"-LRB-": "(", "-RRB-": ")", "-LSB-": "[", "-RSB-": "]", "-LCB-": "{", "-RCB-": "}"}


@dataclass(frozen=True, kw_only=True, slots=True)
@checked
class SentimentDataConfig:
    """The parts of a tree that are used as training examples."""

    has_phrases: Annotated[bool, "train on the phrases of a tree too, not only on the sentence"] = (
        True
    )
    min_tokens: Annotated[PositiveInt, "minimum tokens of a phrase"] = 2
    max_phrases: Annotated[PositiveInt | None, "phrases per tree, sampled at random; none: all"] = (
        None
    )


@dataclass(frozen=True, slots=True)
class LabeledText:
    """An example: a sentence or phrase, and the line number of its sentence."""

    tokens: tuple[str, ...]
    label: str | None = None
    number: int = 0


@dataclass(frozen=True, slots=True)
class Phrase:
    """A node of a tree."""

    tokens: tuple[str, ...]
    label: str


def read_labeled(
    path: Path, config: SentimentDataConfig, *, is_training: bool
) -> list[LabeledText]:
    """Whole sentences; for training, followed by the distinct phrases of trees."""
    phrases: dict[tuple[tuple[str, ...], str], LabeledText] = {}
    sentences: list[LabeledText] = []
    for number, line in enumerate(read_lines(path), start=1):
        if not line:
            continue
        whole, *parts = _read_line(line, path, number)
        sentences.append(LabeledText(whole.tokens, whole.label, number))
        if is_training and config.has_phrases:
            for phrase in _choose_phrases(parts, config, number):
                key = (phrase.tokens, phrase.label)
                phrases.setdefault(key, LabeledText(*key, number))
    if not sentences:
        raise DataError(f"{path}: no sentence, expected a tree or label<TAB>text per line")
    known = {(sentence.tokens, sentence.label) for sentence in sentences}
    return sentences + [phrase for key, phrase in phrases.items() if key not in known]


def read_tree(line: str, path: Path, number: int) -> list[Phrase]:
    """The phrases of a tree in the order of their opening brackets; the whole sentence is first."""
    pieces = _PIECE.findall(line)
    tokens: list[str] = []
    nodes: list[tuple[int, str, int]] = []  # first token, label, the token after the last
    open_nodes: list[int] = []
    for position, piece in enumerate(pieces):
        if piece == "(":
            label = pieces[position + 1] if position + 1 < len(pieces) else ")"
            if label in "()" or (nodes and not open_nodes):
                raise _bad_tree(path, number)
            open_nodes.append(len(nodes))
            nodes.append((len(tokens), label, -1))
        elif not open_nodes:
            raise _bad_tree(path, number)
        elif piece == ")":
            node = open_nodes.pop()
            nodes[node] = (*nodes[node][:2], len(tokens))
            if nodes[node][0] == len(tokens):
                raise _bad_tree(path, number)
        elif pieces[position - 1] != "(":
            tokens.append(UNESCAPED.get(piece, piece.replace("\\/", "/").replace("\\*", "*")))
    if open_nodes or not nodes:
        raise _bad_tree(path, number)
    return [Phrase(tuple(tokens[start:stop]), label) for start, label, stop in nodes]


def _read_line(line: str, path: Path, number: int) -> list[Phrase]:
    """The phrases of a tree, the whole sentence first; or the one text of a labeled line."""
    if line.startswith("("):
        return read_tree(line, path, number)
    label, has_text, text = line.partition("\t")
    tokens = tuple(tokenize(text).tokens)
    if not has_text or not tokens:
        raise DataError(
            f"{path}:{number}: {line[:40]!r}, expected a tree in brackets, or label<TAB>text"
        )
    return [Phrase(tokens, label.strip())]


def _choose_phrases(
    phrases: Sequence[Phrase], config: SentimentDataConfig, number: int
) -> Sequence[Phrase]:
    kept = [phrase for phrase in phrases if len(phrase.tokens) >= config.min_tokens]
    if config.max_phrases is None or len(kept) <= config.max_phrases:
        return kept
    return Random(number).sample(kept, config.max_phrases)


def _bad_tree(path: Path, number: int) -> DataError:
    return DataError(
        f"{path}:{number}: brackets do not match or a label or word is missing, expected a tree "
        "such as (3 (2 It) (4 works))"
    )
