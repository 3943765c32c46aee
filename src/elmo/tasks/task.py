"""What a task is: the contract between a task's file and the parts that all tasks share.

A new task is one file of this folder with three classes, and its name in `elmo.tasks.TASKS`:

- a config, a subclass of `TaskConfig` (task_config.py) with the groups of settings that are its own
  and with other defaults where the task wants them;
- a model, a subclass of `TaskModel`: a module that holds `self.tokens` (token_vectors.py) and gives
  the loss and the predictions of some examples;
- a `Task`: readers, what the model must know by list, the metric, and how a prediction is shown.

The module's `build_task(name)` gives the `Task`. An example is a frozen dataclass of the task's
own. It refers to one sentence of tokens or several; `Task.sentences` names them, and the shared
parts see to it that their ELMo layers are on disk before training starts. The rest is shared: the
loop (task_trainer.py), saving and opening (saved_task.py), the verbs. tagging.py is the plainest.
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
        """Over how many items each part of the loss is a mean; by default one part, of examples.

        Several processes that share a batch need it.
        """
        return [len(examples)]

    @abstractmethod
    def predict(self, examples: Sequence[Example]) -> list[Prediction]:
        """A prediction for each example of a batch; called in eval mode, without gradients."""


class Task(ABC, Generic[Config, Example, Prediction]):
    """All of a task but its network."""

    name: str  # as the command line has it
    metric: str  # which of the numbers of `score` is the one to be high

    @abstractmethod
    def defaults(self) -> Config:
        """The settings where nobody says otherwise."""

    @abstractmethod
    def read(self, path: Path, config: Config, *, is_training: bool) -> list[Example]:
        """The examples of a data file, plain, .gz or .xz; errors name file and line.

        A task may learn from more than it is measured with, as SST's phrases are.
        """

    def read_text(
        self, lines: Iterable[str], line_format: LineFormat = "paragraphs"
    ) -> Iterator[Example]:
        """Examples of text without labels, for tasks that can read it."""
        raise ConfigError(
            f"raw text is given, expected a data file, as {self.name} needs more than text; name "
            "one, and say --data"
        )

    @abstractmethod
    def sentences(self, example: Example) -> Sequence[Tokens]:
        """The sentences that the model will read for an example, each to be embedded alone."""

    def sampling_group(self, example: Example) -> Hashable:
        """Examples of one group are kept or left out together by `train.train_fraction`."""
        return tuple(map(tuple, self.sentences(example)))

    def length(self, example: Example) -> int:
        """By what examples of like size are brought together."""
        return sum(map(len, self.sentences(example)))

    @abstractmethod
    def vocabularies(self, examples: Sequence[Example], config: Config) -> Vocabularies:
        """The vocabularies of the model, such as its labels, from the training examples."""

    @abstractmethod
    def build(
        self, config: Config, tokens: TokenVectors, vocabularies: Vocabularies
    ) -> TaskModel[Example, Prediction]:
        """The network at its start values."""

    @abstractmethod
    def score(
        self, examples: Sequence[Example], predictions: Sequence[Prediction]
    ) -> dict[str, float]:
        """How good predictions are, in percent: `metric` and what else is worth knowing."""

    @abstractmethod
    def show(self, example: Example, prediction: Prediction) -> str:
        """A prediction for a person to read."""

    @abstractmethod
    def to_mapping(self, example: Example, prediction: Prediction) -> dict[str, Any]:
        """A prediction as plain values, for JSON."""


# A task whose kinds are nobody's business, as the shared parts see it.
AnyTask = Task[Any, Any, Any]
AnyModel = TaskModel[Any, Any]
