"""Train a task: from data files to the folder of a run, which can be stopped and resumed.

In: a task, its settings, the paths of its data, a biLM and word vectors if they are used. Out: the
folder of the run, with its model, and its result.
"""

import warnings
from collections.abc import Hashable, Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import numpy as np
import torch

from elmo.api import Elmo
from elmo.models import ENGLISH, model_folder
from elmo.models.identity import file_hash
from elmo.settings import to_mapping
from elmo.tasks.config import TaskConfig
from elmo.tasks.inputs import TokenVectors
from elmo.tasks.layer_cache import LayerSource
from elmo.tasks.learner import TaskLearner
from elmo.tasks.saved import BILM, TrainedTask
from elmo.tasks.task import AnyTask
from elmo.tasks.word_table import WordTable
from elmo.training.budget import Budget
from elmo.training.distributed import Processes, one_process
from elmo.training.loop import TrainingLoop
from elmo.training.run_folder import RunFolder
from elmo.vectors.static import StaticVectors


def train_task(
    task: AnyTask,
    config: TaskConfig,
    train: Path,
    dev: Path,
    out: Path,
    *,
    bilm: Path | None = None,
    static: Path | None = None,
    cache: Path | None = None,
    bundle: bool = False,
    budget: Budget | None = None,
    processes: Processes | None = None,
) -> dict[str, Any] | None:
    """Train a task model, or resume the run in `out`; return its result, or None if it was stopped.

    `bilm` is used if the settings have ELMo; None: the English model. `static` is a file of word
    vectors, used if the settings have words; None: random vectors, which are trained. `cache` is
    the folder of the biLM's cached layers, to share them between runs; `bundle` saves the biLM with
    the model.
    """
    processes = processes or one_process()
    examples = {
        "train": task.read(train, config, is_training=True),
        "dev": task.read(dev, config, is_training=False),
    }
    task.check_scorable(examples["dev"])
    vectors = None if static is None else StaticVectors.read(static)
    source = None
    if config.elmo is not None:
        opened = Elmo.load() if bilm is None else Elmo.load(bilm)
        source = LayerSource(opened, config.elmo, cache or out / "cache")
    run = RunFolder(out)
    identity: dict[str, Any] = {"task": task.name, "config": to_mapping(config)}
    for name, path in (("train", train), ("dev", dev), ("static", static)):
        identity[f"{name}_sha256"] = None if path is None else file_hash(path)
    identity["bilm_sha256"] = None if source is None else source.bilm_sha256
    with run.claim(identity, type(config)) if processes.is_first else nullcontext():
        if config.words is not None and static is None and processes.is_first:
            warnings.warn(
                "no word vectors (--glove): random ones are trained, which costs accuracy",
                stacklevel=2,
            )
        groups = [task.sampling_group(example) for example in examples["train"]]
        numbers = draw_fraction(groups, config.train.train_fraction, config.train.seed)
        learned = [examples["train"][k] for k in numbers]
        trained = build_trained(task, config, learned, source, vectors)
        trained.model.to(processes.device)
        if source is not None:
            with processes.first_before_others():
                _cache_layers(source, task, examples["train"], learned)
                _cache_layers(source, task, examples["dev"], examples["dev"])
        bilm_path = None if source is None else _bilm_path(bilm)
        learner = TaskLearner(trained, learned, examples["dev"], bilm_path, processes)
        result = TrainingLoop(learner, run, budget or Budget(), processes).fit()
        is_bundled = bundle and config.fine_tune is None  # a tuned biLM is saved with the model
        if result is not None and is_bundled and source is not None and processes.is_first:
            model_folder.save(run.model / BILM, source.elmo.model)
        return result


def build_trained(
    task: AnyTask,
    config: TaskConfig,
    examples: list[Any],
    source: LayerSource | None,
    static: StaticVectors | None = None,
) -> TrainedTask:
    """An untrained task model; it depends on its training examples and its seed."""
    torch.manual_seed(config.train.seed)
    words = None
    if config.words is not None:
        sentences = (tokens for example in examples for tokens in task.sentences(example))
        words = WordTable.build(config.words, sentences, static)
    vocabularies = task.vocabularies(examples, config)
    model = task.build(config, TokenVectors(config, words, source), vocabularies)
    if config.fine_tune is not None:
        model.tokens.add_bilm()
    return TrainedTask(task, config, vocabularies, model)


def draw_fraction(groups: Sequence[Hashable], fraction: float, seed: int) -> list[int]:
    """Indices of the examples in a random fraction of the groups, at least one group."""
    distinct = list(dict.fromkeys(groups))
    n_drawn = max(1, round(fraction * len(distinct)))
    drawn = np.random.default_rng((seed, 0)).permutation(len(distinct))[:n_drawn].tolist()
    kept = {distinct[k] for k in drawn}
    return [number for number, group in enumerate(groups) if group in kept]


def _cache_layers(
    source: LayerSource, task: AnyTask, examples: list[Any], needed: list[Any]
) -> None:
    """Cache the layers of the needed sentences; use the file of all sentences if it exists."""
    all_sentences = [tokens for example in examples for tokens in task.sentences(example)]
    if source.has(all_sentences):
        source.cache(all_sentences)
    else:
        source.cache(tokens for example in needed for tokens in task.sentences(example))


def _bilm_path(bilm: Path | None) -> str:
    """Where to find the biLM again: the name of a packaged model, or an absolute path."""
    if bilm is None or not bilm.exists():
        return str(bilm or ENGLISH)
    return str(bilm.resolve())
