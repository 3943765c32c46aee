"""This package's pre-training as a worker: `python elmo_trainer.py CACHE SETTING...`.

CACHE is a folder that `build_cache` has written; SETTINGs are those of `elmo pretrain --set`.
"""

import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from protocol import peak_bytes, resident_bytes, serve

from elmo.models.model_folder import Model
from elmo.network import kernels
from elmo.network.bilm import BiLM
from elmo.network.softmax import build_head
from elmo.pretraining.config import read_config
from elmo.pretraining.corpus import TokenCache
from elmo.pretraining.learner import PretrainLearner, Texts
from elmo.training.distributed import Processes

kernels.keep_freed_memory()
config = read_config("small", None, sys.argv[2:])
cache = TokenCache(Path(sys.argv[1]))
vocabulary = cache.vocabulary(config.vocabulary.max_size, config.vocabulary.min_count)
head = build_head(
    "sampled", len(vocabulary), config.model.lstm.projection_dim, config.head.n_negatives
)
model = Model(BiLM(config.model), head, vocabulary)
learner = PretrainLearner(model, Texts(cache, cache), config, Processes(0, 1, torch.device("cpu")))
seconds_by_part: dict[str, float] = {}
n_done = 0


def watch(owner: object, method: str, part: str) -> None:
    """Accumulate the time spent in a method of an object."""
    inner: Callable[..., Any] = getattr(owner, method)

    def timed(*positional: object, **named: object) -> object:
        started_at = time.perf_counter()
        result = inner(*positional, **named)
        spent = time.perf_counter() - started_at
        seconds_by_part[part] = seconds_by_part.get(part, 0.0) + spent
        return result

    setattr(owner, method, timed)


watch(learner.streams, "batch", "data")
watch(model.bilm, "token_vectors", "characters, forward")
watch(model.bilm, "run", "LSTMs, forward")
watch(head, "loss", "head, forward and backward")
watch(learner._optimizer, "step", "optimizer")


def train(n_steps: int) -> dict[str, Any]:
    """Train `n_steps` steps; return tokens per second, and seconds of each part of a step."""
    global n_done
    seconds_by_part.clear()
    started_at = time.perf_counter()
    for _ in range(n_steps):
        assert config.optimizer.learning_rate is not None
        learner.step(n_done, config.optimizer.learning_rate)
        n_done += 1
    seconds = time.perf_counter() - started_at
    n_tokens = n_steps * learner.streams.batch_size * learner.streams.bptt_length
    parts = {part: spent / n_steps for part, spent in seconds_by_part.items()}
    return {"rate": n_tokens / seconds, "step": seconds / n_steps, "parts": parts}


def train_and_weigh(n_moments: int, n_steps: int) -> dict[str, Any]:
    """Memory of the process after every `n_steps` steps, and its peak."""
    sizes = []
    for _ in range(n_moments):
        train(n_steps)
        sizes.append(resident_bytes())
    return {"bytes": sizes, "peak": peak_bytes()}


serve({"train": train, "train_and_weigh": train_and_weigh})
