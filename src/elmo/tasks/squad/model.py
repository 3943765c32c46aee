"""Answers to questions about a paragraph, as spans of it: BiDAF with self-attention.

Seo et al. (2017) with the self-attention of Clark and Gardner (2018), as in the paper: a biLSTM
reads paragraph and question, the paragraph attends to the question and the question to it, a
second one and attention of the paragraph to itself are added to that, and two more give the
answer's start and end. ELMo at the output stands beside what the first biLSTM gives, where both
attend. Data: squad_questions.py. Metric: F1 and exact match of SQuAD's script (answers.py).
Shapes: B questions, T tokens of the paragraph, Q of the question, D width, W tokens of an answer.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, relu

from elmo.errors import ConfigError, DataError
from elmo.settings import not_positive, raise_problems
from elmo.tasks.config import (
    CharsConfig,
    ElmoConfig,
    OptimiserConfig,
    TaskConfig,
    TrainConfig,
    WordsConfig,
    not_shares,
)
from elmo.tasks.inputs import TokenVectors
from elmo.tasks.nn.encoder import BiLstm, drop_columns
from elmo.tasks.nn.pooling import LOWEST, masked_softmax
from elmo.tasks.squad.data import (
    Limits,
    Question,
    read_context,
    read_question_text,
    read_questions,
)
from elmo.tasks.squad.metrics import score_answers
from elmo.tasks.task import Inventory, Task, TaskModel
from elmo.text.lines import LineFormat


@dataclass(frozen=True, kw_only=True, slots=True)
class SquadDataConfig:
    """How much is read. Paragraphs are cut at sentence ends."""

    train_share: Annotated[float, "of the training paragraphs, evenly from all articles"] = 1.0
    train_tokens: Annotated[
        int, "of a paragraph in training; questions whose answer is beyond are left out"
    ] = 300
    test_tokens: Annotated[int, "the same otherwise; an answer beyond is not found"] = 1000
    question_tokens: Annotated[int, "of a question, from its start"] = 50
    answer_tokens: Annotated[int, "of an answer that is given, at most"] = 20

    def __post_init__(self) -> None:
        """Check the numbers."""
        too_much = (
            [f"train_share is {self.train_share}, expected at most 1"]
            if self.train_share > 1
            else []
        )
        names = ("train_share", "train_tokens", "test_tokens", "question_tokens", "answer_tokens")
        raise_problems(self, not_positive(self, *names) + too_much)


@dataclass(frozen=True, kw_only=True, slots=True)
class SquadModelConfig:
    """The network."""

    dim: Annotated[int, "cells of a direction of each biLSTM"] = 100
    dropout: Annotated[float, "of what goes into each biLSTM and each attention"] = 0.2

    def __post_init__(self) -> None:
        """Check the numbers."""
        raise_problems(self, not_positive(self, "dim") + not_shares(self, "dropout"))


@dataclass(frozen=True, kw_only=True, slots=True)
class SquadConfig(TaskConfig):
    """All settings; ELMo at both places is what did best in the paper."""

    words: WordsConfig | None = field(default_factory=lambda: WordsConfig(is_trained=False))
    chars: CharsConfig | None = field(default_factory=lambda: CharsConfig(filters=((5, 100),)))
    elmo: ElmoConfig | None = field(default_factory=lambda: ElmoConfig(place="both"))
    optimiser: OptimiserConfig = field(
        default_factory=lambda: OptimiserConfig(beta2=0.9, halve_after=2)
    )
    train: TrainConfig = field(
        default_factory=lambda: TrainConfig(n_epochs=20, patience=5, batch_size=40)
    )
    data: SquadDataConfig = field(default_factory=SquadDataConfig)
    model: SquadModelConfig = field(default_factory=SquadModelConfig)


@dataclass(frozen=True, slots=True)
class Answer:
    """A piece of the paragraph."""

    text: str
    start: int  # its first character in the paragraph
    stop: int


class Trilinear(nn.Module):
    """How much one token is to another: w1 a + w2 b + w3 (a * b)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.of_first = nn.Linear(dim, 1, bias=False)
        self.of_second = nn.Linear(dim, 1, bias=False)
        self.of_both = nn.Parameter(torch.empty(dim).uniform_(-(dim**-0.5), dim**-0.5))

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """(B, T, D), (B, Q, D) -> (B, T, Q)."""
        alike: Tensor = (first * self.of_both) @ second.transpose(1, 2)
        alike = alike + self.of_first(first) + self.of_second(second).transpose(1, 2)
        return alike


class Reader(TaskModel[Question, Answer]):
    """BiDAF with self-attention."""

    def __init__(self, tokens: TokenVectors, config: SquadConfig) -> None:
        super().__init__(tokens)
        dim, width = config.model.dim, 2 * config.model.dim
        self._dropout = config.model.dropout
        self._answer_tokens = config.data.answer_tokens
        self.encoder = BiLstm(tokens.input_dim, dim)
        encoded_dim = width + tokens.output_dim
        self.attention = Trilinear(encoded_dim)
        self.fuse = nn.Linear(4 * encoded_dim, width)
        self.modelling = BiLstm(width, dim)
        self.self_attention = Trilinear(width)
        self.fuse_self = nn.Linear(3 * width, width)
        self.start = BiLstm(width, dim)
        self.end = BiLstm(2 * width, dim)
        self.start_scores = nn.Linear(width, 1)
        self.end_scores = nn.Linear(width, 1)

    def loss(self, examples: Sequence[Question]) -> Tensor:
        """That of the start and that of the end."""
        start, end = self._score(examples)
        spans = [example.span for example in examples if example.span is not None]
        targets = torch.tensor(spans, device=start.device)  # (B, 2)
        return cross_entropy(start, targets[:, 0]) + cross_entropy(end, targets[:, 1])

    def predict(self, examples: Sequence[Question]) -> list[Answer]:
        """The most probable span that is not too long."""
        start, end = (scores.log_softmax(-1) for scores in self._score(examples))
        answers = []
        for example, (first, last) in zip(
            examples, best_spans(start, end, self._answer_tokens), strict=True
        ):
            context = example.context
            left, right = context.offsets[first][0], context.offsets[last][1]
            answers.append(Answer(context.text[left:right], left, right))
        return answers

    def _score(self, examples: Sequence[Question]) -> tuple[Tensor, Tensor]:
        """Of each token of the paragraphs, as the answer's first and as its last, (B, T) each."""
        context, mask = self._encode([example.context.sentences for example in examples])
        question, question_mask = self._encode([[example.tokens] for example in examples])
        x = self._attend(context, mask, question, question_mask)
        x = x + self._attend_to_itself(x, mask)
        lengths = mask.sum(1)
        start = self.start(self._drop(x), lengths)
        end = self.end(self._drop(torch.cat([x, start], dim=-1)), lengths)
        scores = (self.start_scores(start)[..., 0], self.end_scores(end)[..., 0])
        return scores[0].masked_fill(~mask, LOWEST), scores[1].masked_fill(~mask, LOWEST)

    def _encode(self, rows: Sequence[Sequence[Sequence[str]]]) -> tuple[Tensor, Tensor]:
        """What tokens attend with, (B, T, D), and their mask."""
        batch = self.tokens.read_joined(rows)
        hidden = self.encoder(self._drop(self.tokens(batch)), batch.lengths)
        return self._drop(self.tokens.add_at_output(hidden, batch)), batch.mask

    def _attend(
        self, context: Tensor, mask: Tensor, question: Tensor, question_mask: Tensor
    ) -> Tensor:
        """The paragraph's tokens, and what the question has for them, (B, T, 2 H)."""
        alike = self.attention(context, question)  # (B, T, Q)
        asked = question_mask[:, None].expand_as(alike)
        to_question = masked_softmax(alike, asked) @ question  # (B, T, D)
        nearest = alike.masked_fill(~asked, LOWEST).amax(-1)  # (B, T)
        from_question = masked_softmax(nearest, mask)[:, None] @ context  # (B, 1, D)
        parts = [context, to_question, context * to_question, context * from_question]
        return relu(self.fuse(torch.cat(parts, dim=-1)))

    def _attend_to_itself(self, x: Tensor, mask: Tensor) -> Tensor:
        """What the rest of the paragraph adds to each of its tokens, (B, T, 2 H)."""
        read = self._drop(self.modelling(self._drop(x), mask.sum(1)))
        alike = self.self_attention(read, read)  # (B, T, T)
        is_other = ~torch.eye(alike.shape[1], dtype=torch.bool, device=alike.device)
        attended = masked_softmax(alike, mask[:, None] & is_other) @ read
        return relu(self.fuse_self(torch.cat([read, attended, read * attended], dim=-1)))

    def _drop(self, x: Tensor) -> Tensor:
        return drop_columns(x, self._dropout, self.training)


class Squad(Task[SquadConfig, Question, Answer]):
    """Questions about paragraphs."""

    name = "squad"
    metric = "f1"

    def defaults(self) -> SquadConfig:
        """As the paper's, with LSTMs for its GRUs."""
        return SquadConfig()

    def read(self, path: Path, config: SquadConfig, *, is_training: bool) -> list[Question]:
        """The questions of a file in SQuAD's JSON."""
        data = config.data
        if is_training:
            limits = Limits(data.train_tokens, data.question_tokens, data.train_share)
        else:
            limits = Limits(data.test_tokens, data.question_tokens)
        return read_questions(path, limits, is_training=is_training)

    def read_text(
        self, lines: Iterable[str], line_format: LineFormat = "paragraphs"
    ) -> Iterator[Question]:
        """A question, a tab and the paragraph that answers it in a line."""
        if line_format == "tokens":
            raise ConfigError("squad reads raw text, as answers are parts of it; got tokens")
        data = self.defaults().data
        for number, line in enumerate(lines, start=1):
            text, has_both, context = line.partition("\t")
            if not line:
                continue
            if not has_both:
                raise DataError(
                    f"line {number}: {line[:40]!r} without a tab, expected a question, a tab and "
                    "a paragraph; mend the line, or say --data for SQuAD's JSON"
                )
            place = f"line {number}"
            tokens = read_question_text(text, data.question_tokens, place)
            yield Question(text, tokens, read_context(context, data.test_tokens, place))

    def sentences(self, example: Question) -> Sequence[Sequence[str]]:
        """The question, and those of the paragraph."""
        return [example.tokens, *example.context.sentences]

    def unit(self, example: Question) -> Hashable:
        """The paragraph: all of its questions are in or out."""
        return example.context.text

    def inventory(self, examples: Sequence[Question], config: SquadConfig) -> Inventory:
        """Nothing."""
        return {}

    def build(self, config: SquadConfig, tokens: TokenVectors, inventory: Inventory) -> Reader:
        """The network at its start values."""
        return Reader(tokens, config)

    def score(
        self, examples: Sequence[Question], predictions: Sequence[Answer]
    ) -> dict[str, float]:
        """F1 and exact match, the best over the answers that people gave."""
        without = [example for example in examples if not example.answers]
        if without:
            raise DataError(
                f"{len(without)} questions without answers, such as {without[0].text[:40]!r}; "
                "expected some to compare with; leave them out, or use `elmo predict`"
            )
        answers = [prediction.text for prediction in predictions]
        return score_answers(answers, [example.answers for example in examples])

    def show(self, example: Question, prediction: Answer) -> str:
        """The question and the answer."""
        return f"{example.text}\n{prediction.text}\n"

    def to_mapping(self, example: Question, prediction: Answer) -> dict[str, Any]:
        """The answer and where it stands in the paragraph."""
        return {
            "id": example.name,
            "question": example.text,
            "answer": prediction.text,
            "start": prediction.start,
            "end": prediction.stop,
        }


def build_task(name: str) -> Squad:
    """The task."""
    return Squad()


def best_spans(start: Tensor, end: Tensor, max_tokens: int) -> list[tuple[int, int]]:
    """Of each row of scores (B, T) the first and last token with the highest sum."""
    n_rows, n_tokens = start.shape
    sums = start.new_full((n_rows, n_tokens, min(max_tokens, n_tokens)), -torch.inf)  # (B, T, W)
    for width in range(sums.shape[2]):
        sums[:, : n_tokens - width, width] = start[:, : n_tokens - width] + end[:, width:]
    best = sums.flatten(1).argmax(1).tolist()
    return [(k // sums.shape[2], k // sums.shape[2] + k % sums.shape[2]) for k in best]
