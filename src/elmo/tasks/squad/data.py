"""Questions about paragraphs, in the JSON of SQuAD 1.1.

In: a file (plain, .gz, .xz) with data > paragraphs > context, qas > question, answers. Out:
`Question`s, whose contexts are split into sentences of tokens with character offsets. Errors name
the path inside the JSON (data[0].paragraphs[2]), as such files have only one line.
"""

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, TypeVar

from elmo.errors import DataError
from elmo.files.text_files import read_raw_lines
from elmo.settings import Fraction, PositiveInt, Renamed, checked
from elmo.text.tokenizer import split_text, tokenize

Value = TypeVar("Value")

log = logging.getLogger(__name__)


@dataclass(frozen=True, kw_only=True, slots=True)
@checked
class SquadDataConfig:
    """Limits of the examples. Paragraphs are cut at sentence ends."""

    paragraph_fraction: Annotated[
        Fraction,
        "fraction of the training paragraphs to use, evenly from all articles",
        Renamed("train_share"),
    ] = 1.0
    train_tokens: Annotated[
        PositiveInt,
        "maximum tokens of a training paragraph; questions with a later answer are skipped",
    ] = 300
    test_tokens: Annotated[PositiveInt, "maximum tokens of a paragraph in evaluation"] = 1000
    question_tokens: Annotated[PositiveInt, "maximum tokens of a question"] = 50
    answer_tokens: Annotated[PositiveInt, "maximum tokens of a predicted answer"] = 20


@dataclass(frozen=True, slots=True)
class Context:
    """A paragraph, up to the limit of tokens."""

    text: str
    sentences: tuple[tuple[str, ...], ...]
    offsets: tuple[tuple[int, int], ...]  # of each token: first character, the one after the last

    def find(self, start: int, stop: int) -> tuple[int, int] | None:
        """The first and last token of a character span; None beyond the limit of tokens."""
        stop = start + len(self.text[start:stop].rstrip())  # trailing spaces belong to no token
        touched = [k for k, (a, b) in enumerate(self.offsets) if a < stop and start < b]
        is_whole = touched and self.offsets[touched[-1]][1] >= stop
        return (touched[0], touched[-1]) if is_whole else None


@dataclass(frozen=True, slots=True)
class Question:
    """An example: a question about a paragraph."""

    text: str
    tokens: tuple[str, ...]
    context: Context
    answers: tuple[str, ...] = ()  # reference answers; none in raw text
    span: tuple[int, int] | None = None  # for training: the answer's first and last token
    id: str | None = None


@dataclass(frozen=True, slots=True)
class Limits:
    """How much of the data is read."""

    context_tokens: int
    question_tokens: int
    paragraph_fraction: float = 1.0


def read_questions(path: Path, limits: Limits, *, is_training: bool) -> list[Question]:
    """The questions of a file; for training, those whose answer is within the limit of tokens."""
    questions, n_left_out = [], 0
    for number, (where, paragraph) in enumerate(_paragraphs(path)):
        # Evenly from all articles.
        if int((number + 1) * limits.paragraph_fraction) == int(number * limits.paragraph_fraction):
            continue
        text = _get(paragraph, "context", str, where)
        context = read_context(text, limits.context_tokens, where)
        for k, entry in enumerate(_get(paragraph, "qas", list, where)):
            question = _read_question(entry, context, f"{where}.qas[{k}]", limits, is_training)
            if question.span is None and is_training:
                n_left_out += 1
            else:
                questions.append(question)
    if n_left_out:
        log.info(
            "%s: skipped %d questions whose answer is not within the first data.train_tokens "
            "tokens",
            path,
            n_left_out,
        )
    if not questions:
        skipped = f" left ({n_left_out} skipped because of data.train_tokens)" if n_left_out else ""
        raise DataError(f"{path}: no question{skipped}, expected at least one")
    return questions


def read_context(text: str, max_tokens: int, where: str) -> Context:
    """The first sentences of a paragraph, up to a number of tokens, and at least one."""
    sentences: list[tuple[str, ...]] = []
    offsets: list[tuple[int, int]] = []
    for sentence in split_text(text):
        if sentences and len(offsets) + len(sentence.tokens) > max_tokens:
            break
        sentences.append(tuple(sentence.tokens))
        offsets.extend(sentence.offsets)
    if not sentences:
        raise DataError(f"{where}: the context is empty, expected a paragraph")
    return Context(text, tuple(sentences), tuple(offsets))


def read_question_text(text: str, max_tokens: int, where: str) -> tuple[str, ...]:
    """The first tokens of a question."""
    tokens = tuple(tokenize(text).tokens[:max_tokens])
    if not tokens:
        raise DataError(f"{where}: the question is empty, expected some words")
    return tokens


def _paragraphs(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each paragraph with its path in the JSON, for error messages."""
    try:
        everything = json.loads("".join(read_raw_lines(path)))
    except json.JSONDecodeError as error:
        raise DataError(
            f"{path}:{error.lineno}: not JSON ({error.msg}, column {error.colno}), expected that "
            "of SQuAD 1.1"
        ) from error
    except (ValueError, RecursionError) as error:  # numbers of thousands of digits, deep lists
        raise DataError(f"{path}: not JSON ({error}), expected that of SQuAD 1.1") from error
    for i, article in enumerate(_get(everything, "data", list, str(path))):
        where = f"{path}: data[{i}]"
        for j, paragraph in enumerate(_get(article, "paragraphs", list, where)):
            yield f"{where}.paragraphs[{j}]", paragraph


def _read_question(
    entry: Mapping[str, Any], context: Context, where: str, limits: Limits, is_training: bool
) -> Question:
    text = _get(entry, "question", str, where)
    tokens = read_question_text(text, limits.question_tokens, where)
    # Questions for prediction need not have the key.
    answers = [] if entry.get("answers") is None else _get(entry, "answers", list, where)
    texts = tuple(_get(answer, "text", str, f"{where}.answers") for answer in answers)
    question_id = entry.get("id")
    if not is_training:
        return Question(text, tokens, context, texts, id=question_id)
    if not texts:
        raise DataError(
            f"{where}: no answer, expected one for training (unanswerable questions, as in SQuAD "
            "2.0, are not supported)"
        )
    start = _get(answers[0], "answer_start", int, f"{where}.answers[0]")
    found = context.text[start : start + len(texts[0])]
    if found != texts[0] or not texts[0]:
        raise DataError(
            f"{where}.answers[0]: the context has {found!r} at answer_start {start}, expected "
            f"{texts[0]!r}"
        )
    span = context.find(start, start + len(texts[0]))
    return Question(text, tokens, context, texts, span, question_id)


def _get(mapping: object, key: str, kind: type[Value], where: str) -> Value:
    value = mapping.get(key) if isinstance(mapping, Mapping) else None
    if not isinstance(value, kind):
        shown = "nothing" if value is None else f"{str(value)[:40]!r}"
        raise DataError(f"{where}: {shown} at {key!r}, expected {kind.__name__} as in SQuAD 1.1")
    return value
