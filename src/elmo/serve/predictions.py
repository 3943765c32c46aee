"""Task models for /api/predict: convert inputs to examples, and predictions to JSON values.

In: the sentences of a text, or a pair of texts (premise and hypothesis, question and paragraph).
Out: examples for the model's thread; for a text its labels, label, frames or clusters, with token
positions in the text; for a pair its label or answer.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, Protocol

from elmo.api import Elmo
from elmo.errors import ConfigError
from elmo.tasks import TASKS
from elmo.tasks.coref.data import Document
from elmo.tasks.nli.data import make_pair
from elmo.tasks.saved import TrainedTask, open_task
from elmo.tasks.sentiment.data import LabeledText
from elmo.tasks.squad.data import Question, read_context, read_question_text
from elmo.tasks.srl.data import Proposition
from elmo.tasks.tagging.data import TaggedSentence
from elmo.text.tokenizer import Sentence

# What a prediction consists of; the last two are for pairs of texts.
Kind = Literal["labels", "label", "frames", "clusters", "pair", "answer"]
PAIR_KINDS: tuple[Kind, ...] = ("pair", "answer")
KINDS: Mapping[str, Kind] = {
    "tagging": "labels",
    "sentiment": "label",
    "srl": "frames",
    "coref": "clusters",
    "nli": "pair",
    "squad": "answer",
}


class Predictor(Protocol):
    """A task model."""

    @property
    def kind(self) -> Kind:
        """What its predictions consist of."""

    def read_text(self, text: Sequence[Sentence]) -> list[Any]:
        """The examples of a text, which has at least one token."""

    def read_pair(self, first: str, second: str, where: str) -> Any:  # noqa: ANN401
        """The example of a pair of texts."""

    def length(self, example: Any) -> int:  # noqa: ANN401
        """The number of tokens of an example."""

    def predict(self, examples: Sequence[Any]) -> list[Mapping[str, Any]]:
        """The predictions for examples as JSON values."""


@dataclass(frozen=True)
class TaskPredictor:
    """A trained task model."""

    kind: Kind
    trained: TrainedTask

    def read_text(self, text: Sequence[Sentence]) -> list[Any]:
        sentences = tuple(tuple(sentence.tokens) for sentence in text if sentence.tokens)
        if self.kind == "label":
            return [LabeledText(tuple(token for tokens in sentences for token in tokens))]
        if self.kind == "clusters":
            return [Document("text", sentences)]
        make = TaggedSentence if self.kind == "labels" else Proposition
        return [make(tokens) for tokens in sentences]

    def read_pair(self, first: str, second: str, where: str) -> Any:  # noqa: ANN401
        if self.kind == "pair":
            return make_pair(first, second, where)
        limits: Any = self.trained.config
        tokens = read_question_text(first, limits.data.question_tokens, where)
        return Question(first, tokens, read_context(second, limits.data.test_tokens, where))

    def length(self, example: Any) -> int:  # noqa: ANN401
        return sum(map(len, self.trained.task.sentences(example)))

    def predict(self, examples: Sequence[Any]) -> list[Mapping[str, Any]]:
        found = self.trained.predict(examples)
        to_mapping = self.trained.task.to_mapping
        return [to_mapping(example, one) for example, one in zip(examples, found, strict=True)]


def load_tasks(folders: Sequence[Path], elmo: Elmo) -> dict[str, Predictor]:
    """Load task models from folders, by name."""
    tasks: dict[str, Predictor] = {}
    for folder in folders:
        trained = open_task(folder, elmo)
        name = trained.task.name
        if name in tasks:
            raise ConfigError(f"{folder}: a second task model named {name!r}")
        tasks[name] = TaskPredictor(KINDS[TASKS[name]], trained)
    return tasks


def read_examples(
    task: Predictor, texts: Sequence[Sequence[Sentence]], pairs: Sequence[Sequence[str]]
) -> list[list[Any]]:
    """The examples of each text (none if it is empty), or one example per pair."""
    if pairs:
        return [
            [task.read_pair(first, second, f"pairs.{number}")]
            for number, (first, second) in enumerate(pairs)
        ]
    return [task.read_text(text) if any(s.tokens for s in text) else [] for text in texts]


def describe_text(kind: Kind, predictions: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """Merge the predictions for the examples of one text."""
    if kind == "labels":
        return {"labels": [label for one in predictions for label in one["labels"]]}
    if kind == "label":
        return {"label": predictions[0]["label"] if predictions else None}
    if kind == "clusters":
        return {"clusters": predictions[0]["clusters"] if predictions else []}
    frames, start = [], 0
    for one in predictions:
        frames += [_shift(frame, start) for frame in one["frames"]]
        start += len(one["tokens"])
    return {"frames": frames}


def describe_pair(prediction: Mapping[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in prediction.items() if name != "id"}


def _shift(frame: Mapping[str, Any], start: int) -> dict[str, Any]:
    """A frame with token positions in the text instead of the sentence."""
    arguments = [
        {
            "role": argument["role"],
            "spans": [[first + start, last + start] for first, last in argument["spans"]],
        }
        for argument in frame["arguments"]
    ]
    return {"predicate": frame["predicate"] + start, "arguments": arguments}
