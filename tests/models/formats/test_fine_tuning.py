"""Models with any kind of word encoding are fine-tuned on a text like byte models."""

import dataclasses
from pathlib import Path

import pytest
import torch

from elmo.errors import ConfigError
from elmo.models import formats
from elmo.pretraining.config import PretrainConfig, read_over
from elmo.pretraining.corpus import build_cache
from elmo.pretraining.finetune import DEFAULTS, finetune_model
from elmo.pretraining.learner import Texts
from elmo.training.budget import Budget
from elmo.training.distributed import Processes
from tests.models.formats.many_langs_models import write_model

TRAINED = Path(__file__).parent / "bilm-training"
SETTINGS = [
    "stream.batch_size=4",
    "stream.bptt_length=8",
    "head.n_negatives=4",
    "train.log_every=5",
]


@pytest.fixture
def texts(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("he took a bow and left .\n\nthey stood at the bow of the ship .\n\n" * 30)
    cache = build_cache([path], tmp_path / "cache", "tokens")
    return Texts(cache, cache)


@pytest.mark.parametrize("kind", ["many-langs", "characters", "words", "forward"])
def test_a_foreign_model_learns_a_text(kind, texts, tmp_path):
    if kind == "many-langs":
        start = formats.read(write_model(tmp_path / "theirs"))
    else:
        start = formats.read(TRAINED / kind / "model.ckpt-4")
    settings = read_over(dict(DEFAULTS), None, [*SETTINGS, "optimizer.learning_rate=0.01"])
    config = dataclasses.replace(settings, model=start.bilm.config)
    before = {name: tensor.clone() for name, tensor in start.bilm.state_dict().items()}
    alone = Processes(0, 1, torch.device("cpu"))
    result = finetune_model(start, config, texts, tmp_path / "out", Budget(max_steps=40), alone)
    assert result.after.forward < result.before.forward
    tuned = formats.read(tmp_path / "out" / "model").bilm
    assert tuned.word_encoder == start.bilm.word_encoder
    for name, tensor in tuned.state_dict().items():
        assert tensor.ndim < 2 or not torch.equal(tensor, before[name]), name


def test_token_vectors_alone_are_not_trained():
    start = formats.read(TRAINED / "words" / "model.ckpt-4")
    static = dataclasses.replace(start.bilm.config.lstm, n_layers=0)
    with pytest.raises(ConfigError, match="expected at least 1 in training"):
        PretrainConfig(model=dataclasses.replace(start.bilm.config, lstm=static))
