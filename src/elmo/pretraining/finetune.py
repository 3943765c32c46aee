"""Fine-tuning: continue to train a model on text of another domain.

In: any model, ours or official, texts, settings, an output folder. Out: the folder of the run, with
the model that was best on the held-out text, and its perplexity before and after. A model without a
head first gets one for the words of the text, which is trained while the biLM is frozen.
"""

import dataclasses
import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from elmo.errors import ConfigError
from elmo.files.atomic import write_json
from elmo.models import model_folder
from elmo.models.identity import model_hash
from elmo.models.model_folder import Model
from elmo.network.softmax import build_head
from elmo.pretraining.batches import InputOutputEncoder
from elmo.pretraining.config import PretrainConfig, read_over
from elmo.pretraining.learner import Texts
from elmo.pretraining.perplexity import Perplexity, measure, sample_sentences
from elmo.pretraining.pretrain import add_head, fit
from elmo.settings import apply_sets, merge, read_toml, to_mapping
from elmo.training.budget import Budget
from elmo.training.distributed import Processes
from elmo.training.run_folder import RunFolder

# Fewer epochs than pre-training; small texts soon overfit.
DEFAULTS: Mapping[str, Any] = {
    "vocabulary": {"min_count": 1},
    "stream": {"bptt_length": 20},
    "optimizer": {"n_warmup_steps": 20},
    "train": {"n_epochs": 5.0, "patience": 3},
}
BEFORE = "before.json"  # the perplexity before the whole model is trained
# By kind of optimizer; an eighth of the learning rates of pre-training.
LEARNING_RATES = {"adamw": 5e-4, "muon": 1e-3, "adagrad": 0.025}
# Learning rates of a new head, which starts from random weights. They are not a setting:
# optimizer.learning_rate is for the trained weights, and would be too low.
HEAD_LEARNING_RATES = {"adamw": 5e-3, "muon": 5e-3, "adagrad": 0.2}


def read_finetune_config(
    start: Model, path: Path | None = None, sets: Sequence[str] = ()
) -> PretrainConfig:
    """Settings to fine-tune a model; a TOML file overrides the defaults, and `sets` both.

    A setting that has no effect on this model raises a ConfigError.
    """
    kind = read_over(dict(DEFAULTS), path, sets).optimizer.kind
    defaults = merge(dict(DEFAULTS), {"optimizer": {"learning_rate": LEARNING_RATES[kind]}})
    config = dataclasses.replace(read_over(defaults, path, sets), model=start.bilm.config)
    _refuse_unused(start, config, apply_sets({} if path is None else read_toml(path), sets))
    return config


def _refuse_unused(start: Model, config: PretrainConfig, given: Mapping[str, Any]) -> None:
    """Refuse settings that were given but that the model has already decided."""
    reasons = {"model": "the network is that of the model"}
    if start.head is not None:
        words = "the model has a softmax with its own vocabulary"
        reasons |= {"vocabulary": words, "head.init_bias_from_frequencies": words}
        if (start.head.kind == "adaptive") != (config.head.kind == "adaptive"):
            kind = start.head.kind
            expected = "adaptive" if kind == "adaptive" else "sampled or full"
            reasons["head.kind"] = f"the softmax of the model is {kind}, expected {expected}"
    problems = [
        f"{name} is {value!r}, but {reason}"
        for name, value in _flatten(given)
        for setting, reason in reasons.items()
        if f"{name}.".startswith(f"{setting}.")
    ]
    if problems:
        raise ConfigError(f"{'; '.join(problems)}; leave this out")


def _flatten(given: Mapping[str, Any], prefix: str = "") -> Iterator[tuple[str, Any]]:
    """Each setting with its full name, such as `train.seed`."""
    for name, value in given.items():
        if isinstance(value, Mapping):
            yield from _flatten(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


@dataclass(frozen=True)
class Finetuned:
    """The perplexity of all held-out text, before and after fine-tuning."""

    before: Perplexity
    after: Perplexity


def finetune_model(
    start: Model,
    config: PretrainConfig,
    texts: Texts,
    out: Path,
    budget: Budget,
    processes: Processes,
) -> Finetuned | None:
    """Fine-tune a model on a text, or resume the run in `out`; None if the run was stopped.

    The budget applies to each phase: the head alone, then the whole model.
    """
    start.refuse_alignment("fine-tuning")
    run = RunFolder(out)
    identity = {
        "config": to_mapping(config),
        "start_sha256": model_hash(start.bilm, start.head, start.vocabulary),
        "train_sha256": texts.train.counts.sha256,
        "heldout_sha256": texts.heldout.counts.sha256,
    }
    with run.claim(identity, PretrainConfig) if processes.is_first else nullcontext():
        if start.head is None:
            head_run = RunFolder(out / "head")
            if processes.is_first:  # others may get here before `out` is claimed
                head_run.path.mkdir(exist_ok=True)
            # Once the whole model is trained, more training of the head alone would be lost.
            is_trained = processes.broadcast((out / BEFORE).exists())
            if (
                not is_trained
                and _train_head(start, texts, config, head_run, budget, processes) is None
            ):
                return None
            start = model_folder.load(head_run.model)
        with processes.first_before_others():
            before = _measure_once(start, texts, out / BEFORE)
        tuned = _with_trained_kind(start, config)
        after = fit(tuned, texts, config, run, budget, processes)
        return None if after is None else Finetuned(before, after)


def _train_head(
    start: Model,
    texts: Texts,
    config: PretrainConfig,
    run: RunFolder,
    budget: Budget,
    processes: Processes,
) -> Perplexity | None:
    """Add a head to a model and train it alone."""
    learning_rate = HEAD_LEARNING_RATES[config.optimizer.kind]
    optimizer = dataclasses.replace(config.optimizer, learning_rate=learning_rate)
    start.bilm.requires_grad_(False)
    torch.manual_seed(config.train.seed)
    model = add_head(start.bilm, texts, config)
    config = dataclasses.replace(config, optimizer=optimizer)
    return fit(model, texts, config, run, budget, processes)


def _with_trained_kind(start: Model, config: PretrainConfig) -> Model:
    """Switch to the full or sampled softmax of the settings; both have the same weights."""
    assert start.head is not None
    assert start.vocabulary is not None
    if start.head.kind == "adaptive":
        return start
    projection_dim = start.bilm.config.lstm.projection_dim
    n_words = len(start.vocabulary)
    head = build_head(config.head.kind, n_words, projection_dim, config.head.n_negatives)
    head.load_state_dict(start.head.state_dict())
    return Model(start.bilm, head, start.vocabulary)


def _measure_once(model: Model, texts: Texts, path: Path) -> Perplexity:
    """The perplexity of a model before fine-tuning; a resumed run reads it from a file."""
    if path.exists():
        return Perplexity(**json.loads(path.read_text()))
    assert model.head is not None
    sentences = sample_sentences(texts.heldout, None)
    perplexity = measure(model.bilm, model.head, InputOutputEncoder.of(model), sentences)
    write_json(path, dataclasses.asdict(perplexity))
    return perplexity
