"""Sentiment, or any other class of a sentence: the biattentive classification network (BCN).

McCann et al. (2017), as the paper has it for SST-5: a biLSTM reads the sentence, which then attends
to itself; a second biLSTM integrates, four ways of pooling make one vector of it, and maxout layers
decide. Data: trees in brackets, whose phrases are learned from too, or lines of `label<TAB>text`.
Metric: accuracy of whole sentences.
Shapes: B sentences, T tokens, D width, K classes.
"""

from collections.abc import Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from random import Random
from typing import Annotated, Any

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, dropout, relu

from elmo.errors import DataError
from elmo.files.text_files import read_lines
from elmo.settings import not_positive, raise_problems
from elmo.tasks.config import (
    OptimiserConfig,
    TaskConfig,
    TrainConfig,
    WordsConfig,
    not_shares,
)
from elmo.tasks.inputs import TokenVectors
from elmo.tasks.nn.encoder import BiLstm
from elmo.tasks.nn.pooling import (
    masked_softmax,
    max_over_tokens,
    mean_over_tokens,
    min_over_tokens,
)
from elmo.tasks.sentiment.data import Phrase, read_tree
from elmo.tasks.spans import percent
from elmo.tasks.task import Inventory, Task, TaskModel
from elmo.text.lines import LineFormat
from elmo.text.tokenizer import tokenize


@dataclass(frozen=True, kw_only=True, slots=True)
class SentimentDataConfig:
    """What of a tree is learned from."""

    has_phrases: Annotated[bool, "the phrases of a tree too, not its whole alone"] = True
    min_tokens: Annotated[int, "of a phrase"] = 2
    max_phrases: Annotated[int | None, "of a tree, drawn by chance; absent: all"] = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        raise_problems(self, not_positive(self, "min_tokens", "max_phrases"))


@dataclass(frozen=True, kw_only=True, slots=True)
class SentimentModelConfig:
    """The network; the paper's sizes are twice these."""

    dim: Annotated[int, "cells of a direction of each biLSTM, and width of what it reads"] = 150
    n_pieces: Annotated[int, "of a maxout layer"] = 4
    dropout: Annotated[float, "before the encoder and the maxout layers"] = 0.25

    def __post_init__(self) -> None:
        """Check the numbers."""
        raise_problems(self, not_positive(self, "dim", "n_pieces") + not_shares(self, "dropout"))


@dataclass(frozen=True, kw_only=True, slots=True)
class SentimentConfig(TaskConfig):
    """All settings."""

    words: WordsConfig | None = field(
        default_factory=lambda: WordsConfig(is_trained=False, dropout=0.5)
    )
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    train: TrainConfig = field(
        default_factory=lambda: TrainConfig(n_epochs=20, patience=5, batch_size=100)
    )
    data: SentimentDataConfig = field(default_factory=SentimentDataConfig)
    model: SentimentModelConfig = field(default_factory=SentimentModelConfig)


@dataclass(frozen=True, slots=True)
class LabelledText:
    """An example: a sentence or a phrase of one, and the sentence's number in its file."""

    tokens: tuple[str, ...]
    label: str | None = None
    number: int = 0


class Maxout(nn.Module):
    """The highest of several linear layers, column by column."""

    def __init__(self, input_dim: int, output_dim: int, n_pieces: int) -> None:
        super().__init__()
        self.n_pieces = n_pieces
        self.linear = nn.Linear(input_dim, output_dim * n_pieces)

    def forward(self, x: Tensor) -> Tensor:
        """(B, D) -> (B, D')."""
        pieces: Tensor = self.linear(x).unflatten(-1, (-1, self.n_pieces))
        return pieces.amax(-1)


class BiattentiveClassifier(TaskModel[LabelledText, str]):
    """BCN with one sentence, which attends to itself."""

    def __init__(
        self, tokens: TokenVectors, labels: Sequence[str], config: SentimentModelConfig
    ) -> None:
        super().__init__(tokens)
        self._labels = list(labels)
        self._ids = {label: number for number, label in enumerate(labels)}
        self._config = config
        self.reduce = nn.Linear(tokens.input_dim, config.dim)
        self.encoder = BiLstm(config.dim, config.dim)
        encoded_dim = self.encoder.output_dim + tokens.output_dim
        self.integrator = BiLstm(3 * encoded_dim, config.dim)
        self.attention = nn.Linear(self.integrator.output_dim, 1)
        pooled_dim = 4 * self.integrator.output_dim
        self.maxouts = nn.ModuleList(
            [
                Maxout(pooled_dim, pooled_dim // 2, config.n_pieces),
                Maxout(pooled_dim // 2, pooled_dim // 4, config.n_pieces),
                Maxout(pooled_dim // 4, len(labels), config.n_pieces),
            ]
        )

    def loss(self, examples: Sequence[LabelledText]) -> Tensor:
        """Cross entropy."""
        scores = self._score(examples)
        ids = [self._ids[example.label] for example in examples if example.label is not None]
        return cross_entropy(scores, torch.tensor(ids, device=scores.device))

    def predict(self, examples: Sequence[LabelledText]) -> list[str]:
        """The most probable class of each."""
        return [self._labels[number] for number in self._score(examples).argmax(-1).tolist()]

    def _score(self, examples: Sequence[LabelledText]) -> Tensor:
        """Scores of the classes, (B, K)."""
        batch = self.tokens.read([example.tokens for example in examples])
        mask = batch.mask
        x = dropout(relu(self.reduce(self.tokens(batch))), self._config.dropout, self.training)
        # ELMo at the output stands where the sentence attends to itself.
        encoded = self.tokens.add_at_output(self.encoder(x, batch.lengths), batch)  # (B, T, D)
        alike = encoded @ encoded.transpose(1, 2)  # (B, T, T)
        attended = masked_softmax(alike, mask[:, None, :].expand_as(alike)) @ encoded
        compared = torch.cat([encoded, encoded - attended, encoded * attended], dim=-1)
        integrated = self.integrator(compared, batch.lengths)
        pooled = self._pool(integrated, mask)
        for maxout in self.maxouts:
            pooled = maxout(dropout(pooled, self._config.dropout, self.training))
        return pooled

    def _pool(self, x: Tensor, mask: Tensor) -> Tensor:
        """(B, T, D) -> (B, 4 D): the highest, the lowest, the mean, and a learned mean."""
        shares = masked_softmax(self.attention(x)[..., 0], mask)  # (B, T)
        learned = (shares[..., None] * x).sum(1)
        pools = [pool(x, mask) for pool in (max_over_tokens, min_over_tokens, mean_over_tokens)]
        return torch.cat([*pools, learned], dim=-1)


class Sentiment(Task[SentimentConfig, LabelledText, str]):
    """Classes of sentences."""

    name = "sentiment"
    metric = "accuracy"

    def defaults(self) -> SentimentConfig:
        """As the paper's SST-5, at half the width."""
        return SentimentConfig()

    def read(self, path: Path, config: SentimentConfig, *, is_training: bool) -> list[LabelledText]:
        """Whole sentences; in training phrases of trees too, each once."""
        examples: dict[tuple[tuple[str, ...], str], LabelledText] = {}
        sentences: list[LabelledText] = []
        for number, line in enumerate(read_lines(path), start=1):
            if not line:
                continue
            whole, *phrases = _read_line(line, path, number)
            sentences.append(LabelledText(whole.tokens, whole.label, number))
            if is_training and config.data.has_phrases:
                for phrase in _choose_phrases(phrases, config.data, number):
                    key = (phrase.tokens, phrase.label)
                    examples.setdefault(key, LabelledText(*key, number))
        if not sentences:
            raise DataError(f"{path}: no sentence, expected a tree or label<TAB>text a line")
        known = {(sentence.tokens, sentence.label) for sentence in sentences}
        return sentences + [example for key, example in examples.items() if key not in known]

    def read_text(
        self, lines: Iterable[str], line_format: LineFormat = "paragraphs"
    ) -> Iterator[LabelledText]:
        """A text a line."""
        for line in lines:
            tokens = tuple(line.split() if line_format == "tokens" else tokenize(line).tokens)
            if tokens:
                yield LabelledText(tokens)

    def sentences(self, example: LabelledText) -> Sequence[Sequence[str]]:
        """One."""
        return [example.tokens]

    def unit(self, example: LabelledText) -> Hashable:
        """A sentence with its phrases."""
        return example.number

    def inventory(self, examples: Sequence[LabelledText], config: SentimentConfig) -> Inventory:
        """The classes."""
        return {"labels": sorted({example.label for example in examples if example.label})}

    def build(
        self, config: SentimentConfig, tokens: TokenVectors, inventory: Inventory
    ) -> BiattentiveClassifier:
        """The network at its start values."""
        return BiattentiveClassifier(tokens, inventory["labels"], config.model)

    def score(
        self, examples: Sequence[LabelledText], predictions: Sequence[str]
    ) -> dict[str, float]:
        """Accuracy."""
        pairs = zip(examples, predictions, strict=True)
        n_right = sum(example.label == found for example, found in pairs)
        return {"accuracy": percent(n_right, len(examples))}

    def show(self, example: LabelledText, prediction: str) -> str:
        """The class, then the text."""
        return f"{prediction}\t{' '.join(example.tokens)}"

    def to_mapping(self, example: LabelledText, prediction: str) -> dict[str, Any]:
        """Tokens and their class."""
        return {"tokens": list(example.tokens), "label": prediction}


def build_task(name: str) -> Sentiment:
    """The task."""
    return Sentiment()


def _read_line(line: str, path: Path, number: int) -> list[Phrase]:
    """The phrases of a tree, the whole first; or the one text of a line with a label."""
    if line.startswith("("):
        return read_tree(line, path, number)
    label, has_text, text = line.partition("\t")
    tokens = tuple(tokenize(text).tokens)
    if not has_text or not tokens:
        raise DataError(
            f"{path}:{number}: {line[:40]!r}, expected a tree in brackets, or a label, a tab and a "
            "text; mend the line"
        )
    return [Phrase(tokens, label.strip())]


def _choose_phrases(
    phrases: Sequence[Phrase], config: SentimentDataConfig, number: int
) -> Sequence[Phrase]:
    """Those that are long enough, and not too many."""
    kept = [phrase for phrase in phrases if len(phrase.tokens) >= config.min_tokens]
    if config.max_phrases is None or len(kept) <= config.max_phrases:
        return kept
    return Random(number).sample(kept, config.max_phrases)
