"""Sentence classification: the biattentive classification network (BCN) of McCann et al. (2017).

As in the paper's SST-5 model: a biLSTM encodes the sentence, the sentence attends to itself, a
second biLSTM integrates both, four kinds of pooling produce one vector, and maxout layers, with or
without batch normalization, classify it.
Data: data.py. Metric: accuracy.
Shapes: B sentences, T tokens, D width, K classes.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path
from typing import Annotated, Any

import torch
from torch import Tensor, nn
from torch.nn.functional import batch_norm, dropout, relu

from elmo.settings import Dim, PositiveInt, Rate, checked
from elmo.tasks.classification import Classification, Classifier
from elmo.tasks.config import (
    TaskConfig,
    TrainConfig,
    WordsConfig,
)
from elmo.tasks.inputs import TokenVectors
from elmo.tasks.nn.lstm import BiLSTM
from elmo.tasks.nn.pooling import (
    masked_softmax,
    max_over_tokens,
    mean_over_tokens,
    min_over_tokens,
)
from elmo.tasks.sentiment.data import LabeledText, SentimentDataConfig, read_labeled
from elmo.tasks.task import Vocabularies
from elmo.text.lines import LineFormat
from elmo.text.tokenizer import tokenize


@dataclass(frozen=True, kw_only=True, slots=True)
@checked
class SentimentModelConfig:
    """Sizes and dropout of the network; the paper's sizes are twice these."""

    dim: Annotated[Dim, "cells per direction of each biLSTM, and size of its input"] = 150
    n_pieces: Annotated[PositiveInt, "linear pieces of a maxout layer"] = 4
    # Worse here than without: see docs/decisions.md.
    has_batch_norm: Annotated[bool, "batch normalization of the input of each maxout layer"] = False
    dropout: Annotated[Rate, "dropout before the encoder and the maxout layers"] = 0.25


@dataclass(frozen=True, kw_only=True, slots=True)
@checked
class SentimentConfig(TaskConfig):
    """All settings."""

    words: WordsConfig | None = field(
        default_factory=lambda: WordsConfig(is_trained=False, dropout=0.5)
    )
    train: TrainConfig = field(
        default_factory=lambda: TrainConfig(n_epochs=20, patience=5, batch_size=100)
    )
    data: SentimentDataConfig = field(default_factory=SentimentDataConfig)
    model: SentimentModelConfig = field(default_factory=SentimentModelConfig)


class Maxout(nn.Module):
    """The elementwise maximum of several linear layers (Goodfellow et al. 2013)."""

    def __init__(self, input_dim: int, output_dim: int, n_pieces: int) -> None:
        super().__init__()
        self.n_pieces = n_pieces
        self.linear = nn.Linear(input_dim, output_dim * n_pieces)

    def forward(self, x: Tensor) -> Tensor:
        """(B, D) -> (B, D')."""
        pieces: Tensor = self.linear(x).unflatten(-1, (-1, self.n_pieces))
        return pieces.amax(-1)


RUNNING_MOMENTUM = 0.01  # of the newest batch in the running averages of batch normalization


class RowNorm(nn.BatchNorm1d):
    """Batch normalization that can be trained on any batch and evaluated after any step.

    Running averages start from the first batch: torch's start at a variance of one, which distorts
    them for a hundred steps. They cover some hundred batches, as the examples of a batch have
    similar lengths, on which pooled vectors depend. A single row, which has no variance, is
    normalized by them.
    """

    def forward(self, x: Tensor) -> Tensor:
        """(B, D) -> (B, D)."""
        if len(x) > 1 or not self.training:
            assert self.num_batches_tracked is not None
            self.momentum = max(RUNNING_MOMENTUM, 1 / (1 + int(self.num_batches_tracked)))
            return super().forward(x)
        return batch_norm(x, self.running_mean, self.running_var, self.weight, self.bias)


class BiattentiveClassifier(Classifier[LabeledText]):
    """BCN for one sentence, which attends to itself."""

    def __init__(
        self, tokens: TokenVectors, labels: Sequence[str], config: SentimentModelConfig
    ) -> None:
        super().__init__(tokens, labels)
        self._config = config
        self.reduce = nn.Linear(tokens.input_dim, config.dim)
        self.encoder = BiLSTM(config.dim, config.dim)
        encoded_dim = self.encoder.output_dim + tokens.output_dim
        self.integrator = BiLSTM(3 * encoded_dim, config.dim)
        self.attention = nn.Linear(self.integrator.output_dim, 1)
        pooled_dim = 4 * self.integrator.output_dim
        widths = [pooled_dim, pooled_dim // 2, pooled_dim // 4, len(labels)]
        self.maxouts = nn.ModuleList(Maxout(a, b, config.n_pieces) for a, b in pairwise(widths))
        self.norms = nn.ModuleList(
            RowNorm(width) if config.has_batch_norm else nn.Identity() for width in widths[:-1]
        )

    def score(self, examples: Sequence[LabeledText]) -> Tensor:
        """Scores of the classes, (B, K)."""
        batch = self.tokens.read([example.tokens for example in examples])
        mask = batch.mask
        x = dropout(relu(self.reduce(self.tokens(batch))), self._config.dropout, self.training)
        # The self-attention includes ELMo at the output.
        encoded = self.tokens.add_at_output(self.encoder(x, batch.lengths), batch)  # (B, T, D)
        affinity = encoded @ encoded.transpose(1, 2)  # (B, T, T)
        attended = masked_softmax(affinity, mask[:, None, :].expand_as(affinity)) @ encoded
        compared = torch.cat([encoded, encoded - attended, encoded * attended], dim=-1)
        integrated = self.integrator(compared, batch.lengths)
        pooled = self._pool(integrated, mask)
        for norm, maxout in zip(self.norms, self.maxouts, strict=True):
            pooled = maxout(dropout(norm(pooled), self._config.dropout, self.training))
        return pooled

    def _pool(self, x: Tensor, mask: Tensor) -> Tensor:
        """(B, T, D) -> (B, 4 D): maximum, minimum, mean, and a mean with learned weights."""
        weights = masked_softmax(self.attention(x)[..., 0], mask)  # (B, T)
        learned = (weights[..., None] * x).sum(1)
        pools = [pool(x, mask) for pool in (max_over_tokens, min_over_tokens, mean_over_tokens)]
        return torch.cat([*pools, learned], dim=-1)


class Sentiment(Classification[SentimentConfig, LabeledText]):
    """Classification of sentences."""

    name = "sentiment"

    def defaults(self) -> SentimentConfig:
        """The paper's SST-5 settings at half the width."""
        return SentimentConfig()

    def read(self, path: Path, config: SentimentConfig, *, is_training: bool) -> list[LabeledText]:
        """Whole sentences; for training also the phrases of trees."""
        return read_labeled(path, config.data, is_training=is_training)

    def read_text(
        self,
        lines: Iterable[str],
        line_format: LineFormat = "paragraphs",
        config: SentimentConfig | None = None,
    ) -> Iterator[LabeledText]:
        """One text per line."""
        for line in lines:
            tokens = tuple(line.split() if line_format == "tokens" else tokenize(line).tokens)
            if tokens:
                yield LabeledText(tokens)

    def sentences(self, example: LabeledText) -> Sequence[Sequence[str]]:
        """The text itself."""
        return [example.tokens]

    def sampling_group(self, example: LabeledText) -> Hashable:
        """A sentence and its phrases are sampled together."""
        return example.number

    def build(
        self, config: SentimentConfig, tokens: TokenVectors, vocabularies: Vocabularies
    ) -> BiattentiveClassifier:
        """The network with initial weights."""
        return BiattentiveClassifier(tokens, vocabularies["labels"], config.model)

    def show(self, example: LabeledText, prediction: str) -> str:
        """The class, then the text."""
        return f"{prediction}\t{' '.join(example.tokens)}"

    def to_mapping(self, example: LabeledText, prediction: str) -> dict[str, Any]:
        """Tokens and their class."""
        return {"tokens": list(example.tokens), "label": prediction}


def build_task(name: str) -> Sentiment:
    """The task."""
    return Sentiment()
