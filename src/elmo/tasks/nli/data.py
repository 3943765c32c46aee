"""Labeled sentence pairs: tab-separated with a header, or JSON lines.

In: the columns of SNLI and MultiNLI (sentence1, sentence2, gold_label), of SICK (sentence_A,
sentence_B, entailment_label), or premise, hypothesis, label. Out: `SentencePair`s with labels in
lower case; pairs without a gold label ("-" or -1, the annotators disagreed) are left out.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from elmo.errors import DataError
from elmo.files.text_files import read_lines, read_raw_lines
from elmo.text.lines import LineFormat
from elmo.text.tokenizer import tokenize

COLUMNS = (
    ("sentence1", "sentence2", "gold_label"),
    ("sentence_A", "sentence_B", "entailment_label"),
    ("premise", "hypothesis", "label"),
)
LABELS = tuple(label for _, _, label in COLUMNS)
NO_GOLD_LABELS = ("-", "-1")  # as in SNLI, and in the `datasets` library
# SICK is one file; this column has the split of each pair.
SET_COLUMN, TRAINING_SET, DEV_SET = "SemEval_set", "TRAIN", "TRIAL"


@dataclass(frozen=True, slots=True)
class SentencePair:
    """An example; the label is absent in raw text."""

    premise: tuple[str, ...]
    hypothesis: tuple[str, ...]
    label: str | None = None


@dataclass(frozen=True, slots=True)
class _Row:
    """The columns that are read for a pair."""

    line: int
    premise: str
    hypothesis: str
    label: str
    set_name: str | None = None


def read_pairs(path: Path, *, is_training: bool) -> list[SentencePair]:
    """All pairs of a file; of SICK's single file, the training or the development pairs."""
    rows = list(_read_json(path) if ".jsonl" in path.suffixes else _read_table(path))
    if len({row.set_name for row in rows} - {None}) > 1:
        wanted = TRAINING_SET if is_training else DEV_SET
        rows = [row for row in rows if row.set_name == wanted]
    pairs = [pair for row in rows if (pair := _make_pair(row, path)) is not None]
    if not pairs:
        raise DataError(f"{path}: no pair of sentences, expected one per line")
    return pairs


def make_pair(
    premise: str,
    hypothesis: str,
    where: str,
    label: str | None = None,
    lines: LineFormat = "sentences",
) -> SentencePair:
    """An example of two sentences, raw or tokenized."""
    sides = [
        tuple(text.split() if lines == "tokens" else tokenize(text).tokens)
        for text in (premise, hypothesis)
    ]
    if not all(sides):
        raise DataError(f"{where}: a sentence is empty, expected two with words in them")
    return SentencePair(sides[0], sides[1], label)


def _make_pair(row: _Row, path: Path) -> SentencePair | None:
    if row.label in NO_GOLD_LABELS:
        return None
    where = f"{path}:{row.line}"
    if not row.label:
        raise DataError(f"{where}: the label is empty, expected one")
    return make_pair(row.premise, row.hypothesis, where, row.label.lower())


def _read_table(path: Path) -> Iterator[_Row]:
    header: list[str] = []
    positions: list[int] = []
    # Raw lines: the last columns of SNLI, the labels of individual annotators, may be empty.
    for number, line in enumerate(read_raw_lines(path), start=1):
        fields = [field.strip() for field in line.split("\t")]
        if not header:
            header = fields
            positions = [header.index(name) for name in _find_names(header, path, number)]
        elif line.strip():
            # Empty columns at the end may be absent.
            if not max(positions) < len(fields) <= len(header):
                raise DataError(
                    f"{path}:{number}: {len(fields)} columns, expected {len(header)} as in the "
                    "header"
                )
            yield _Row(number, *(fields[position] for position in positions))


def _read_json(path: Path) -> Iterator[_Row]:
    for number, line in enumerate(read_lines(path), start=1):
        if not line:
            continue
        try:
            fields = json.loads(line)
        except (ValueError, RecursionError) as error:
            raise DataError(
                f"{path}:{number}: not JSON ({error}), expected one object per line"
            ) from error
        if not isinstance(fields, dict):
            raise DataError(f"{path}:{number}: no JSON object, expected one per line")
        names = _find_names(list(fields), path, number)
        for name in names:
            is_number = type(fields[name]) is int and name in LABELS
            if not isinstance(fields[name], str) and not is_number:
                raise DataError(
                    f"{path}:{number}: {name} is {json.dumps(fields[name])[:40]}, expected "
                    f"{'a string or a whole number' if name in LABELS else 'a string'}"
                )
        yield _Row(number, *(str(fields[name]).strip() for name in names))


def _find_names(found: list[str], path: Path, number: int) -> list[str]:
    """The columns that are read: premise, hypothesis, label, and the set if there is one."""
    for names in COLUMNS:
        if set(names) <= set(found):
            return [*names, SET_COLUMN] if SET_COLUMN in found else list(names)
    raise DataError(
        f"{path}:{number}: the columns {', '.join(found)[:80]}, expected among them "
        f"{' or '.join(', '.join(names) for names in COLUMNS)}"
    )
