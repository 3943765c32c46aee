"""Pre-training: it learns, resumes bit for bit, and refuses what it cannot do."""

import json
import math
import os
import random
import shutil
import signal
import subprocess
import sys
import time

import numpy as np
import pytest
import torch

from elmo.errors import CheckpointError, ConfigError, ElmoError, WriteError
from elmo.models import model_folder
from elmo.models.model_folder import Model
from elmo.network.bilm import BiLM
from elmo.network.softmax import build_head
from elmo.pretraining.corpus import build_cache
from elmo.pretraining.learner import PretrainLearner, Texts
from elmo.pretraining.pretrain import add_head, open_texts, pretrain_model
from elmo.training import checkpoint
from elmo.training.budget import Budget
from elmo.training.distributed import Processes
from elmo.training.metrics import read_metrics
from elmo.training.run_folder import RunFolder
from tests.pretraining.tiny_text import SETTINGS, settings, write_text

GROWING = ("stream.initial_batch_size=2", "stream.growth_interval=5")
ALONE = Processes(0, 1, torch.device("cpu"))


@pytest.fixture(scope="session")
def text_folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("text")
    write_text(folder / "train.txt", 200, 1)
    write_text(folder / "heldout.txt", 40, 2)
    return folder


@pytest.fixture(scope="session")
def texts(text_folder):
    return Texts(
        *(
            build_cache([text_folder / f"{name}.txt"], text_folder / "cache", "tokens")
            for name in ("train", "heldout")
        )
    )


def losses(folder):
    return {
        line["step"]: line["loss"]
        for line in read_metrics(folder / "metrics.jsonl")
        if "loss" in line
    }


def train(texts, out, *more, n_steps=12):
    return pretrain_model(settings(*more), texts, out, Budget(max_steps=n_steps), ALONE)


@pytest.mark.parametrize(
    "more",
    [
        [],
        ["optimizer.kind=adagrad"],
        ["head.kind=full", "stream.backward=same_rows", "stream.reset=document"],
        ["head.kind=adaptive", "stream.reset=never", "train.n_accumulate=2"],
        ["optimizer.kind=muon", "optimizer.muon_every=3", "train.ema_decay=0.9"],
        ["train.dtype=bfloat16"],
        [*GROWING, "train.n_accumulate=2"],
    ],
    ids=["adamw", "adagrad", "full", "adaptive", "muon", "bfloat16", "growing"],
)
def test_a_run_that_lost_its_last_steps_repeats_them_bit_for_bit(texts, tmp_path, more):
    train(texts, tmp_path / "whole", *more)
    expected = losses(tmp_path / "whole")
    assert list(expected) == list(range(1, 13))
    shutil.copytree(tmp_path / "whole", tmp_path / "cut")
    shutil.rmtree(tmp_path / "cut" / "checkpoints" / "step-000000012")
    (tmp_path / "cut" / "result.json").unlink()
    train(texts, tmp_path / "cut", *more)
    assert losses(tmp_path / "cut") == expected
    weights = [
        model_folder.load(tmp_path / name / "model").bilm.state_dict() for name in ("whole", "cut")
    ]
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


def test_a_resumed_run_keeps_no_tensor_of_its_checkpoint(texts):
    config = settings("head.kind=full", "train.ema_decay=0.9")
    model = add_head(BiLM(config.model), texts, config)
    learner = PretrainLearner(model, texts, config, ALONE)
    learner.step(0, 0.01)
    state = {name: tensor.clone() for name, tensor in learner.state().items()}
    learner.load_state(state)
    found = learner.state()
    assert all(torch.equal(found[name], tensor) for name, tensor in state.items())
    assert not {each.data_ptr() for each in found.values()} & {
        each.data_ptr() for each in state.values()
    }


def command(text_folder, out, n_steps=60):
    return [
        *(sys.executable, "-m", "elmo", "pretrain", "--lines", "tokens", "--size", "tiny"),
        *("--train", str(text_folder / "train.txt"), "--heldout", str(text_folder / "heldout.txt")),
        *("--out", str(out), "--max-steps", str(n_steps), "--cache", str(text_folder / "cache")),
        *(word for setting in SETTINGS for word in ("--set", setting)),
    ]


def wait_for_line(folder, n_lines, process):
    while process.poll() is None:
        if len(read_metrics(folder / "metrics.jsonl")) >= n_lines:
            return
        time.sleep(0.01)


@pytest.mark.slow
def test_a_run_killed_again_and_again_has_the_losses_of_one_that_never_was(
    texts, text_folder, tmp_path
):
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run(command(text_folder, whole), check=True, env=environment)
    draw = random.Random(7)
    n_lines = 0
    for _ in range(4):
        n_lines = len(read_metrics(killed / "metrics.jsonl")) + draw.randint(1, 12)
        process = subprocess.Popen(command(text_folder, killed), env=environment)
        wait_for_line(killed, n_lines, process)
        process.kill()
        process.wait()
    subprocess.run(command(text_folder, killed), check=True, env=environment)
    assert len(losses(whole)) == 60
    assert losses(killed) == losses(whole)


@pytest.mark.slow
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_stopped_run_saves_its_last_step_and_says_how_to_resume(
    texts, text_folder, tmp_path, number
):
    out = tmp_path / "run"
    process = subprocess.Popen(
        command(text_folder, out, 100_000), stderr=subprocess.PIPE, text=True
    )
    wait_for_line(out, 5, process)
    process.send_signal(number)
    _, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "run the same command to resume" in errors
    found = checkpoint.load_newest(out / "checkpoints")
    assert found.step == max(losses(out))


def test_a_truncated_checkpoint_is_passed_over_for_the_one_before(texts, tmp_path, caplog):
    train(texts, tmp_path)
    expected = losses(tmp_path)
    tensors = tmp_path / "checkpoints" / "step-000000012" / "tensors.safetensors"
    os.truncate(tensors, tensors.stat().st_size // 2)
    (tmp_path / "result.json").unlink()
    train(texts, tmp_path)
    assert "is damaged" in caplog.text
    assert losses(tmp_path) == expected


def test_without_a_complete_checkpoint_a_run_does_not_silently_start_over(texts, tmp_path):
    train(texts, tmp_path)
    for numbers in (tmp_path / "checkpoints").glob("*/numbers.json"):
        numbers.write_text("{}")
    with pytest.raises(CheckpointError, match="all 2 checkpoints are damaged"):
        train(texts, tmp_path)


def test_a_full_disk_loses_no_checkpoint(tmp_path):
    state = checkpoint.TrainingCheckpoint(1, {"x": torch.ones(3)}, {})
    checkpoint.save_checkpoint(tmp_path, state)

    class FullDisk:
        def __init__(self, step):
            self.step, self.numbers = step, {}

        @property
        def tensors(self):
            raise OSError(28, "No space left on device")

    with pytest.raises(WriteError, match="No space left"):
        checkpoint.save_checkpoint(tmp_path, FullDisk(2))
    assert checkpoint.load_newest(tmp_path).step == 1
    assert [path.name for path in tmp_path.iterdir()] == ["step-000000001"]


def test_only_the_last_two_checkpoints_are_kept(texts, tmp_path):
    train(texts, tmp_path, n_steps=14)
    kept = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert kept == ["step-000000012", "step-000000014"]


def test_a_finished_run_is_not_trained_or_measured_again(texts, tmp_path):
    first = train(texts, tmp_path)
    lines = (tmp_path / "metrics.jsonl").read_text()
    assert train(texts, tmp_path) == first
    assert (tmp_path / "metrics.jsonl").read_text() == lines


def test_a_finished_run_continues_with_a_larger_budget(texts, tmp_path):
    train(texts, tmp_path, "optimizer.decay=constant", n_steps=6)
    train(texts, tmp_path, "optimizer.decay=constant", n_steps=12)
    train(texts, tmp_path / "whole", "optimizer.decay=constant", n_steps=12)
    assert losses(tmp_path) == losses(tmp_path / "whole")


def test_parts_of_a_step_give_the_losses_of_the_whole_step(texts, tmp_path):
    train(texts, tmp_path / "one", "train.dropout=0.0")
    train(texts, tmp_path / "four", "train.dropout=0.0", "train.n_accumulate=4")
    one, four = losses(tmp_path / "one"), losses(tmp_path / "four")
    assert one.keys() == four.keys()
    assert all(math.isclose(one[step], four[step], rel_tol=1e-4) for step in one)


def test_the_folder_of_another_run_is_refused_with_the_difference(texts, tmp_path):
    train(texts, tmp_path, n_steps=1)
    with pytest.raises(ConfigError, match=r"config\.stream\.seed is 1 there and 2 here"):
        train(texts, tmp_path, "stream.seed=2")
    train(texts, tmp_path, "train.save_every=7", n_steps=2)


def test_a_folder_that_is_no_run_is_left_alone(texts, tmp_path):
    (tmp_path / "letter.txt").write_text("dear")
    with pytest.raises(ConfigError, match=r"no run\.json"):
        train(texts, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["letter.txt"]


def test_a_loss_that_explodes_stops_the_run_and_keeps_the_last_checkpoint(texts, tmp_path):
    hot = ["optimizer.learning_rate=0.001", "optimizer.decay=constant"]
    train(texts, tmp_path, *hot, n_steps=4)
    record = json.loads((tmp_path / "run.json").read_text())
    record["config"]["optimizer"]["learning_rate"] = 1e6
    (tmp_path / "run.json").write_text(json.dumps(record))
    with pytest.raises(ElmoError, match=r"step \d+: training diverged: the loss is"):
        train(
            texts, tmp_path, "optimizer.learning_rate=1e6", "optimizer.decay=constant", n_steps=40
        )
    assert checkpoint.load_newest(tmp_path / "checkpoints") is not None


def test_the_model_folder_holds_the_trained_model_and_its_vocabulary(texts, tmp_path):
    result = train(texts, tmp_path)
    model = model_folder.load(tmp_path / "model")
    assert model.vocabulary == texts.train.vocabulary()
    assert model.head is not None
    last = read_metrics(tmp_path / "metrics.jsonl")[-1]
    assert last["heldout_mean"] == result.mean


@pytest.mark.parametrize("kind", ["sampled", "full", "adaptive"])
def test_a_vocabulary_of_one_word_can_be_trained_and_a_smaller_one_is_refused(
    texts, tmp_path, kind
):
    train(texts, tmp_path, f"head.kind={kind}", "vocabulary.max_size=4", n_steps=2)
    assert len(model_folder.load(tmp_path / "model").vocabulary) == 4
    with pytest.raises(ConfigError, match=r"vocabulary\.max_size is 3, expected int >= 4"):
        settings("vocabulary.max_size=3")


def test_a_held_out_text_that_is_the_training_text_is_reported(text_folder, tmp_path):
    shutil.copy(text_folder / "train.txt", tmp_path / "other.txt")
    train = str(text_folder / "train.txt")
    with pytest.warns(UserWarning, match="the held-out text is the training text"):
        open_texts(train, str(tmp_path / "other.txt"), tmp_path / "cache", ALONE)


def test_a_tiny_model_learns_a_page_by_heart_in_both_directions(tmp_path):
    write_text(tmp_path / "page.txt", 12, 3)
    cache = build_cache([tmp_path / "page.txt"], tmp_path / "cache", "tokens")
    result = pretrain_model(
        settings(
            "model.lstm.dim=64",
            "model.lstm.projection_dim=24",
            "train.dropout=0.0",
            "train.n_epochs=1000",
            "optimizer.learning_rate=0.01",
            "train.log_every=100",
            "train.evaluate_every=1000",
            "train.save_every=1000",
        ),
        Texts(cache, cache),
        tmp_path / "run",
        Budget(max_steps=700),
        ALONE,
    )
    # Only a sentence's first word in reading order cannot be predicted, in either direction.
    assert result.forward < 2
    assert result.backward < 2


def test_gradients_of_the_whole_loss_equal_finite_differences(texts):
    config = settings("train.dropout=0.0", "stream.batch_size=2", "stream.bptt_length=4")
    vocabulary = texts.train.vocabulary()
    torch.manual_seed(0)
    bilm = BiLM(config.model).double()
    model = Model(bilm, build_head("sampled", len(vocabulary), 8, 6).double(), vocabulary)
    learner = PretrainLearner(model, texts, config, ALONE)

    def loss():
        return learner.loss(3, range(2))[0]

    loss().backward()
    rng = np.random.default_rng(0)
    for parameter in [*bilm.parameters(), *model.head.parameters()]:
        dense = parameter.grad.to_dense() if parameter.grad.is_sparse else parameter.grad
        place = tuple(rng.integers(size) for size in parameter.shape)
        with torch.no_grad():
            values = []
            for shift in (1e-5, -2e-5):
                parameter[place] += shift
                values.append(loss().item())
            parameter[place] += 1e-5
        slope = (values[0] - values[1]) / 2e-5
        assert slope == pytest.approx(dense[place].item(), rel=1e-3, abs=1e-6)


@pytest.mark.slow
def test_two_processes_have_the_losses_of_one_and_resume_where_they_stopped(
    texts, text_folder, tmp_path
):
    plain = [sys.executable, "-m", "elmo"]
    several = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    sets = ("train.dropout=0.0", "optimizer.decay=constant", *GROWING)
    more = [word for each in sets for word in ("--set", each)]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}

    def run(start, name, n_steps):
        words = command(text_folder, tmp_path / name, n_steps)[len(plain) :]
        subprocess.run([*start, *words, *more], check=True, env=environment)
        return losses(tmp_path / name)

    one = run(plain, "one", 12)
    run([*several, "-m", "elmo"], "two", 7)
    two = run([*several, "-m", "elmo"], "two", 12)
    assert one.keys() == two.keys()
    assert all(abs(one[step] - two[step]) < 1e-4 for step in one)
    heldout = [read_metrics(tmp_path / name / "metrics.jsonl")[-1] for name in ("one", "two")]
    assert heldout[0]["heldout_mean"] == pytest.approx(heldout[1]["heldout_mean"], rel=1e-3)


def test_rows_that_do_not_divide_over_processes_and_parts_are_refused(texts):
    config = settings("train.n_accumulate=2")
    model = add_head(BiLM(config.model), texts, config)
    with pytest.raises(
        ConfigError, match=r"number of processes \(4\) times train.n_accumulate \(2\)"
    ):
        PretrainLearner(model, texts, config, Processes(0, 4, torch.device("cpu")))


def test_a_folder_is_held_by_one_process_at_a_time(texts, tmp_path):
    run = RunFolder(tmp_path / "run")
    with run.claim({"config": {}}), pytest.raises(ConfigError, match="another process"):
        train(texts, tmp_path / "run")


def test_metrics_reach_tensorboard_and_the_curve_is_drawn(texts, tmp_path):
    pytest.importorskip("matplotlib")
    pytest.importorskip("tensorboard")
    train(texts, tmp_path)
    assert list((tmp_path / "tensorboard").glob("events.*"))
    assert (tmp_path / "learning_curve.png").read_bytes().startswith(b"\x89PNG")


def test_training_in_bfloat16_stays_near_float32(texts, tmp_path):
    train(texts, tmp_path / "full", "train.dropout=0.0")
    train(texts, tmp_path / "half", "train.dropout=0.0", "train.dtype=bfloat16")
    full, half = losses(tmp_path / "full"), losses(tmp_path / "half")
    assert full != half
    assert all(abs(full[step] - half[step]) < 0.05 for step in full)


def test_the_saved_model_has_the_averaged_weights(texts, tmp_path):
    more = ("train.ema_decay=0.9", "optimizer.decay=constant")
    train(texts, tmp_path, *more, n_steps=30)
    saved = checkpoint.load_newest(tmp_path / "checkpoints").tensors
    model = model_folder.load(tmp_path / "model")
    name = "stacks.forward_layers.0.input_weight"
    found = model.bilm.state_dict()[name]
    assert torch.equal(found, saved[f"average.bilm.{name}"])
    assert not torch.equal(found, saved[f"bilm.{name}"])


def test_the_card_of_a_run_that_stopped_early_is_of_the_kept_model(texts, tmp_path):
    # At this rate the model gets worse soon.
    sets = ("train.patience=2", "train.evaluate_every=2", "optimizer.decay=constant")
    train(texts, tmp_path, *sets, "optimizer.learning_rate=0.3", n_steps=60)
    lines = [line for line in read_metrics(tmp_path / "metrics.jsonl") if "heldout_mean" in line]
    best = min(lines[:-1], key=lambda line: line["heldout_mean"])  # the last one is of all text
    assert best["step"] < lines[-1]["step"] < 60
    card = (tmp_path / "model" / "README.md").read_text()
    assert f"\n{best['step']} steps of 4 x 6 tokens, " in card
