"""Questions about paragraphs, in the JSON of SQuAD 1.1, or each with its paragraph in a line.

In: a file (plain, .gz, .xz) with data > paragraphs > context, qas > question, answers. Out:
`Question`s, whose contexts are split into sentences of tokens that know their place in the text.
What is wrong is told by the place in the JSON, as such files have no lines.
"""

import json
import logging
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from elmo.errors import DataError
from elmo.files.text_files import read_whole_lines
from elmo.text.tokenizer import split_text, tokenize

Value = TypeVar("Value")

log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Context:
    """A paragraph, or as much of it as is read."""

    text: str
    sentences: tuple[tuple[str, ...], ...]
    offsets: tuple[tuple[int, int], ...]  # of each token its first character and the one after

    def find(self, start: int, stop: int) -> tuple[int, int] | None:
        """The first and the last token of some characters; nothing where they are not read."""
        stop = start + len(self.text[start:stop].rstrip())  # a space is of no token
        touched = [k for k, (a, b) in enumerate(self.offsets) if a < stop and start < b]
        is_whole = touched and self.offsets[touched[-1]][1] >= stop
        return (touched[0], touched[-1]) if is_whole else None


@dataclass(frozen=True, slots=True)
class Question:
    """An example."""

    text: str
    tokens: tuple[str, ...]
    context: Context
    answers: tuple[str, ...] = ()  # in words, as people gave them; none where nobody did
    span: tuple[int, int] | None = None  # in training: the answer's first and last token
    name: str | None = None  # its id


@dataclass(frozen=True, slots=True)
class Limits:
    """How much is read."""

    context_tokens: int
    question_tokens: int
    share: float = 1.0  # of the paragraphs


def read_questions(path: Path, limits: Limits, *, is_training: bool) -> list[Question]:
    """The questions of a file; in training, those whose answer is in what is read of the text."""
    questions, n_without = [], 0
    for number, (place, paragraph) in enumerate(_paragraphs(path)):
        # So many of any number of paragraphs, evenly from all articles.
        if int((number + 1) * limits.share) == int(number * limits.share):
            continue
        text = _take(paragraph, "context", str, place)
        context = read_context(text, limits.context_tokens, place)
        for k, entry in enumerate(_take(paragraph, "qas", list, place)):
            question = _read_question(entry, context, f"{place}.qas[{k}]", limits, is_training)
            if question.span is None and is_training:
                n_without += 1
            else:
                questions.append(question)
    if n_without:
        log.info("%s: %d questions left out: answers beyond the limit", path, n_without)
    if not questions:
        raise DataError(f"{path}: no question, expected some in qas; name another file")
    return questions


def read_context(text: str, max_tokens: int, place: str) -> Context:
    """A paragraph's sentences from its start, as many as fit; its first in any case."""
    sentences: list[tuple[str, ...]] = []
    offsets: list[tuple[int, int]] = []
    for sentence in split_text(text):
        if sentences and len(offsets) + len(sentence.tokens) > max_tokens:
            break
        sentences.append(tuple(sentence.tokens))
        offsets.extend(sentence.offsets)
    if not sentences:
        raise DataError(f"{place}: the context is empty, expected a paragraph; mend the file")
    return Context(text, tuple(sentences), tuple(offsets))


def read_question_text(text: str, max_tokens: int, place: str) -> tuple[str, ...]:
    """A question's tokens from its start."""
    tokens = tuple(tokenize(text).tokens[:max_tokens])
    if not tokens:
        raise DataError(f"{place}: the question is empty, expected some words; mend the file")
    return tokens


def _paragraphs(path: Path) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """Each with its place, for whoever finds it wrong."""
    try:
        everything = json.loads("".join(read_whole_lines(path)))
    except json.JSONDecodeError as error:
        raise DataError(
            f"{path}:{error.lineno}: not JSON ({error.msg}, column {error.colno}); expected "
            "SQuAD's JSON; mend the file, or name another"
        ) from error
    for i, article in enumerate(_take(everything, "data", list, str(path))):
        place = f"{path}: data[{i}]"
        for j, paragraph in enumerate(_take(article, "paragraphs", list, place)):
            yield f"{place}.paragraphs[{j}]", paragraph


def _read_question(
    entry: Mapping[str, Any], context: Context, place: str, limits: Limits, is_training: bool
) -> Question:
    text = _take(entry, "question", str, place)
    tokens = read_question_text(text, limits.question_tokens, place)
    answers = entry.get("answers") or []
    texts = tuple(_take(answer, "text", str, f"{place}.answers") for answer in answers)
    name = entry.get("id")
    if not is_training:
        return Question(text, tokens, context, texts, name=name)
    if not texts:
        raise DataError(
            f"{place}: no answer, expected one in answers to learn from; leave the question out "
            "(questions that the text does not answer, as in SQuAD 2.0, are not for this model)"
        )
    start = _take(answers[0], "answer_start", int, f"{place}.answers[0]")
    found = context.text[start : start + len(texts[0])]
    if found != texts[0] or not texts[0]:
        raise DataError(
            f"{place}.answers[0]: the context has {found!r} at answer_start {start}, expected "
            f"{texts[0]!r}; mend the place or the text"
        )
    span = context.find(start, start + len(texts[0]))
    return Question(text, tokens, context, texts, span, name)


def _take(mapping: object, key: str, kind: type[Value], place: str) -> Value:
    value = mapping.get(key) if isinstance(mapping, Mapping) else None
    if not isinstance(value, kind):
        shown = "nothing" if value is None else f"{str(value)[:40]!r}"
        raise DataError(
            f"{place}: {shown} at {key!r}, expected {kind.__name__} as in SQuAD 1.1; mend the "
            "file, or name another"
        )
    return value
