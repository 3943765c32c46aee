"""Fine-tuning: better on the new text, heads for models that have none, resumable."""

import pytest
import torch

from elmo.errors import ConfigError
from elmo.models import model_folder
from elmo.models.model_folder import Model
from elmo.network.bilm import BiLM
from elmo.network.config import tiny
from elmo.network.softmax import build_head
from elmo.pretraining.config import read_config, read_over
from elmo.pretraining.corpus import build_cache
from elmo.pretraining.finetune import DEFAULTS, finetune_model, read_finetune_config
from elmo.pretraining.learner import Texts
from elmo.pretraining.pretrain import pretrain_model
from elmo.training.budget import Budget
from elmo.training.distributed import Processes
from elmo.training.metrics import read_metrics

ALONE = Processes(0, 1, torch.device("cpu"))
COMMON = [
    "stream.batch_size=4",
    "stream.bptt_length=8",
    "head.n_negatives=4",
    "train.log_every=5",
    "optimizer.learning_rate=0.01",
    "optimizer.n_warmup_steps=5",
]


def write(folder, name, sentences):
    path = folder / f"{name}.txt"
    path.write_text("".join(f"{sentence}\n\n" for sentence in sentences))
    return build_cache([path], folder / "cache", "tokens")


@pytest.fixture(scope="module")
def places(tmp_path_factory):
    """A model of one kind of sentence, and text of another kind in the same words."""
    folder = tmp_path_factory.mktemp("finetune")
    first = write(folder, "first", ["the cat sat on the mat", "a dog ran off"] * 40)
    config = read_config("tiny", None, [*COMMON, "vocabulary.min_count=1"])
    pretrain_model(config, Texts(first, first), folder / "start", Budget(max_steps=60), ALONE)
    train = write(folder, "train", ["mat the on sat cat the", "off ran dog a", "cat a"] * 40)
    heldout = write(folder, "heldout", ["off ran dog a", "mat the on sat dog the"] * 4)
    return folder, Texts(train, heldout)


def tune(start, texts, out, *more, n_steps=60):
    config = read_finetune_config(start, None, [*COMMON, *more])
    return finetune_model(start, config, texts, out, Budget(max_steps=n_steps), ALONE)


def test_a_tuned_model_is_better_on_the_new_text(places, tmp_path):
    folder, texts = places
    start = model_folder.load(folder / "start" / "model")
    result = tune(start, texts, tmp_path / "out")
    assert result.after.mean < 0.7 * result.before.mean
    tuned = model_folder.load(tmp_path / "out" / "model")
    assert tuned.vocabulary == start.vocabulary


def test_the_same_command_gives_the_same_answer_again(places, tmp_path):
    folder, texts = places
    first = tune(model_folder.load(folder / "start" / "model"), texts, tmp_path / "out", n_steps=10)
    again = tune(model_folder.load(folder / "start" / "model"), texts, tmp_path / "out", n_steps=10)
    assert first == again


def test_a_model_without_a_head_gets_one_before_the_rest_is_tuned(places, tmp_path):
    folder, texts = places
    bare = Model(model_folder.load(folder / "start" / "model").bilm)
    before = {name: tensor.clone() for name, tensor in bare.bilm.state_dict().items()}
    result = tune(bare, texts, tmp_path / "out")
    with_head = model_folder.load(tmp_path / "out" / "head" / "model")
    assert all(
        torch.equal(before[name], tensor) for name, tensor in with_head.bilm.state_dict().items()
    )
    assert with_head.vocabulary == texts.train.vocabulary()
    assert result.before.mean < len(with_head.vocabulary)  # the new head has learned something
    assert result.after.mean < result.before.mean
    tuned = model_folder.load(tmp_path / "out" / "model").bilm.state_dict()
    assert not all(torch.equal(before[name], tensor) for name, tensor in tuned.items())


def test_more_steps_of_the_whole_model_leave_the_new_head_alone(places, tmp_path):
    folder, texts = places

    def tune_bare(n_steps):
        bare = Model(model_folder.load(folder / "start" / "model").bilm)
        found = tune(bare, texts, tmp_path / "out", n_steps=n_steps)
        return found, (tmp_path / "out" / "head" / "result.json").read_bytes()

    first, head = tune_bare(6)
    again, same_head = tune_bare(12)
    assert same_head == head
    assert again.before == first.before
    assert again.after.mean < first.after.mean


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ("model.lstm.dim=64", "model.lstm.dim is 64, but the network is that of the model"),
        ("vocabulary.max_size=9", "vocabulary.max_size is 9, but the model has a softmax"),
        ("head.init_bias_from_frequencies=false", "but the model has a softmax with its own"),
        ("head.kind=adaptive", "softmax of the model is sampled, expected sampled or full"),
    ],
)
def test_settings_that_the_model_has_decided_are_refused(places, tmp_path, given, message):
    folder, _ = places
    start = model_folder.load(folder / "start" / "model")
    with pytest.raises(ConfigError, match=message):
        read_finetune_config(start, None, [given])
    group, _, entry = given.rpartition(".")
    (tmp_path / "run.toml").write_text(f"[{group}]\n{entry}".replace("=adaptive", "='adaptive'"))
    with pytest.raises(ConfigError, match=message):
        read_finetune_config(start, tmp_path / "run.toml")


def test_a_model_without_a_head_takes_the_settings_of_one(places):
    folder, _ = places
    bare = Model(model_folder.load(folder / "start" / "model").bilm)
    config = read_finetune_config(bare, None, ["vocabulary.max_size=9", "head.kind=adaptive"])
    assert (config.vocabulary.max_size, config.head.kind) == (9, "adaptive")
    with pytest.raises(ConfigError, match="the network is that of the model"):
        read_finetune_config(bare, None, ["model.lstm.dim=64"])


def test_a_model_with_an_adaptive_softmax_keeps_it(places):
    folder, _ = places
    words = model_folder.load(folder / "start" / "model").vocabulary
    bilm = BiLM(tiny())
    start = Model(bilm, build_head("adaptive", len(words), tiny().lstm.projection_dim), words)
    read_finetune_config(start)
    with pytest.raises(ConfigError, match="softmax of the model is adaptive, expected adaptive"):
        read_finetune_config(start, None, ["head.kind=full"])


def test_tuning_ends_when_held_out_text_gains_no_more_and_keeps_the_best(places, tmp_path):
    folder, texts = places
    result = tune(
        model_folder.load(folder / "start" / "model"),
        texts,
        tmp_path / "out",
        "optimizer.learning_rate=0.02",
        "optimizer.decay=constant",
        "train.n_epochs=1000",
        "train.evaluate_every=10",
        "train.patience=2",
        n_steps=2000,
    )
    measured = [
        m["heldout_mean"]
        for m in read_metrics(tmp_path / "out" / "metrics.jsonl")
        if "heldout_mean" in m
    ]
    assert len(measured) < 200
    assert result.after.mean == pytest.approx(min(measured), rel=1e-6)


def test_a_run_of_another_model_is_refused(places, tmp_path):
    folder, texts = places
    start = model_folder.load(folder / "start" / "model")
    tune(start, texts, tmp_path / "out", n_steps=1)
    with torch.no_grad():
        start.bilm.char_cnn.char_vectors.weight[5] += 1
    with pytest.raises(ConfigError, match="start_sha256"):
        tune(start, texts, tmp_path / "out", n_steps=1)


def test_the_defaults_are_settings_that_exist():
    assert read_over(dict(DEFAULTS), None, []).train.patience == 3
    assert read_config("tiny", None, []).model == tiny()


def test_the_learning_rate_follows_the_kind_of_the_optimizer(places):
    folder, _ = places
    start = model_folder.load(folder / "start" / "model")

    def rate(*sets):
        return read_finetune_config(start, None, sets).optimizer.learning_rate

    assert rate() == rate("optimizer.kind=adamw") == 5e-4
    assert rate("optimizer.kind=muon") == 1e-3
    assert rate("optimizer.kind=adagrad") == 0.025
    assert rate("optimizer.kind=adagrad", "optimizer.learning_rate=0.1") == 0.1


def test_only_the_first_process_makes_folders(places, tmp_path):
    folder, texts = places
    bare = Model(model_folder.load(folder / "start" / "model").bilm)
    config = read_finetune_config(bare, None, COMMON)
    second = Processes(1, 2, torch.device("cpu"))
    # Without a first process, the second fails when it first communicates with it.
    with pytest.raises(ValueError, match="process group"):
        finetune_model(bare, config, texts, tmp_path, Budget(max_steps=1), second)
    assert list(tmp_path.iterdir()) == []
