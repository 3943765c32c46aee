"""Semantic role labeling (SRL): the arguments of each predicate of a sentence.

The paper's model (He et al. 2017): [x; ELMo; predicate indicator], LSTM layers of alternating
direction, and Viterbi decoding under IOB2 constraints. A small second head finds the predicates of
raw text; its gradients do not reach the rest of the model. Data: data.py. Metric: metrics.py.
Shapes: S distinct sentences, B rows (a sentence and a predicate), T tokens, D width, K labels.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

import torch
from torch import Tensor, nn
from torch.nn.functional import binary_cross_entropy_with_logits, cross_entropy, dropout, relu

from elmo.errors import DataError
from elmo.settings import Dim, NonNegativeInt, PositiveInt, Rate, checked
from elmo.tasks.config import ElmoConfig, OptimizerConfig, TaskConfig, TrainConfig
from elmo.tasks.inputs import TokenVectors
from elmo.tasks.nn.crf import transition_constraints, viterbi
from elmo.tasks.nn.lstm import AlternatingLSTM
from elmo.tasks.spans import may_follow_iob2, read_spans
from elmo.tasks.srl.data import Proposition, read_propositions
from elmo.tasks.srl.metrics import read_arguments, score_arguments, score_predicates
from elmo.tasks.task import Task, TaskModel, Vocabularies
from elmo.text.lines import LineFormat, split_line


@dataclass(frozen=True, kw_only=True, slots=True)
@checked
class SrlDataConfig:
    """The format of the data files; columns are counted from 0."""

    word_column: Annotated[NonNegativeInt, "column of the word"] = 3
    first_column: Annotated[NonNegativeInt, "column of the first predicate's arguments"] = 8
    n_last_columns: Annotated[
        NonNegativeInt, "columns after the last predicate's, such as coreference"
    ] = 0


@dataclass(frozen=True, kw_only=True, slots=True)
@checked
class SrlModelConfig:
    """Sizes and dropout of the network."""

    dim: Annotated[Dim, "cells of a layer"] = 128
    n_layers: Annotated[PositiveInt, "LSTM layers of alternating direction"] = 4
    indicator_dim: Annotated[Dim, "size of the predicate indicator embedding"] = 100
    dropout: Annotated[Rate, "dropout of the input vectors and of each layer's output"] = 0.1
    finder_dim: Annotated[Dim, "hidden size of the predicate classifier, used for raw text"] = 64


@dataclass(frozen=True, kw_only=True, slots=True)
@checked
class SrlConfig(TaskConfig):
    """All settings."""

    elmo: ElmoConfig | None = field(default_factory=lambda: ElmoConfig(dropout=0.1))
    # Measured on a tenth of PropBank EWT, 252 steps: dev F1 21 with this rate, 11 with 0.001 and
    # twice the batch size.
    optimizer: OptimizerConfig = field(
        default_factory=lambda: OptimizerConfig(learning_rate=4e-3, lr_plateau_patience=2)
    )
    train: TrainConfig = field(default_factory=lambda: TrainConfig(n_epochs=30, patience=5))
    data: SrlDataConfig = field(default_factory=SrlDataConfig)
    model: SrlModelConfig = field(default_factory=SrlModelConfig)


@dataclass(frozen=True, slots=True)
class Roles:
    """A prediction: the labels of the given predicate, or of all predicates found."""

    found: tuple[int, ...]  # positions of the predicates that the model finds
    labels: dict[int, list[str]]  # IOB2 labels of each predicate


@dataclass(frozen=True)
class _SentenceVectors:
    """The input vectors of distinct sentences."""

    vectors: Tensor  # (S, T, D)
    at_output: Tensor  # (S, T, E): ELMo at the output; E is 0 without
    lengths: Tensor  # (S,)
    mask: Tensor  # (S, T)


class RoleLabeler(TaskModel[Proposition, Roles]):
    """Alternating LSTMs over a sentence with one marked predicate."""

    def __init__(self, tokens: TokenVectors, labels: Sequence[str], config: SrlConfig) -> None:
        super().__init__(tokens)
        model = config.model
        self._labels = list(labels)
        self._ids = {label: number for number, label in enumerate(labels)}
        self._dropout = model.dropout
        self._constraints = transition_constraints(labels, may_follow_iob2)
        self.indicator = nn.Embedding(2, model.indicator_dim)
        width = tokens.input_dim + model.indicator_dim
        self.encoder = AlternatingLSTM(width, model.dim, model.n_layers, model.dropout)
        self.scores = nn.Linear(self.encoder.output_dim + tokens.output_dim, len(labels))
        self.finder = nn.Conv1d(tokens.input_dim, model.finder_dim, 3, padding=1)
        self.finder_scores = nn.Linear(model.finder_dim, 1)

    def loss(self, examples: Sequence[Proposition]) -> Tensor:
        """The mean loss of the tokens' labels and that of the predicate finder, (2,)."""
        sentences, sentence_ids = self._encode(examples)
        predicates = [example.predicate for example in examples]
        assert None not in predicates
        scores, lengths = self._score(sentences, sentence_ids, [p or 0 for p in predicates])
        label_ids = [
            torch.tensor([self._ids[label] for label in example.labels or ()])
            for example in examples
        ]
        mask = torch.arange(scores.shape[1], device=lengths.device) < lengths[:, None]
        loss = cross_entropy(scores[mask], torch.cat(label_ids).to(scores.device))
        is_predicate = torch.zeros_like(sentences.mask, dtype=torch.float32)
        for example, k in zip(examples, sentence_ids, strict=True):
            is_predicate[k, list(example.predicates)] = 1
        found = self._score_predicates(sentences)
        mask = sentences.mask
        finder_loss = binary_cross_entropy_with_logits(found[mask], is_predicate[mask])
        return torch.stack([loss, finder_loss])

    def loss_counts(self, examples: Sequence[Proposition]) -> list[int]:
        """Tokens of all propositions, and tokens of all distinct sentences."""
        sentences = [example.tokens for example in examples]
        return [sum(map(len, sentences)), sum(map(len, set(sentences)))]

    def predict(self, examples: Sequence[Proposition]) -> list[Roles]:
        """The labels of each example's predicate, or of all predicates found in its sentence."""
        sentences, sentence_ids = self._encode(examples)
        is_found = (self._score_predicates(sentences) > 0) & sentences.mask
        found = [tuple(row.nonzero()[:, 0].tolist()) for row in is_found]
        rows = [
            (number, k, predicate)
            for number, (example, k) in enumerate(zip(examples, sentence_ids, strict=True))
            for predicate in (found[k] if example.predicate is None else (example.predicate,))
        ]
        answers = [Roles(found[k], {}) for k in sentence_ids]
        if not rows:
            return answers
        scores, lengths = self._score(sentences, [k for _, k, _ in rows], [p for *_, p in rows])
        paths = viterbi(scores.cpu(), lengths.cpu(), self._constraints)
        for (number, _, predicate), path in zip(rows, paths, strict=True):
            answers[number].labels[predicate] = [self._labels[label_id] for label_id in path]
        return answers

    def _encode(self, examples: Sequence[Proposition]) -> tuple[_SentenceVectors, list[int]]:
        """Vectors of the distinct sentences, and the index of each example's sentence."""
        numbers: dict[tuple[str, ...], int] = {}
        sentence_ids = [numbers.setdefault(e.tokens, len(numbers)) for e in examples]
        batch = self.tokens.read(list(numbers))
        vectors = self.tokens(batch)
        at_output = self.tokens.add_at_output(vectors[..., :0], batch)
        sentences = _SentenceVectors(vectors, at_output, batch.lengths, batch.mask)
        return sentences, sentence_ids

    def _score(
        self, sentences: _SentenceVectors, sentence_ids: Sequence[int], predicates: Sequence[int]
    ) -> tuple[Tensor, Tensor]:
        """Scores of the labels (B, T, K), and lengths (B,)."""
        lengths = sentences.lengths[list(sentence_ids)]
        n_tokens = int(lengths.max())
        vectors = sentences.vectors[list(sentence_ids), :n_tokens]
        is_predicate = torch.zeros(vectors.shape[:2], dtype=torch.int64, device=vectors.device)
        is_predicate[range(len(predicates)), list(predicates)] = 1
        x = torch.cat([vectors, self.indicator(is_predicate)], dim=-1)
        hidden = self.encoder(dropout(x, self._dropout, self.training), lengths)
        at_output = sentences.at_output[list(sentence_ids), :n_tokens]
        return self.scores(torch.cat([hidden, at_output], dim=-1)), lengths

    def _score_predicates(self, sentences: _SentenceVectors) -> Tensor:
        """Logits of being a predicate, (S, T)."""
        # Detached, so that the rest of the model is trained as in the paper.
        vectors = sentences.vectors.detach().transpose(1, 2)
        return torch.as_tensor(
            self.finder_scores(relu(self.finder(vectors)).transpose(1, 2))[..., 0]
        )


class SemanticRoles(Task[SrlConfig, Proposition, Roles]):
    """Arguments of given predicates; in raw text, of predicates that the model finds."""

    name = "srl"
    metric = "f1"

    def defaults(self) -> SrlConfig:
        """The paper's settings with half of the layers, fewer cells, and Adam."""
        return SrlConfig()

    def read(self, path: Path, config: SrlConfig, *, is_training: bool) -> list[Proposition]:
        """The propositions of a file; sentences without predicates have none."""
        data = config.data
        columns = (data.word_column, data.first_column, data.n_last_columns)
        propositions = list(read_propositions(path, *columns))
        if not propositions:
            raise DataError(
                f"{path}: no predicate, expected one token per line and a column for each "
                "predicate; see data.first_column"
            )
        return propositions

    def read_text(
        self,
        lines: Iterable[str],
        line_format: LineFormat = "paragraphs",
        config: SrlConfig | None = None,
    ) -> Iterator[Proposition]:
        """The sentences of each line; their predicates may follow after a tab."""
        for number, line in enumerate(lines, start=1):
            text, _, listed = line.partition("\t")
            sentences = [tuple(sentence.tokens) for sentence in split_line(text, line_format)]
            words = set(listed.split())
            unknown = words.difference(*sentences)
            if unknown:
                raise DataError(
                    f"line {number}: the predicate {min(unknown)!r} is not a word of the text "
                    "before the tab"
                )
            for tokens in sentences:
                predicates = tuple(k for k, token in enumerate(tokens) if token in words)
                for predicate in predicates if words else (None,):
                    yield Proposition(tokens, predicate, predicates=predicates)

    def sentences(self, example: Proposition) -> Sequence[Sequence[str]]:
        """The sentence itself."""
        return [example.tokens]

    def vocabularies(self, examples: Sequence[Proposition], config: SrlConfig) -> Vocabularies:
        """The labels."""
        kinds = sorted({kind for e in examples for *_, kind in read_spans(e.labels or ())})
        return {"labels": ["O", *(f"{prefix}-{kind}" for kind in kinds for prefix in "BI")]}

    def build(
        self, config: SrlConfig, tokens: TokenVectors, vocabularies: Vocabularies
    ) -> RoleLabeler:
        """The network with initial weights."""
        return RoleLabeler(tokens, vocabularies["labels"], config)

    def score(
        self, examples: Sequence[Proposition], predictions: Sequence[Roles]
    ) -> dict[str, float]:
        """F1 of the arguments of given predicates, and F1 of the predicates found by the model."""
        gold = [example.labels or () for example in examples]
        labels = [
            prediction.labels[example.predicate or 0]
            for example, prediction in zip(examples, predictions, strict=True)
        ]
        found = {e.tokens: set(p.found) for e, p in zip(examples, predictions, strict=True)}
        known = {example.tokens: set(example.predicates) for example in examples}
        return score_arguments(gold, labels) | {"predicate_f1": score_predicates(known, found)}

    def show(self, example: Proposition, prediction: Roles) -> str:
        """One line per predicate, its arguments in brackets; the text if there is none."""
        lines = [
            f"{example.tokens[predicate]}: {_bracket(example.tokens, labels)}"
            for predicate, labels in prediction.labels.items()
        ]
        return "\n".join(lines or [" ".join(example.tokens)]) + "\n"

    def to_mapping(self, example: Proposition, prediction: Roles) -> dict[str, Any]:
        """Tokens, and the labels and arguments of each predicate."""
        frames = [
            {
                "predicate": predicate,
                "labels": labels,
                "arguments": [
                    {"role": role, "spans": [list(span) for span in spans]}
                    for spans, role in read_arguments(labels)
                ],
            }
            for predicate, labels in prediction.labels.items()
        ]
        return {"tokens": list(example.tokens), "frames": frames}


def build_task(name: str) -> SemanticRoles:
    """The task."""
    return SemanticRoles()


def _bracket(tokens: Sequence[str], labels: Sequence[str]) -> str:
    """[ARG0 She] [V gave] [ARG2 him] [ARG1 a bow] ."""
    shown = list(tokens)
    for start, stop, kind in read_spans(labels):
        shown[start] = f"[{kind} {shown[start]}"
        shown[stop - 1] += "]"
    return " ".join(shown)
