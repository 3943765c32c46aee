"""The interface of a task, which the shared code (training, saving, commands) uses.

A new task is a folder beside this file with its name in `elmo.tasks.TASKS`, and three classes:

- a config: a subclass of `TaskConfig` (config.py) with the settings of the task and its defaults;
- a model: a subclass of `TaskModel`, a module with `self.tokens` (inputs.py) that computes the loss
  and the predictions of a batch of examples;
- a `Task`: it reads data files, builds the model, scores and prints predictions.

`build_task(name)` of the folder's model.py returns the `Task`. An example is a frozen dataclass of
the task. `Task.sentences` returns the sentences of an example, whose ELMo layers are cached before
training. The simplest task is in tagging/.
"""

from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Generic, TypeVar

from torch import Tensor, nn

from elmo.errors import ConfigError
from elmo.tasks.config import Config
from elmo.tasks.inputs import TokenVectors
from elmo.tasks.layer_cache import Tokens
from elmo.text.lines import LineFormat

Example = TypeVar("Example")
Prediction = TypeVar("Prediction")
# Lists that a model is built from, such as its labels, by name; stored as JSON.
Vocabularies = Mapping[str, Sequence[str]]


class TaskModel(nn.Module, ABC, Generic[Example, Prediction]):
    """The network of a task."""

    def __init__(self, tokens: TokenVectors) -> None:
        super().__init__()
        self.tokens = tokens

    @abstractmethod
    def loss(self, examples: Sequence[Example]) -> Tensor:
        """The mean loss of a batch, a scalar; or the means of its parts, a vector.

        The penalty of the mixes is added by the learner.
        """

    def loss_counts(self, examples: Sequence[Example]) -> Sequence[int]:
        """The number of items that each part of the loss is a mean over; by default, examples.

        With several processes, their losses are weighted by it.
        """
        return [len(examples)]

    @abstractmethod
    def predict(self, examples: Sequence[Example]) -> list[Prediction]:
        """A prediction for each example of a batch; called in eval mode, without gradients."""


class Task(ABC, Generic[Config, Example, Prediction]):
    """A task, which reads data, builds its network, and scores and prints predictions."""

    name: str  # on the command line
    metric: str  # the score that selects the best model; higher is better

    @abstractmethod
    def defaults(self) -> Config:
        """The default settings."""

    @abstractmethod
    def read(self, path: Path, config: Config, *, is_training: bool) -> list[Example]:
        """The examples of a data file, plain, .gz or .xz; errors name file and line.

        A task may have more kinds of training examples, such as the phrases of SST.
        """

    def read_text(
        self,
        lines: Iterable[str],
        line_format: LineFormat = "paragraphs",
        config: Config | None = None,
    ) -> Iterator[Example]:
        """Examples of unlabeled text, for tasks that can read it; no `config`: default settings."""
        raise ConfigError(
            f"raw text, expected a data file (--data): {self.name} needs more than text"
        )

    @abstractmethod
    def sentences(self, example: Example) -> Sequence[Tokens]:
        """The sentences of an example, which the biLM reads separately."""

    def sampling_group(self, example: Example) -> Hashable:
        """Examples of one group are kept or left out together by `train.train_fraction`."""
        return tuple(map(tuple, self.sentences(example)))

    def length(self, example: Example) -> int:
        """The length of an example, by which batches are formed."""
        return sum(map(len, self.sentences(example)))

    @abstractmethod
    def vocabularies(self, examples: Sequence[Example], config: Config) -> Vocabularies:
        """The vocabularies of the model, such as its labels, from the training examples."""

    @abstractmethod
    def build(
        self, config: Config, tokens: TokenVectors, vocabularies: Vocabularies
    ) -> TaskModel[Example, Prediction]:
        """The untrained network."""

    def check_scorable(self, examples: Sequence[Example]) -> None:
        """Refuse examples that have no labels to score; called before training and prediction."""

    @abstractmethod
    def score(
        self, examples: Sequence[Example], predictions: Sequence[Prediction]
    ) -> dict[str, float]:
        """The scores of predictions in percent: `metric` and others."""

    @abstractmethod
    def show(self, example: Example, prediction: Prediction) -> str:
        """A prediction as text."""

    @abstractmethod
    def to_mapping(self, example: Example, prediction: Prediction) -> dict[str, Any]:
        """A prediction as values for JSON."""


# For the shared code, which does not depend on the types of a task.
AnyTask = Task[Any, Any, Any]
AnyModel = TaskModel[Any, Any]
