"""Question answering: spans of a paragraph as answers, by BiDAF with self-attention.

Seo et al. (2017) with the self-attention of Clark and Gardner (2018), as in the paper: a biLSTM
encodes paragraph and question, each attends to the other, a second biLSTM and self-attention of the
paragraph are added as a residual, and two more biLSTMs score the answer's start and end. ELMo at
the output is concatenated to the output of the first biLSTM. Data: data.py. Metrics: metrics.py.
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
from elmo.settings import Dim, Rate, checked
from elmo.tasks.config import (
    CharsConfig,
    ElmoConfig,
    OptimizerConfig,
    TaskConfig,
    TrainConfig,
    WordsConfig,
)
from elmo.tasks.inputs import TokenVectors
from elmo.tasks.nn.lstm import BiLSTM, variational_dropout
from elmo.tasks.nn.pooling import LOWEST, masked_softmax
from elmo.tasks.squad.data import (
    Limits,
    Question,
    SquadDataConfig,
    read_context,
    read_question_text,
    read_questions,
)
from elmo.tasks.squad.metrics import score_answers
from elmo.tasks.task import Task, TaskModel, Vocabularies
from elmo.text.lines import LineFormat


@dataclass(frozen=True, kw_only=True, slots=True)
@checked
class SquadModelConfig:
    """Sizes and dropout of the network."""

    dim: Annotated[Dim, "cells per direction of each biLSTM"] = 100
    dropout: Annotated[Rate, "dropout of the input of each biLSTM and attention layer"] = 0.2


@dataclass(frozen=True, kw_only=True, slots=True)
@checked
class SquadConfig(TaskConfig):
    """All settings. ELMo at input and output was best in the paper."""

    words: WordsConfig | None = field(default_factory=lambda: WordsConfig(is_trained=False))
    chars: CharsConfig | None = field(default_factory=lambda: CharsConfig(filters=((5, 100),)))
    elmo: ElmoConfig | None = field(default_factory=lambda: ElmoConfig(place="both"))
    optimizer: OptimizerConfig = field(
        default_factory=lambda: OptimizerConfig(beta2=0.9, lr_plateau_patience=2)
    )
    train: TrainConfig = field(
        default_factory=lambda: TrainConfig(n_epochs=20, patience=5, batch_size=40, ema_decay=0.999)
    )
    data: SquadDataConfig = field(default_factory=SquadDataConfig)
    model: SquadModelConfig = field(default_factory=SquadModelConfig)


@dataclass(frozen=True, slots=True)
class Answer:
    """A prediction: a span of the paragraph."""

    text: str
    start: int  # first character in the paragraph
    stop: int


class Trilinear(nn.Module):
    """Trilinear attention scores: w1 a + w2 b + w3 (a * b)."""

    def __init__(self, dim: int) -> None:
        super().__init__()
        self.of_first = nn.Linear(dim, 1, bias=False)
        self.of_second = nn.Linear(dim, 1, bias=False)
        self.of_both = nn.Parameter(torch.empty(dim).uniform_(-(dim**-0.5), dim**-0.5))

    def forward(self, first: Tensor, second: Tensor) -> Tensor:
        """(B, T, D), (B, Q, D) -> (B, T, Q)."""
        scores: Tensor = (first * self.of_both) @ second.transpose(1, 2)
        scores = scores + self.of_first(first) + self.of_second(second).transpose(1, 2)
        return scores


class BiDAF(TaskModel[Question, Answer]):
    """Bidirectional attention flow with self-attention."""

    def __init__(self, tokens: TokenVectors, config: SquadConfig) -> None:
        super().__init__(tokens)
        dim, width = config.model.dim, 2 * config.model.dim
        self._dropout = config.model.dropout
        self._answer_tokens = config.data.answer_tokens
        self.encoder = BiLSTM(tokens.input_dim, dim)
        encoded_dim = width + tokens.output_dim
        self.attention = Trilinear(encoded_dim)
        self.fuse = nn.Linear(4 * encoded_dim, width)
        self.modeling = BiLSTM(width, dim)
        self.self_attention = Trilinear(width)
        self.fuse_self = nn.Linear(3 * width, width)
        self.start = BiLSTM(width, dim)
        self.end = BiLSTM(2 * width, dim)
        self.start_scores = nn.Linear(width, 1)
        self.end_scores = nn.Linear(width, 1)

    def loss(self, examples: Sequence[Question]) -> Tensor:
        """Cross entropy of the start plus that of the end."""
        start, end = self._score(examples)
        spans = [example.span for example in examples if example.span is not None]
        targets = torch.tensor(spans, device=start.device)  # (B, 2)
        return cross_entropy(start, targets[:, 0]) + cross_entropy(end, targets[:, 1])

    def predict(self, examples: Sequence[Question]) -> list[Answer]:
        """The most probable span of at most `data.answer_tokens` tokens."""
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
        """Scores of each token as the first and as the last of the answer, (B, T) each."""
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
        """The encoded tokens, (B, T, D), and their mask."""
        batch = self.tokens.read_joined(rows)
        hidden = self.encoder(self._drop(self.tokens(batch)), batch.lengths)
        return self._drop(self.tokens.add_at_output(hidden, batch)), batch.mask

    def _attend(
        self, context: Tensor, mask: Tensor, question: Tensor, question_mask: Tensor
    ) -> Tensor:
        """Attention in both directions between paragraph and question, (B, T, 2 H)."""
        affinity = self.attention(context, question)  # (B, T, Q)
        is_question = question_mask[:, None].expand_as(affinity)
        to_question = masked_softmax(affinity, is_question) @ question  # (B, T, D)
        best = affinity.masked_fill(~is_question, LOWEST).amax(-1)  # (B, T)
        from_question = masked_softmax(best, mask)[:, None] @ context  # (B, 1, D)
        parts = [context, to_question, context * to_question, context * from_question]
        return relu(self.fuse(torch.cat(parts, dim=-1)))

    def _attend_to_itself(self, x: Tensor, mask: Tensor) -> Tensor:
        """Attention of each token of the paragraph to the others, (B, T, 2 H)."""
        encoded = self._drop(self.modeling(self._drop(x), mask.sum(1)))
        affinity = self.self_attention(encoded, encoded)  # (B, T, T)
        is_other = ~torch.eye(affinity.shape[1], dtype=torch.bool, device=affinity.device)
        attended = masked_softmax(affinity, mask[:, None] & is_other) @ encoded
        return relu(self.fuse_self(torch.cat([encoded, attended, encoded * attended], dim=-1)))

    def _drop(self, x: Tensor) -> Tensor:
        return variational_dropout(x, self._dropout, self.training)


class Squad(Task[SquadConfig, Question, Answer]):
    """Questions about paragraphs."""

    name = "squad"
    metric = "f1"

    def defaults(self) -> SquadConfig:
        """The paper's settings, with LSTMs in place of GRUs."""
        return SquadConfig()

    def read(self, path: Path, config: SquadConfig, *, is_training: bool) -> list[Question]:
        """The questions of a file in SQuAD's JSON."""
        data = config.data
        if is_training:
            limits = Limits(data.train_tokens, data.question_tokens, data.paragraph_fraction)
        else:
            limits = Limits(data.test_tokens, data.question_tokens)
        return read_questions(path, limits, is_training=is_training)

    def read_text(
        self,
        lines: Iterable[str],
        line_format: LineFormat = "paragraphs",
        config: SquadConfig | None = None,
    ) -> Iterator[Question]:
        """A question, a tab and a paragraph per line."""
        if line_format == "tokens":
            raise ConfigError("squad reads raw text, as answers are parts of it; got tokens")
        data = (config or self.defaults()).data
        for number, line in enumerate(lines, start=1):
            text, has_both, context = line.partition("\t")
            if not line:
                continue
            if not has_both:
                raise DataError(
                    f"line {number}: {line[:40]!r}, expected a question, a tab and a paragraph; "
                    "use --data for SQuAD's JSON"
                )
            where = f"line {number}"
            tokens = read_question_text(text, data.question_tokens, where)
            yield Question(text, tokens, read_context(context, data.test_tokens, where))

    def sentences(self, example: Question) -> Sequence[Sequence[str]]:
        """The question and the sentences of the paragraph."""
        return [example.tokens, *example.context.sentences]

    def sampling_group(self, example: Question) -> Hashable:
        """The questions of a paragraph are sampled together."""
        return example.context.text

    def vocabularies(self, examples: Sequence[Question], config: SquadConfig) -> Vocabularies:
        """Empty: the model needs no vocabularies."""
        return {}

    def build(self, config: SquadConfig, tokens: TokenVectors, vocabularies: Vocabularies) -> BiDAF:
        """The network with initial weights."""
        return BiDAF(tokens, config)

    def check_scorable(self, examples: Sequence[Question]) -> None:
        """Refuse questions without a reference answer."""
        without = [example for example in examples if not example.answers]
        if without:
            raise DataError(
                f"{len(without)} questions without reference answers, such as "
                f"{without[0].text[:40]!r}; expected at least one for each "
                "(unanswerable questions, as in SQuAD 2.0, are not supported)"
            )

    def score(
        self, examples: Sequence[Question], predictions: Sequence[Answer]
    ) -> dict[str, float]:
        """F1 and exact match."""
        answers = [prediction.text for prediction in predictions]
        return score_answers(answers, [example.answers for example in examples])

    def show(self, example: Question, prediction: Answer) -> str:
        """The question and the answer."""
        return f"{example.text}\n{prediction.text}\n"

    def to_mapping(self, example: Question, prediction: Answer) -> dict[str, Any]:
        """The answer and its position in the paragraph."""
        return {
            "id": example.id,
            "question": example.text,
            "answer": prediction.text,
            "start": prediction.start,
            "end": prediction.stop,
        }


def build_task(name: str) -> Squad:
    """The task."""
    return Squad()


def best_spans(start: Tensor, end: Tensor, max_tokens: int) -> list[tuple[int, int]]:
    """The span with the highest sum of scores (B, T) for each row: its first and last token."""
    n_rows, n_tokens = start.shape
    sums = start.new_full((n_rows, n_tokens, min(max_tokens, n_tokens)), -torch.inf)  # (B, T, W)
    for width in range(sums.shape[2]):
        sums[:, : n_tokens - width, width] = start[:, : n_tokens - width] + end[:, width:]
    best = sums.flatten(1).argmax(1).tolist()
    return [(k // sums.shape[2], k // sums.shape[2] + k % sums.shape[2]) for k in best]
