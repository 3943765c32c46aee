"""Tagging: a label for each token. Named entities and chunks (spans), parts of speech.

The model of the paper's NER: [x; characters; ELMo], a biLSTM, and a CRF over labels that say where
spans start and end (BIOES inside, whatever the data has); or a softmax for labels that stand alone.
Data: CoNLL columns in any scheme, CoNLL-U. Metric: F1 of spans as CoNLL's scorer counts, accuracy.
Shapes: B sentences, T tokens, K labels.
"""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, dropout

from elmo.api import Elmo
from elmo.errors import CheckpointError, DataError
from elmo.settings import not_positive, raise_problems
from elmo.tasks.config import CharsConfig, ElmoConfig, TaskConfig, WordsConfig, not_shares
from elmo.tasks.inputs import TokenVectors
from elmo.tasks.nn.crf import Crf, constraints
from elmo.tasks.nn.encoder import BiLstm
from elmo.tasks.saved import TrainedTask, open_task
from elmo.tasks.spans import (
    Scheme,
    find_breach,
    is_span_label,
    may_follow_bioes,
    percent,
    read_spans,
    score_spans,
    write_bioes,
    write_iob2,
)
from elmo.tasks.tagging.data import Format, Row, read_columns, take
from elmo.tasks.task import Inventory, Task, TaskModel
from elmo.text.lines import LineFormat, split_line

# Where CoNLL-U has the word and its universal part of speech.
CONLLU_WORD, CONLLU_LABEL = 1, 3


@dataclass(frozen=True, kw_only=True, slots=True)
class TaggingDataConfig:
    """How files are read."""

    format: Annotated[Format | None, "absent: CoNLL-U if the file's name says so"] = None
    word_column: Annotated[int | None, "from 0; absent: the first, or CoNLL-U's"] = None
    label_column: Annotated[int | None, "from 0; absent: the last, or CoNLL-U's UPOS"] = None
    has_spans: Annotated[bool, "labels are of spans: B-PER, I-PER, O"] = True
    scheme: Annotated[Scheme | None, "spans that breach it are refused; absent: any is read"] = None


@dataclass(frozen=True, kw_only=True, slots=True)
class TaggingModelConfig:
    """The network."""

    dim: Annotated[int, "cells of a direction of the biLSTM"] = 200
    n_layers: Annotated[int, "layers of the biLSTM"] = 1
    dropout: Annotated[float, "of the biLSTM's output, and between its layers"] = 0.5
    output: Annotated[Literal["crf", "softmax"], "labels of a sentence together, or each"] = "crf"

    def __post_init__(self) -> None:
        """Check the numbers."""
        raise_problems(self, not_positive(self, "dim", "n_layers") + not_shares(self, "dropout"))


@dataclass(frozen=True, kw_only=True, slots=True)
class TaggingConfig(TaskConfig):
    """All settings."""

    words: WordsConfig | None = field(default_factory=lambda: WordsConfig(dropout=0.5))
    chars: CharsConfig | None = field(default_factory=lambda: CharsConfig(dropout=0.5))
    elmo: ElmoConfig | None = field(default_factory=lambda: ElmoConfig(penalty=0.1))
    data: TaggingDataConfig = field(default_factory=TaggingDataConfig)
    model: TaggingModelConfig = field(default_factory=TaggingModelConfig)


@dataclass(frozen=True, slots=True)
class TaggedSentence:
    """An example: labels are in IOB2 where they are of spans, and absent where nobody gave them."""

    tokens: tuple[str, ...]
    labels: tuple[str, ...] | None = None


class Tagger(TaskModel[TaggedSentence, list[str]]):
    """biLSTM-CRF."""

    def __init__(self, tokens: TokenVectors, labels: Sequence[str], config: TaggingConfig) -> None:
        super().__init__(tokens)
        self._labels = list(labels)
        self._ids = {label: number for number, label in enumerate(labels)}
        self._has_spans = config.data.has_spans
        self._dropout = config.model.dropout
        self.encoder = BiLstm(
            tokens.input_dim, config.model.dim, config.model.n_layers, config.model.dropout
        )
        self.scores = nn.Linear(self.encoder.output_dim + tokens.output_dim, len(labels))
        self.crf = None
        if config.model.output == "crf":
            may_follow = may_follow_bioes if self._has_spans else lambda before, after: True
            self.crf = Crf(constraints(labels, may_follow))

    def loss(self, examples: Sequence[TaggedSentence]) -> Tensor:
        """Of a sentence by the CRF, of a token by the softmax."""
        scores, lengths = self._score([example.tokens for example in examples])
        label_ids = torch.zeros(scores.shape[:2], dtype=torch.int64, device=scores.device)
        mask = torch.zeros_like(label_ids, dtype=torch.bool)
        for row, example in enumerate(examples):
            ids = [self._ids[label] for label in self._inner_labels(example)]
            label_ids[row, : len(ids)] = torch.tensor(ids)
            mask[row, : len(ids)] = True
        if self.crf is None:
            return cross_entropy(scores[mask], label_ids[mask])
        return -self.crf.log_likelihood(scores, label_ids, lengths).mean()

    def predict(self, examples: Sequence[TaggedSentence]) -> list[list[str]]:
        """A label for each token of each sentence; IOB2 where they are of spans."""
        scores, lengths = self._score([example.tokens for example in examples])
        if self.crf is None:
            rows = zip(scores.argmax(-1).tolist(), lengths.tolist(), strict=True)
            paths = [row[:length] for row, length in rows]
        else:
            paths = self.crf.best_paths(scores, lengths)
        labels = [[self._labels[number] for number in path] for path in paths]
        if not self._has_spans:
            return labels
        return [write_iob2(read_spans(inner), len(inner)) for inner in labels]

    def _score(self, sentences: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """Scores of the labels (B, T, K), and lengths (B,)."""
        batch = self.tokens.read(sentences)
        hidden = self.encoder(self.tokens(batch), batch.lengths)
        hidden = dropout(hidden, self._dropout, self.training)
        return self.scores(self.tokens.add_at_output(hidden, batch)), batch.lengths

    def _inner_labels(self, example: TaggedSentence) -> Sequence[str]:
        assert example.labels is not None
        return inner_labels(example) if self._has_spans else example.labels


class Tagging(Task[TaggingConfig, TaggedSentence, list[str]]):
    """Named entities, chunks or parts of speech."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.metric = "accuracy" if name == "pos" else "f1"

    def defaults(self) -> TaggingConfig:
        """As the paper's NER, with a smaller biLSTM, for two cores; labels alone for pos."""
        if self.name != "pos":
            return TaggingConfig()
        return TaggingConfig(
            data=TaggingDataConfig(has_spans=False), model=TaggingModelConfig(output="softmax")
        )

    def read(self, path: Path, config: TaggingConfig, *, is_training: bool) -> list[TaggedSentence]:
        """The sentences of a file in columns."""
        data = config.data
        sentences = []
        for rows in read_columns(path, data.format):
            is_conllu = data.format == "conllu" or ".conllu" in path.suffixes
            word, label = data.word_column, data.label_column
            if is_conllu:
                word = CONLLU_WORD if word is None else word
                label = CONLLU_LABEL if label is None else label
            tokens = tuple(take(row, word or 0, path) for row in rows)
            labels = tuple(take(row, label, path) for row in rows)
            if data.has_spans:
                labels = _read_span_labels(labels, rows, data.scheme, path)
            sentences.append(TaggedSentence(tokens, labels))
        if not sentences:
            raise DataError(f"{path}: no sentence, expected a token a line; name another file")
        return sentences

    def read_text(
        self, lines: Iterable[str], line_format: LineFormat = "paragraphs"
    ) -> Iterator[TaggedSentence]:
        """The sentences of each line."""
        for line in lines:
            for sentence in split_line(line, line_format):
                yield TaggedSentence(tuple(sentence.tokens))

    def sentences(self, example: TaggedSentence) -> Sequence[Sequence[str]]:
        """One."""
        return [example.tokens]

    def inventory(self, examples: Sequence[TaggedSentence], config: TaggingConfig) -> Inventory:
        """The labels; of spans, all four of every kind, as a short text may lack some."""
        if not config.data.has_spans:
            return {"labels": sorted({label for e in examples for label in e.labels or ()})}
        kinds = sorted({kind for e in examples for *_, kind in read_spans(e.labels or ())})
        return {"labels": ["O", *(f"{prefix}-{kind}" for kind in kinds for prefix in "BIES")]}

    def build(self, config: TaggingConfig, tokens: TokenVectors, inventory: Inventory) -> Tagger:
        """The network at its start values."""
        return Tagger(tokens, inventory["labels"], config)

    def score(
        self, examples: Sequence[TaggedSentence], predictions: Sequence[list[str]]
    ) -> dict[str, float]:
        """F1 of spans, accuracy of tokens."""
        n_tokens = sum(len(example.tokens) for example in examples)
        n_right = sum(
            right == found
            for example, labels in zip(examples, predictions, strict=True)
            for right, found in zip(example.labels or (), labels, strict=True)
        )
        accuracy = {"accuracy": percent(n_right, n_tokens)}
        if self.metric == "accuracy":
            return accuracy
        gold = [read_spans(example.labels or ()) for example in examples]
        return score_spans(gold, [read_spans(labels) for labels in predictions]) | accuracy

    def show(self, example: TaggedSentence, prediction: list[str]) -> str:
        """A token and its label a line, a blank line after the sentence."""
        pairs = zip(example.tokens, prediction, strict=True)
        return "".join(f"{token}\t{label}\n" for token, label in pairs)

    def to_mapping(self, example: TaggedSentence, prediction: list[str]) -> dict[str, Any]:
        """Tokens, their labels, and spans where there are such."""
        mapping: dict[str, Any] = {"tokens": list(example.tokens), "labels": prediction}
        if self.metric == "f1":
            mapping["spans"] = [
                {"start": start, "end": stop, "label": kind}
                for start, stop, kind in read_spans(prediction)
            ]
        return mapping


class TrainedTagger:
    """A trained tagger as the server asks it."""

    def __init__(self, trained: TrainedTask) -> None:
        self.name = trained.task.name
        self._trained = trained

    @staticmethod
    def open(folder: Path, elmo: Elmo) -> "TrainedTagger":
        """The tagger of a folder, with a biLM that is open."""
        trained = open_task(folder, elmo)
        if not isinstance(trained.task, Tagging):
            raise CheckpointError(
                f"{folder}: a model for {trained.task.name}, expected one that labels words; give "
                "the folder of a tagger"
            )
        return TrainedTagger(trained)

    def label(self, sentences: Sequence[Sequence[str]]) -> list[list[str]]:
        """A label for each token of each sentence."""
        examples = [TaggedSentence(tuple(tokens)) for tokens in sentences]
        labels = iter(self._trained.predict(example for example in examples if example.tokens))
        return [next(labels) if example.tokens else [] for example in examples]


def build_task(name: str) -> Tagging:
    """The task of that name."""
    return Tagging(name)


def inner_labels(example: TaggedSentence) -> list[str]:
    """The labels of a sentence as the CRF has them."""
    return write_bioes(read_spans(example.labels or ()), len(example.tokens))


def _read_span_labels(
    labels: Sequence[str], rows: Sequence[Row], scheme: Scheme | None, path: Path
) -> tuple[str, ...]:
    """Labels of any scheme in IOB2."""
    for label, row in zip(labels, rows, strict=True):
        if not is_span_label(label):
            raise DataError(
                f"{path}:{row.line}: the label {label!r}, expected O or one such as B-PER; choose "
                "data.label_column, or set data.has_spans=false"
            )
    place = None if scheme is None else find_breach(labels, scheme)
    if place is not None:
        raise DataError(
            f"{path}:{rows[place].line}: the label {labels[place]!r} cannot stand here in "
            f"{scheme}; expected spans in that scheme; mend the line, or leave data.scheme out"
        )
    return tuple(write_iob2(read_spans(labels), len(labels)))
