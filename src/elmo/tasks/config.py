"""Settings that all tasks share: words, characters, ELMo, optimizer and the training loop.

In: a task's defaults, overridden by a TOML file and by `--set group.name=value`. Out: a checked
config of the task's kind, a subclass of `TaskConfig` with additional groups.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, Literal, TypeVar

from elmo.settings import (
    Dim,
    Filters,
    Fraction,
    NonNegativeFloat,
    NonNegativeInt,
    PositiveFloat,
    PositiveInt,
    Rate,
    Renamed,
    Seed,
    apply_sets,
    checked,
    from_mapping,
    merge,
    raise_problems,
    read_toml,
    to_mapping,
)

Layers = Literal["all", "top", 0, 1, 2, 3, 4]
Direction = Literal["both", "forward", "backward"]
Place = Literal["input", "output", "both"]

# Adadelta as in He et al. (2017); its steps have the scale of the weights, so its rate is 1.
OPTIMIZER_DEFAULTS = {
    "adam": {"learning_rate": 1e-3, "beta2": 0.999},
    "adadelta": {"learning_rate": 1.0, "beta2": 0.95},
}


@dataclass(frozen=True, kw_only=True, slots=True)
@checked
class WordsConfig:
    """Static word vectors: from a file (--glove), or random ones."""

    dim: Annotated[Dim, "size of a word vector, if there is no file"] = 100
    is_trained: Annotated[
        bool,
        "fine-tune the file's vectors of the training words; random vectors are always trained",
    ] = True
    is_lowercased: Annotated[bool, "look up words in lower case, as in GloVe 6B"] = True
    min_count: Annotated[
        PositiveInt, "minimum frequency of a training word that is not in the file"
    ] = 2
    max_words: Annotated[PositiveInt | None, "vectors to read, from the file's start"] = 200_000
    dropout: Annotated[Rate, "dropout of the word vectors"] = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
@checked
class CharsConfig:
    """A character CNN of the task model, trained with it."""

    char_dim: Annotated[Dim, "size of a character embedding"] = 16
    filters: Annotated[Filters, "[width, number of filters] of each convolution"] = ((3, 128),)
    max_characters: Annotated[
        PositiveInt, "maximum bytes per word, including the two word markers"
    ] = 30
    dropout: Annotated[Rate, "dropout of the output vectors"] = 0.0


@dataclass(frozen=True, kw_only=True, slots=True)
@checked
class ElmoConfig:
    """ELMo vectors of a frozen biLM as features of the task model."""

    place: Annotated[
        Place, "concatenate with the input words, with the output of the task's RNN, or both"
    ] = "input"
    layers: Annotated[Layers, "biLM layers to use; all: a learned weighted sum"] = "all"
    penalty: Annotated[NonNegativeFloat, "lambda: L2 penalty on the layer weights"] = 0.001
    gamma: Annotated[PositiveFloat, "initial scale of the weighted sum"] = 1.0
    has_gamma: Annotated[bool, "learn the scale; otherwise it is fixed"] = True
    direction: Annotated[Direction, "use both directions of the biLM, or one"] = "both"
    dropout: Annotated[Rate, "dropout of the ELMo vectors"] = 0.5
    # `carry` is excluded: the cached layers of a sentence must depend on the sentence alone.
    state: Annotated[
        Literal["fresh", "warm"], "initial LSTM state of a sentence, as in Elmo.embed"
    ] = "fresh"


@dataclass(frozen=True, kw_only=True, slots=True)
@checked
class OptimizerConfig:
    """The optimizer and its learning rate. Unset values have a default for each kind."""

    kind: Annotated[Literal["adam", "adadelta"], "optimization algorithm"] = "adam"
    learning_rate: Annotated[PositiveFloat | None, "initial learning rate"] = None
    beta1: Annotated[Rate, "adam: decay rate of the first moment"] = 0.9
    beta2: Annotated[Rate | None, "adam: decay rate of the second moment; adadelta: rho"] = None
    max_grad_norm: Annotated[
        PositiveFloat | None, "maximum gradient norm", Renamed("clip_norm")
    ] = 5.0
    lr_plateau_patience: Annotated[
        PositiveInt | None,
        "halve the learning rate after this many evaluations without improvement on dev data",
        Renamed("halve_after"),
    ] = None

    def __post_init__(self) -> None:
        """Fill in the defaults of the kind."""
        for name, value in OPTIMIZER_DEFAULTS[self.kind].items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)  # the instance is frozen


@dataclass(frozen=True, kw_only=True, slots=True)
@checked
class TrainConfig:
    """The training loop."""

    n_epochs: Annotated[PositiveInt, "maximum number of epochs"] = 75
    patience: Annotated[
        PositiveInt | None, "early stopping: evaluations without improvement on dev data"
    ] = 10
    evaluate_every: Annotated[PositiveInt, "epochs between two evaluations on dev data"] = 1
    batch_size: Annotated[PositiveInt, "examples per step"] = 32
    train_fraction: Annotated[
        Fraction, "fraction of the training examples to use, sampled by the seed", Renamed("share")
    ] = 1.0
    ema_decay: Annotated[
        Rate | None,
        "decay rate per step of an exponential moving average of the weights, "
        "which is evaluated and saved; none: no average",
    ] = None
    seed: Annotated[Seed, "random seed of initial weights, order, dropout and sampling"] = 1
    log_every: Annotated[PositiveInt, "steps between two lines of metrics.jsonl"] = 10
    save_every: Annotated[PositiveInt, "maximum steps between two checkpoints"] = 500


@dataclass(frozen=True, kw_only=True, slots=True)
@checked
class FineTuneConfig:
    """Training of the biLM with the task model (--fine-tune)."""

    learning_rate: Annotated[PositiveFloat, "initial learning rate of the biLM"] = 1e-4
    n_frozen_epochs: Annotated[NonNegativeInt, "epochs in which only the task model is trained"] = 1


@dataclass(frozen=True, kw_only=True, slots=True)
@checked
class TaskConfig:
    """All settings of a task; each task's subclass adds groups and overrides defaults."""

    words: Annotated[WordsConfig | None, "none: no static word vectors"] = field(
        default_factory=WordsConfig
    )
    chars: Annotated[CharsConfig | None, "none: no character CNN"] = None
    elmo: Annotated[ElmoConfig | None, "none: the baseline without ELMo"] = field(
        default_factory=ElmoConfig
    )
    optimizer: Annotated[OptimizerConfig, Renamed("optimiser")] = field(
        default_factory=OptimizerConfig
    )
    train: TrainConfig = field(default_factory=TrainConfig)
    fine_tune: Annotated[FineTuneConfig | None, "none: the biLM is frozen"] = None

    def __post_init__(self) -> None:
        problems = []
        reads_input = self.elmo is not None and self.elmo.place != "output"
        if self.words is None and self.chars is None and not reads_input:
            problems.append(
                "words, chars and ELMo at the input are all absent, expected at least one"
            )
        if self.fine_tune is not None and self.elmo is None:
            problems.append("fine_tune is given without elmo, expected both")
        elif self.fine_tune is not None and self.elmo is not None and self.elmo.state != "fresh":
            problems.append(f"elmo.state is {self.elmo.state}, expected fresh with fine_tune")
        raise_problems(self, problems)


Config = TypeVar("Config", bound=TaskConfig)


def read_config(
    defaults: Config,
    path: Path | None,
    sets: Sequence[str],
    *,
    has_elmo: bool = True,
    is_fine_tuned: bool = False,
) -> Config:
    """Settings of a task; a TOML file overrides its defaults, and `group.name=value` both."""
    start = defaults if has_elmo else replace(defaults, elmo=None)
    start = replace(start, fine_tune=FineTuneConfig()) if is_fine_tuned else start
    mapping = {} if path is None else read_toml(path)
    if not has_elmo:  # a settings file may serve the baseline too
        mapping.pop("elmo", None)
        mapping.pop("fine_tune", None)

    def read_over(below: dict[str, Any]) -> Config:
        merged = apply_sets(merge(below, mapping), sets)
        return from_mapping(type(defaults), merged, str(path or "the settings"))

    below = to_mapping(start)
    config = read_over(below)
    if config.optimizer.kind == start.optimizer.kind:
        return config
    for name in OPTIMIZER_DEFAULTS[start.optimizer.kind]:
        del below["optimizer"][name]  # the task's default is for its own kind of optimizer
    return read_over(below)
