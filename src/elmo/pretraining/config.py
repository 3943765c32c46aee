"""Settings of a training run as frozen dataclasses, one group a concern.

In: a TOML file and `--set group.name=value`, read by `config.from_mapping`. Out: a checked
`PretrainConfig`. What bounds a run in time (minutes, steps) is not a setting but a wish of the
moment: it may change from start to start of the same run.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from elmo.network.config import BiLMConfig, preset
from elmo.network.softmax import HeadKind
from elmo.pretraining.batches import BackwardReading, StateReset
from elmo.settings import (
    apply_sets,
    from_mapping,
    merge,
    not_positive,
    raise_problems,
    read_toml,
    to_mapping,
)
from elmo.training.optimizers import Decay

# Adagrad as the original training used it; AdamW as measured, see docs/pretraining.md.
OPTIMISER_DEFAULTS: dict[str, dict[str, Any]] = {
    "adamw": {
        "learning_rate": 4e-3,
        "n_warmup_steps": 200,
        "decay": "cosine",
        "clip_norm": 1.0,
        "scales_loss": False,
    },
    "muon": {
        "learning_rate": 8e-3,
        "n_warmup_steps": 200,
        "decay": "cosine",
        "clip_norm": 1.0,
        "scales_loss": False,
    },
    "adagrad": {
        "learning_rate": 0.2,
        "n_warmup_steps": 0,
        "decay": "constant",
        "clip_norm": 10.0,
        "scales_loss": True,
    },
}


@dataclass(frozen=True, kw_only=True, slots=True)
class VocabularyConfig:
    """Which words can be predicted."""

    max_size: Annotated[int | None, "output words at most, the three reserved ones included"] = (
        50_000
    )
    min_count: Annotated[int, "how often a word must have come"] = 3

    def __post_init__(self) -> None:
        """Check the numbers."""
        raise_problems(self, not_positive(self, "max_size", "min_count"))


@dataclass(frozen=True, kw_only=True, slots=True)
class StreamConfig:
    """How the corpus is cut into batches."""

    n_rows: Annotated[int, "rows of a step, of all processes together"] = 32
    n_steps: Annotated[int, "tokens of a row in a step; gradients are cut at its end"] = 32
    backward: Annotated[BackwardReading, "how the backward model reads"] = "mirrored"
    reset: Annotated[StateReset, "where a row's state starts from zero"] = "sentence"
    seed: Annotated[int, "of the documents' order"] = 1

    def __post_init__(self) -> None:
        """Check the numbers."""
        raise_problems(self, not_positive(self, "n_rows", "n_steps"))


@dataclass(frozen=True, kw_only=True, slots=True)
class HeadConfig:
    """From the top layer to words."""

    kind: Annotated[HeadKind, "how all words' probabilities are trained"] = "sampled"
    n_negatives: Annotated[int, "words drawn for a step of the sampled softmax"] = 2048
    starts_from_frequencies: Annotated[bool, "biases start at the words' log-frequencies"] = True

    def __post_init__(self) -> None:
        """Check the numbers."""
        raise_problems(self, not_positive(self, "n_negatives"))


@dataclass(frozen=True, kw_only=True, slots=True)
class OptimiserConfig:
    """How weights change. A setting that is absent takes the value that fits the optimiser."""

    kind: Annotated[
        Literal["adamw", "muon", "adagrad"],
        "muon: AdamW, but Muon for the matrices of LSTMs, highways and projections; "
        "adagrad is the paper's",
    ] = "adamw"
    learning_rate: Annotated[float | None, "at its highest"] = None
    n_warmup_steps: Annotated[int | None, "in which the rate rises from zero"] = None
    decay: Annotated[Decay | None, "how the rate falls to zero at the run's end"] = None
    clip_norm: Annotated[float | None, "joint length of all gradients at most"] = None
    scales_loss: Annotated[bool | None, "gradients are of loss * n_steps, as the original's"] = None
    weight_decay: Annotated[float, "adamw, muon: of matrices"] = 0.01
    beta1: Annotated[float, "adamw: memory of the gradient"] = 0.9
    beta2: Annotated[float, "adamw: memory of its square"] = 0.99
    momentum: Annotated[float, "muon: memory of the gradient"] = 0.95
    muon_every: Annotated[int, "muon: steps between two updates of the matrices"] = 1

    def __post_init__(self) -> None:
        """Fill in what is absent, then check the numbers."""
        for name, value in OPTIMISER_DEFAULTS[self.kind].items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)  # the one moment a frozen value is made
        raise_problems(
            self,
            not_positive(self, "learning_rate", "clip_norm", "muon_every")
            + [
                f"{name} is {getattr(self, name)}, expected 0 to below 1"
                for name in ("beta1", "beta2", "momentum", "weight_decay")
                if not 0 <= getattr(self, name) < 1
            ],
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class TrainConfig:
    """The loop."""

    n_epochs: Annotated[float, "how often the corpus is read, unless the run is bounded"] = 10.0
    dropout: Annotated[float, "of the inputs of layers and of the head"] = 0.1
    n_accumulate: Annotated[int, "parts a step's rows are run in, to save memory"] = 1
    dtype: Annotated[
        Literal["float32", "bfloat16"],
        "of products; weights, sums and all else are float32. bfloat16 is about twice as fast "
        "where the processor multiplies in it, and slow where it does not",
    ] = "float32"
    ema_decay: Annotated[
        float | None,
        "a step's decay of the weights' moving averages, which are then measured and saved; "
        "absent: the weights themselves are",
    ] = None
    seed: Annotated[int, "of start values, dropout and negatives"] = 1
    log_every: Annotated[int, "steps between two lines of metrics.jsonl"] = 10
    save_every: Annotated[int, "steps between two checkpoints"] = 500
    evaluate_every: Annotated[
        int | None, "steps between two measurements; absent: twice an epoch, or every 1000"
    ] = None
    n_evaluation_sentences: Annotated[int, "of the held-out text, during training"] = 1000
    patience: Annotated[
        int | None, "measurements without a better one until the end; the best model is kept"
    ] = None

    def __post_init__(self) -> None:
        """Check the numbers."""
        names = ("n_epochs", "n_accumulate", "log_every", "save_every", "evaluate_every")
        raise_problems(
            self,
            not_positive(self, *names, "n_evaluation_sentences", "patience")
            + ([] if 0 <= self.dropout < 1 else [f"dropout is {self.dropout}, expected 0 to 1"])
            + (
                []
                if self.ema_decay is None or 0 < self.ema_decay < 1
                else [f"ema_decay is {self.ema_decay}, expected 0 to 1"]
            ),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class PretrainConfig:
    """All of it."""

    model: BiLMConfig = field(default_factory=BiLMConfig)
    vocabulary: VocabularyConfig = field(default_factory=VocabularyConfig)
    stream: StreamConfig = field(default_factory=StreamConfig)
    head: HeadConfig = field(default_factory=HeadConfig)
    optimiser: OptimiserConfig = field(default_factory=OptimiserConfig)
    train: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self) -> None:
        """Check what spans two groups."""
        n_rows, n_parts = self.stream.n_rows, self.train.n_accumulate
        problems = []
        if n_rows % n_parts:
            problems.append(
                f"stream.n_rows {n_rows} is no multiple of train.n_accumulate {n_parts}"
            )
        if self.model.lstm.n_layers < 1:
            problems.append("model.lstm.n_layers is 0, expected at least 1 to be trained")
        raise_problems(self, problems)


def read_config(size: str | None, path: Path | None, sets: Sequence[str]) -> PretrainConfig:
    """Settings of a network of some size, what a TOML file and `group.name=value` say over it."""
    return read_over({"model": to_mapping(preset(size or "small"))}, path, sets)


def read_over(start: dict[str, Any], path: Path | None, sets: Sequence[str]) -> PretrainConfig:
    """Settings from nested mappings, a TOML file over them, and `group.name=value` over both."""
    mapping = {} if path is None else read_toml(path)
    merged = apply_sets(merge(start, mapping), sets)
    return from_mapping(PretrainConfig, merged, str(path or "the settings"))
