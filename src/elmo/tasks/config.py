"""Settings that all tasks share: words, characters, ELMo, optimiser, the loop.

In: a task's own defaults, a TOML file and `--set group.name=value` over them. Out: a checked config
of the task's kind, which is a subclass of `TaskConfig` with the groups that are its own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Literal, TypeVar

from elmo.settings import (
    apply_sets,
    from_mapping,
    merge,
    not_positive,
    raise_problems,
    read_toml,
    to_mapping,
)

Layers = Literal["all", "top", 0, 1, 2, 3, 4]
Direction = Literal["both", "forward", "backward"]
Place = Literal["input", "output", "both"]


@dataclass(frozen=True, kw_only=True, slots=True)
class WordsConfig:
    """The vector x of each word by itself: from a file of vectors (--glove), or random."""

    dim: Annotated[int, "width, where no file says it"] = 100
    is_trained: Annotated[bool, "the vectors of the training words learn with the task"] = True
    is_lowercased: Annotated[bool, "words are looked up in lower case, as GloVe's 6B has them"] = (
        True
    )
    min_count: Annotated[int, "how often a word without a given vector must have come"] = 2
    max_words: Annotated[int | None, "of the file of vectors, its first"] = 200_000
    dropout: Annotated[float, "of the words' vectors"] = 0.0

    def __post_init__(self) -> None:
        """Check the numbers."""
        names = ("dim", "min_count", "max_words")
        raise_problems(self, not_positive(self, *names) + not_shares(self, "dropout"))


@dataclass(frozen=True, kw_only=True, slots=True)
class CharsConfig:
    """A character CNN of the task's own."""

    char_dim: Annotated[int, "width of a character's vector"] = 16
    filters: Annotated[tuple[tuple[int, int], ...], "[width, number] of each convolution"] = (
        (3, 128),
    )
    max_characters: Annotated[int, "bytes of a word that are read, its two markers included"] = 30
    dropout: Annotated[float, "of the words' vectors"] = 0.0

    def __post_init__(self) -> None:
        """Check the numbers."""
        raise_problems(
            self, not_positive(self, "char_dim", "max_characters") + not_shares(self, "dropout")
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class ElmoConfig:
    """What the task takes of a frozen biLM, and where."""

    place: Annotated[Place, "beside the input words, beside the task RNN's output, or both"] = (
        "input"
    )
    layers: Annotated[Layers, "all: a learned mix of them"] = "all"
    penalty: Annotated[float, "lambda: pulls the mix towards the mean of the layers"] = 0.001
    gamma: Annotated[float, "factor of the mix at first"] = 1.0
    has_gamma: Annotated[bool, "the factor is learned; without, it stays as it is"] = True
    direction: Annotated[Direction, "both halves of a vector, or one language model's"] = "both"
    dropout: Annotated[float, "of the mixed vectors"] = 0.5
    state: Annotated[
        Literal["fresh", "warm", "carry"], "what each sentence starts from, as in Elmo.embed"
    ] = "fresh"

    def __post_init__(self) -> None:
        """Check the numbers."""
        negative = [f"penalty is {self.penalty}, expected >= 0"] if self.penalty < 0 else []
        problems = negative + not_positive(self, "gamma") + not_shares(self, "dropout")
        raise_problems(self, problems)


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimiserConfig:
    """How weights change."""

    kind: Annotated[Literal["adam", "adadelta"], "by what rule"] = "adam"
    learning_rate: Annotated[float, "at its highest"] = 1e-3
    beta1: Annotated[float, "adam: memory of the gradient"] = 0.9
    beta2: Annotated[float, "adam: memory of its square; adadelta: rho"] = 0.999
    clip_norm: Annotated[float | None, "joint length of all gradients at most"] = 5.0
    halve_after: Annotated[
        int | None, "epochs without a better dev score until the rate is halved"
    ] = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        raise_problems(
            self,
            not_positive(self, "learning_rate", "clip_norm", "halve_after")
            + not_shares(self, "beta1", "beta2"),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainConfig:
    """The loop."""

    n_epochs: Annotated[int, "at most"] = 75
    patience: Annotated[int | None, "epochs without a better dev score until the end"] = 10
    batch_size: Annotated[int, "examples of a step"] = 32
    share: Annotated[float, "of the training examples that is used, drawn by the seed"] = 1.0
    seed: Annotated[int, "of start values, order, dropout and the share"] = 1
    log_every: Annotated[int, "steps between two lines of metrics.jsonl"] = 10
    save_every: Annotated[int, "steps between two checkpoints at most"] = 500

    def __post_init__(self) -> None:
        """Check the numbers."""
        too_much = [f"share is {self.share}, expected at most 1"] if self.share > 1 else []
        names = ("n_epochs", "patience", "batch_size", "share", "log_every", "save_every")
        raise_problems(self, not_positive(self, *names) + too_much)


@dataclass(frozen=True, kw_only=True, slots=True)
class TaskConfig:
    """All settings of a task; a task's own kind adds groups, and overrides defaults."""

    words: Annotated[WordsConfig | None, "absent: no vectors of words by themselves"] = field(
        default_factory=WordsConfig
    )
    chars: Annotated[CharsConfig | None, "absent: no character CNN but ELMo's"] = None
    elmo: Annotated[ElmoConfig | None, "absent: the baseline"] = field(default_factory=ElmoConfig)
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    train: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self) -> None:
        """Check that something reads the words at the input."""
        reads_input = self.elmo is not None and self.elmo.place != "output"
        if self.words is None and self.chars is None and not reads_input:
            raise_problems(self, ["words, chars and ELMo at the input are all absent: give one"])


Config = TypeVar("Config", bound=TaskConfig)


def read_config(
    defaults: Config, path: Path | None, sets: Sequence[str], *, has_elmo: bool = True
) -> Config:
    """A task's defaults, what a TOML file says over them, and `group.name=value` over both."""
    start = defaults if has_elmo else replace(defaults, elmo=None)
    mapping = {} if path is None else read_toml(path)
    if not has_elmo:  # one settings file serves the baseline too
        mapping.pop("elmo", None)
    merged = apply_sets(merge(to_mapping(start), mapping), sets)
    return from_mapping(type(defaults), merged, str(path or "the settings"))


def not_shares(settings: object, *names: str) -> list[str]:
    """A problem for each named field that is not from 0 to below 1."""
    return [
        f"{name} is {getattr(settings, name)}, expected 0 to below 1"
        for name in names
        if not 0 <= getattr(settings, name) < 1
    ]
