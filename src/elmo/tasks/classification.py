"""Base classes of classification tasks: one label per example, cross entropy, accuracy.

A task subclasses `Classifier` with its network, and `Classification` with its data.
Shapes: B examples, K labels.
"""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Protocol, TypeVar

import torch
from torch import Tensor
from torch.nn.functional import cross_entropy

from elmo.tasks.config import Config
from elmo.tasks.inputs import TokenVectors
from elmo.tasks.metrics import accuracy
from elmo.tasks.task import Task, TaskModel, Vocabularies


class LabeledExample(Protocol):
    """An example; the label is absent in raw text."""

    @property
    def label(self) -> str | None:
        """The label."""


Labeled = TypeVar("Labeled", bound=LabeledExample)


class Classifier(TaskModel[Labeled, str]):
    """A network with a score for each label."""

    def __init__(self, tokens: TokenVectors, labels: Sequence[str]) -> None:
        super().__init__(tokens)
        self._labels = list(labels)
        self._ids = {label: number for number, label in enumerate(labels)}

    @abstractmethod
    def score(self, examples: Sequence[Labeled]) -> Tensor:
        """Scores of the labels, (B, K)."""

    def loss(self, examples: Sequence[Labeled]) -> Tensor:
        """The mean cross entropy."""
        scores = self.score(examples)
        ids = [self._ids[example.label] for example in examples if example.label is not None]
        return cross_entropy(scores, torch.tensor(ids, device=scores.device))

    def predict(self, examples: Sequence[Labeled]) -> list[str]:
        """The most probable label of each example."""
        return [self._labels[number] for number in self.score(examples).argmax(-1).tolist()]


class Classification(Task[Config, Labeled, str]):
    """A task with one label per example."""

    metric = "accuracy"

    def vocabularies(self, examples: Sequence[Labeled], config: Config) -> Vocabularies:
        """The labels of the training examples."""
        return {"labels": sorted({example.label for example in examples if example.label})}

    def score(self, examples: Sequence[Labeled], predictions: Sequence[str]) -> dict[str, float]:
        """The accuracy in percent."""
        return {"accuracy": accuracy((example.label for example in examples), predictions)}
