"""Labeled sentence pairs: tab-separated with a header, or JSON lines.

In: the columns of SNLI and MultiNLI (sentence1, sentence2, gold_label), of SICK (sentence_A,
sentence_B, entailment_label), or premise, hypothesis, label. Out: `SentencePair`s with labels in
lower case; pairs without a gold label ("-", the annotators disagreed) are left out.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from elmo.errors import DataError
from elmo.files.text_files import read_lines
from elmo.text.lines import LineFormat
from elmo.text.tokenizer import tokenize

COLUMNS = (
    ("sentence1", "sentence2", "gold_label"),
    ("sentence_A", "sentence_B", "entailment_label"),
    ("premise", "hypothesis", "label"),
)
NO_GOLD_LABEL = "-"
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
    fields: Mapping[str, str]
    line: int


def read_pairs(path: Path, *, is_training: bool) -> list[SentencePair]:
    """All pairs; of SICK's one file, its training or its development pairs."""
    rows = list(_read_json(path) if ".jsonl" in path.suffixes else _read_table(path))
    sets = {row.fields[SET_COLUMN] for row in rows if SET_COLUMN in row.fields}
    if len(sets) > 1:
        wanted = TRAINING_SET if is_training else DEV_SET
        rows = [row for row in rows if row.fields.get(SET_COLUMN) == wanted]
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
    """Two sentences, raw or as tokens, as an example."""
    sides = [
        tuple(text.split() if lines == "tokens" else tokenize(text).tokens)
        for text in (premise, hypothesis)
    ]
    if not all(sides):
        raise DataError(f"{where}: a sentence is empty, expected two with words in them")
    return SentencePair(sides[0], sides[1], label)


def _make_pair(row: _Row, path: Path) -> SentencePair | None:
    first, second, label = next(
        names for names in COLUMNS if all(name in row.fields for name in names)
    )
    if row.fields[label] == NO_GOLD_LABEL:
        return None
    where = f"{path}:{row.line}"
    return make_pair(row.fields[first], row.fields[second], where, row.fields[label].lower())


def _read_table(path: Path) -> Iterator[_Row]:
    header: list[str] = []
    for number, line in enumerate(read_lines(path), start=1):
        fields = line.split("\t")
        if not header:
            header = fields
            _check_names(header, path, number)
        elif line:
            if len(fields) != len(header):
                raise DataError(
                    f"{path}:{number}: {len(fields)} columns, expected {len(header)} as in the "
                    "header"
                )
            yield _Row(dict(zip(header, fields, strict=True)), number)


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
        _check_names(list(fields), path, number)
        yield _Row({name: str(value) for name, value in fields.items()}, number)


def _check_names(found: list[str], path: Path, number: int) -> None:
    if not any(set(names) <= set(found) for names in COLUMNS):
        raise DataError(
            f"{path}:{number}: the columns {', '.join(found)[:80]}, expected among them "
            f"{' or '.join(', '.join(names) for names in COLUMNS)}"
        )
