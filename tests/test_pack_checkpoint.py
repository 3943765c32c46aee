"""A packed checkpoint: the run resumes at the same step, from nearly the same weights."""

import pytest
import torch

from elmo.pretraining.corpus import build_cache
from elmo.pretraining.learner import Texts
from elmo.pretraining.pretrain import pretrain_model
from elmo.training.budget import Budget
from elmo.training.checkpoint import load_newest
from elmo.training.distributed import Processes
from elmo.training.metrics import read_metrics
from tests.pretraining.tiny_text import settings, write_text
from tools import pack_checkpoint

CONFIG = settings(
    "optimizer.kind=muon", "optimizer.decay=constant", "train.dropout=0.0", "train.ema_decay=0.9"
)


@pytest.fixture
def train(tmp_path):
    for name, n_sentences in (("train", 200), ("heldout", 40)):
        write_text(tmp_path / f"{name}.txt", n_sentences, 1)
    texts = Texts(
        *(
            build_cache([tmp_path / f"{name}.txt"], tmp_path / "cache", "tokens")
            for name in ("train", "heldout")
        )
    )

    def run(folder, n_steps):
        alone = Processes(0, 1, torch.device("cpu"))
        pretrain_model(CONFIG, texts, folder, Budget(max_steps=n_steps), alone)
        return {n["step"]: n["loss"] for n in read_metrics(folder / "metrics.jsonl") if "loss" in n}

    return run


def test_an_unpacked_run_resumes_near_the_weights_of_the_packed_one(train, tmp_path, monkeypatch):
    monkeypatch.setattr(pack_checkpoint, "MIN_ROUNDED", 50)  # so that tiny matrices are rounded
    expected = train(tmp_path / "whole", 30)
    train(tmp_path / "first", 20)
    pack_checkpoint.pack(tmp_path / "first", tmp_path / "packed.xz")
    pack_checkpoint.unpack(tmp_path / "packed.xz", tmp_path / "moved")

    packed, unpacked = (load_newest(tmp_path / n / "checkpoints") for n in ("first", "moved"))
    assert unpacked.step == packed.step == 20
    assert unpacked.numbers == packed.numbers
    assert unpacked.tensors.keys() == packed.tensors.keys()
    for name, tensor in packed.tensors.items():
        found = unpacked.tensors[name]
        assert found.shape == tensor.shape, name
        assert found.dtype == tensor.dtype, name
        if f"average.{name}" in packed.tensors:
            largest = tensor.abs().amax(-1, keepdim=True) if tensor.ndim > 1 else tensor.abs()
            assert ((found - tensor).abs() <= largest / 63 * 0.51).all(), name
            assert torch.equal(found, unpacked.tensors[f"average.{name}"]), name

    losses = train(tmp_path / "moved", 30)
    assert list(losses) == list(range(1, 31))
    # The text of step 21 is the same, and rounded weights predict it about as well.
    assert losses[21] == pytest.approx(expected[21], rel=0.01)


def test_an_existing_folder_is_not_unpacked_into(train, tmp_path):
    train(tmp_path / "run", 4)
    pack_checkpoint.pack(tmp_path / "run", tmp_path / "packed.xz")
    with pytest.raises(SystemExit, match="already exists"):
        pack_checkpoint.unpack(tmp_path / "packed.xz", tmp_path / "run")
    with pytest.raises(SystemExit, match="no checkpoint"):
        pack_checkpoint.pack(tmp_path / "nothing", tmp_path / "other.xz")
    assert not (tmp_path / "other.xz").exists()
