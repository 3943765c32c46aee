"""Sequence tagging: named entities and chunks (spans), parts of speech.

The paper's NER model: [x; characters; ELMo], a biLSTM and a CRF over BIOES labels (converted from
the scheme of the data); for labels that are not of spans, a softmax. Data: data.py. Metrics:
metrics.py.
Shapes: B sentences, T tokens, K labels.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from elmo.errors import ConfigError
from elmo.settings import Dim, PositiveInt, Rate, checked
from elmo.tasks.config import CharsConfig, ElmoConfig, TaskConfig, TrainConfig, WordsConfig
from elmo.tasks.inputs import TokenVectors
from elmo.tasks.nn.crf import CRF, transition_constraints
from elmo.tasks.nn.lstm import BiLSTM, variational_dropout
from elmo.tasks.spans import may_follow_bioes, read_spans, write_bioes, write_iob2
from elmo.tasks.tagging.data import TaggedSentence, TaggingDataConfig, read_tagged
from elmo.tasks.tagging.metrics import score_labels
from elmo.tasks.task import Task, TaskModel, Vocabularies
from elmo.text.lines import LineFormat, split_line


@dataclass(frozen=True, kw_only=True, slots=True)
@checked
class TaggingModelConfig:
    """Sizes and dropout of the network."""

    dim: Annotated[Dim, "cells per direction of each biLSTM layer"] = 200
    n_layers: Annotated[PositiveInt, "layers of the biLSTM"] = 2
    dropout: Annotated[Rate, "variational dropout of the input of each biLSTM layer"] = 0.5
    output: Annotated[Literal["crf", "softmax"], "output layer"] = "crf"


@dataclass(frozen=True, kw_only=True, slots=True)
@checked
class TaggingConfig(TaskConfig):
    """All settings."""

    # Read the whole file: the words of a test text may be rarer than any limit.
    words: WordsConfig | None = field(default_factory=lambda: WordsConfig(max_words=None))
    chars: CharsConfig | None = field(default_factory=CharsConfig)
    # The model's own dropout applies to ELMo too. AllenNLP's penalty of 0.1 is for the sum of a
    # batch's losses; here it is their mean.
    elmo: ElmoConfig | None = field(default_factory=lambda: ElmoConfig(dropout=0.0))
    # Averaged weights had the better dev F1 in three of four runs (docs/decisions.md).
    train: TrainConfig = field(default_factory=lambda: TrainConfig(ema_decay=0.999))
    data: TaggingDataConfig = field(default_factory=TaggingDataConfig)
    model: TaggingModelConfig = field(default_factory=TaggingModelConfig)


class Tagger(TaskModel[TaggedSentence, list[str]]):
    """A biLSTM with a CRF or softmax output layer."""

    def __init__(self, tokens: TokenVectors, labels: Sequence[str], config: TaggingConfig) -> None:
        super().__init__(tokens)
        self._labels = list(labels)
        self._ids = {label: number for number, label in enumerate(labels)}
        self._has_spans = config.data.has_spans
        self._dropout = config.model.dropout
        self.encoder = BiLSTM(
            tokens.input_dim, config.model.dim, config.model.n_layers, config.model.dropout
        )
        self.scores = nn.Linear(self.encoder.output_dim + tokens.output_dim, len(labels))
        self.crf = None
        if config.model.output == "crf":
            may_follow = may_follow_bioes if self._has_spans else lambda before, after: True
            self.crf = CRF(transition_constraints(labels, may_follow))

    def loss(self, examples: Sequence[TaggedSentence]) -> Tensor:
        """The mean loss, over sentences with a CRF, over tokens with a softmax."""
        scores, lengths = self._score([example.tokens for example in examples])
        label_ids = torch.zeros(scores.shape[:2], dtype=torch.int64, device=scores.device)
        mask = torch.zeros_like(label_ids, dtype=torch.bool)
        for row, example in enumerate(examples):
            ids = [self._ids[label] for label in self._network_labels(example)]
            label_ids[row, : len(ids)] = torch.tensor(ids)
            mask[row, : len(ids)] = True
        if self.crf is None:
            return cross_entropy(scores[mask], label_ids[mask])
        return -self.crf.log_likelihood(scores, label_ids, lengths).mean()

    def loss_counts(self, examples: Sequence[TaggedSentence]) -> list[int]:
        """The number of sentences with a CRF, of tokens with a softmax."""
        n_tokens = sum(len(example.tokens) for example in examples)
        return [n_tokens if self.crf is None else len(examples)]

    def predict(self, examples: Sequence[TaggedSentence]) -> list[list[str]]:
        """A label for each token of each sentence; span labels are in IOB2."""
        scores, lengths = self._score([example.tokens for example in examples])
        if self.crf is None:
            rows = zip(scores.argmax(-1).tolist(), lengths.tolist(), strict=True)
            paths = [row[:length] for row, length in rows]
        else:
            paths = self.crf.best_paths(scores, lengths)
        labels = [[self._labels[number] for number in path] for path in paths]
        if not self._has_spans:
            return labels
        return [write_iob2(read_spans(bioes), len(bioes)) for bioes in labels]

    def _score(self, sentences: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """Scores of the labels (B, T, K), and lengths (B,)."""
        batch = self.tokens.read(sentences)
        x = variational_dropout(self.tokens(batch), self._dropout, self.training)
        hidden = self.encoder(x, batch.lengths)
        return self.scores(self.tokens.add_at_output(hidden, batch)), batch.lengths

    def _network_labels(self, example: TaggedSentence) -> Sequence[str]:
        """The labels that the network learns; labels of spans are in BIOES."""
        assert example.labels is not None
        if not self._has_spans:
            return example.labels
        return write_bioes(read_spans(example.labels), len(example.tokens))


class Tagging(Task[TaggingConfig, TaggedSentence, list[str]]):
    """Named entities, chunks or parts of speech."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.metric = "accuracy" if name == "pos" else "f1"

    def defaults(self) -> TaggingConfig:
        """The paper's NER settings, except for those in docs/tasks.md; for pos a softmax."""
        if self.name != "pos":
            return TaggingConfig()
        return TaggingConfig(
            data=TaggingDataConfig(has_spans=False), model=TaggingModelConfig(output="softmax")
        )

    def read(self, path: Path, config: TaggingConfig, *, is_training: bool) -> list[TaggedSentence]:
        """The sentences of a file in columns or CoNLL-U."""
        is_of_spans = self.metric == "f1"
        if config.data.has_spans != is_of_spans:
            other = "pos` for labels that are not of spans" if is_of_spans else "ner` for spans"
            raise ConfigError(
                f"data.has_spans is {config.data.has_spans}, expected {is_of_spans} for "
                f"{self.name}, whose metric is {self.metric}; use `elmo train {other}"
            )
        return read_tagged(path, config.data)

    def read_text(
        self,
        lines: Iterable[str],
        line_format: LineFormat = "paragraphs",
        config: TaggingConfig | None = None,
    ) -> Iterator[TaggedSentence]:
        """The sentences of each line."""
        for line in lines:
            for sentence in split_line(line, line_format):
                yield TaggedSentence(tuple(sentence.tokens))

    def sentences(self, example: TaggedSentence) -> Sequence[Sequence[str]]:
        """The sentence itself."""
        return [example.tokens]

    def vocabularies(
        self, examples: Sequence[TaggedSentence], config: TaggingConfig
    ) -> Vocabularies:
        """The labels; for spans, O and all four prefixes of each kind."""
        if not config.data.has_spans:
            return {"labels": sorted({label for e in examples for label in e.labels or ()})}
        kinds = sorted({kind for e in examples for *_, kind in read_spans(e.labels or ())})
        return {"labels": ["O", *(f"{prefix}-{kind}" for kind in kinds for prefix in "BIES")]}

    def build(
        self, config: TaggingConfig, tokens: TokenVectors, vocabularies: Vocabularies
    ) -> Tagger:
        """The network with initial weights."""
        return Tagger(tokens, vocabularies["labels"], config)

    def score(
        self, examples: Sequence[TaggedSentence], predictions: Sequence[list[str]]
    ) -> dict[str, float]:
        """F1 of spans, accuracy of tokens."""
        gold = [example.labels or () for example in examples]
        return score_labels(gold, predictions, has_spans=self.metric == "f1")

    def show(self, example: TaggedSentence, prediction: list[str]) -> str:
        """One token and its label per line, and a blank line."""
        pairs = zip(example.tokens, prediction, strict=True)
        return "".join(f"{token}\t{label}\n" for token, label in pairs)

    def to_mapping(self, example: TaggedSentence, prediction: list[str]) -> dict[str, Any]:
        """Tokens, labels, and for labels of spans also the spans."""
        mapping: dict[str, Any] = {"tokens": list(example.tokens), "labels": prediction}
        if self.metric == "f1":
            mapping["spans"] = [
                {"start": start, "end": stop, "label": kind}
                for start, stop, kind in read_spans(prediction)
            ]
        return mapping


def build_task(name: str) -> Tagging:
    """The task with this name."""
    return Tagging(name)
