"""Settings of a pre-training run, one dataclass per group.

In: a TOML file and `--set group.name=value`. Out: a checked `PretrainConfig`. Limits of a run in
time or steps are not settings (see `training.budget`): they may change when a run is resumed.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any, Literal

from annotated_types import Ge, Gt, Lt

from elmo.network.config import BiLMConfig, preset
from elmo.network.softmax import HeadKind
from elmo.pretraining.batches import BackwardOrder, StateReset
from elmo.settings import (
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
from elmo.training.optimizers import Decay

# Adagrad as in the original training; AdamW as measured, see docs/pretraining.md.
OPTIMIZER_DEFAULTS: dict[str, dict[str, Any]] = {
    "adamw": {
        "learning_rate": 4e-3,
        "n_warmup_steps": 200,
        "decay": "cosine",
        "max_grad_norm": 1.0,
        "scales_loss": False,
    },
    "muon": {
        "learning_rate": 8e-3,
        "n_warmup_steps": 200,
        "decay": "cosine",
        "max_grad_norm": 1.0,
        "scales_loss": False,
    },
    "adagrad": {
        "learning_rate": 0.2,
        "n_warmup_steps": 0,
        "decay": "constant",
        "max_grad_norm": 10.0,
        "scales_loss": True,
    },
}


@dataclass(frozen=True, kw_only=True, slots=True)
@checked
class VocabularyConfig:
    """The output vocabulary: the words that the model predicts."""

    max_size: Annotated[
        int | None, Ge(4), "maximum number of words, including the three special ones"
    ] = 50_000
    min_count: Annotated[PositiveInt, "minimum frequency of a word in the training text"] = 3


@dataclass(frozen=True, kw_only=True, slots=True)
@checked
class StreamConfig:
    """Batches: parallel streams of the training text, read in steps of truncated BPTT."""

    batch_size: Annotated[
        PositiveInt, "sequences per step, over all processes", Renamed("n_rows")
    ] = 32
    initial_batch_size: Annotated[
        PositiveInt | None,
        "batch size of the first steps, which is doubled until it is batch_size; none: batch_size "
        "from the start",
    ] = None
    growth_interval: Annotated[PositiveInt, "steps until the batch size is doubled"] = 1000
    bptt_length: Annotated[
        PositiveInt, "tokens per sequence and step (truncated BPTT)", Renamed("n_steps")
    ] = 32
    backward: Annotated[
        BackwardOrder,
        "what the backward model reads. mirrored: the same sentences, each reversed, so that its "
        "state continues over steps; same_rows: the forward model's tokens from right to left",
    ] = "mirrored"
    reset: Annotated[StateReset, "where the LSTM state is reset to zero"] = "sentence"
    seed: Annotated[Seed, "random seed of the order of documents"] = 1

    @property
    def smallest_batch_size(self) -> int:
        """The batch size of the first steps."""
        return self.initial_batch_size or self.batch_size


@dataclass(frozen=True, kw_only=True, slots=True)
@checked
class HeadConfig:
    """The output layer, which predicts words from the top LSTM layer."""

    kind: Annotated[HeadKind, "output layer: sampled softmax, full softmax or adaptive softmax"] = (
        "sampled"
    )
    n_negatives: Annotated[PositiveInt, "negative samples per step of the sampled softmax"] = 2048
    init_bias_from_frequencies: Annotated[
        bool,
        "initialize biases with the log-frequencies of the words",
        Renamed("starts_from_frequencies"),
    ] = True


@dataclass(frozen=True, kw_only=True, slots=True)
@checked
class OptimizerConfig:
    """The optimizer and its learning rate. Unset values have a default for each kind."""

    kind: Annotated[
        Literal["adamw", "muon", "adagrad"],
        "muon: Muon for the matrices of LSTMs, highways and projections, AdamW for the rest; the "
        "paper used adagrad",
    ] = "adamw"
    learning_rate: Annotated[PositiveFloat | None, "peak learning rate"] = None
    n_warmup_steps: Annotated[NonNegativeInt | None, "steps of linear warmup"] = None
    decay: Annotated[Decay | None, "decay of the learning rate to the end of the run"] = None
    max_grad_norm: Annotated[
        PositiveFloat | None, "maximum gradient norm", Renamed("clip_norm")
    ] = None
    scales_loss: Annotated[
        bool | None, "multiply the loss by bptt_length, as the original training did"
    ] = None
    weight_decay: Annotated[Rate, "adamw, muon: weight decay of matrices"] = 0.01
    beta1: Annotated[Rate, "adamw, muon: decay rate of AdamW's first moment"] = 0.9
    beta2: Annotated[Rate, "adamw, muon: decay rate of AdamW's second moment"] = 0.99
    momentum: Annotated[Rate, "muon: decay rate of the momentum"] = 0.95
    muon_every: Annotated[PositiveInt, "muon: steps between two updates of the matrices"] = 1

    def __post_init__(self) -> None:
        """Fill in the defaults of the kind."""
        for name, value in OPTIMIZER_DEFAULTS[self.kind].items():
            if getattr(self, name) is None:
                object.__setattr__(self, name, value)  # the instance is frozen


@dataclass(frozen=True, kw_only=True, slots=True)
@checked
class TrainConfig:
    """The training loop."""

    n_epochs: Annotated[
        PositiveFloat, "passes over the training text; the budget may end a run earlier"
    ] = 10.0
    dropout: Annotated[Rate, "dropout of the inputs of LSTM layers and of the output layer"] = 0.1
    n_accumulate: Annotated[
        PositiveInt, "gradient accumulation: parts of a batch that are run one by one"
    ] = 1
    dtype: Annotated[
        Literal["float32", "bfloat16"],
        "bfloat16: mixed precision; faster on CPUs with AMX or AVX512-BF16, slower on other CPUs",
    ] = "float32"
    ema_decay: Annotated[
        float | None,
        Gt(0),
        Lt(1),
        "decay rate per step of an exponential moving average of the weights, which is evaluated "
        "and saved; none: no average",
    ] = None
    seed: Annotated[Seed, "random seed of initial weights, dropout and negative samples"] = 1
    log_every: Annotated[PositiveInt, "steps between two lines of metrics.jsonl"] = 10
    save_every: Annotated[PositiveInt, "steps between two checkpoints"] = 500
    evaluate_every: Annotated[
        PositiveInt | None,
        "steps between two evaluations; none: half an epoch, but at most 1000 steps",
    ] = None
    n_evaluation_sentences: Annotated[
        PositiveInt, "held-out sentences of an evaluation during training"
    ] = 1000
    patience: Annotated[
        PositiveInt | None,
        "early stopping: evaluations without improvement; the best model is kept",
    ] = None


@dataclass(frozen=True, kw_only=True, slots=True)
@checked
class PretrainConfig:
    """All settings of pre-training and fine-tuning."""

    model: BiLMConfig = field(default_factory=BiLMConfig)
    vocabulary: VocabularyConfig = field(default_factory=VocabularyConfig)
    stream: StreamConfig = field(default_factory=StreamConfig)
    head: HeadConfig = field(default_factory=HeadConfig)
    optimizer: Annotated[OptimizerConfig, Renamed("optimiser")] = field(
        default_factory=OptimizerConfig
    )
    train: TrainConfig = field(default_factory=TrainConfig)

    def __post_init__(self) -> None:
        batch_size, smallest = self.stream.batch_size, self.stream.smallest_batch_size
        problems = []
        if smallest % self.train.n_accumulate:
            problems.append(
                f"the initial batch size is {smallest}, expected a multiple of "
                f"train.n_accumulate ({self.train.n_accumulate})"
            )
        if batch_size / smallest not in (2**k for k in range(32)):
            problems.append(
                f"stream.batch_size is {batch_size}, expected initial_batch_size {smallest} times "
                "a power of two"
            )
        if self.model.lstm.n_layers < 1:
            problems.append("model.lstm.n_layers is 0, expected at least 1 in training")
        raise_problems(self, problems)


def read_config(size: str | None, path: Path | None, sets: Sequence[str]) -> PretrainConfig:
    """Settings of a preset; a TOML file overrides them, and `group.name=value` entries both."""
    return read_over({"model": to_mapping(preset(size or "small"))}, path, sets)


def read_over(start: dict[str, Any], path: Path | None, sets: Sequence[str]) -> PretrainConfig:
    """Settings from nested mappings; a TOML file overrides them, and `group.name=value` both."""
    mapping = {} if path is None else read_toml(path)
    merged = apply_sets(merge(start, mapping), sets)
    return from_mapping(PretrainConfig, merged, str(path or "the settings"))
