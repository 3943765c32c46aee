"""Training a task: it resumes bit for bit, stops early, and depends on its seed alone."""

import json
import os
import random
import shutil
import subprocess
import sys
import time
import warnings
from itertools import pairwise

import pytest
import torch

from elmo.api import Elmo
from elmo.errors import CheckpointError, ConfigError, DataError, ElmoError
from elmo.tasks import find_task
from elmo.tasks.config import read_config
from elmo.tasks.learner import TaskLearner, training_batches
from elmo.tasks.saved import open_task
from elmo.tasks.tagging.data import TaggedSentence
from elmo.tasks.train import build_trained, draw_fraction
from elmo.training.budget import Budget
from elmo.training.distributed import one_process
from elmo.training.metrics import read_metrics
from tests.conftest import ROOT
from tests.tasks.tiny_tasks import TINY_TASKS
from tests.tasks.two_processes import train_all

EACH_STEP = ("train.log_every=1", "train.save_every=2", "model.dropout=0.4", "elmo.dropout=0.4")


def numbers(folder):
    """All metrics of a run except times."""
    return [
        {name: value for name, value in line.items() if "second" not in name}
        for line in read_metrics(folder / "metrics.jsonl")
    ]


def test_a_run_in_pieces_has_the_losses_of_one_in_one_piece(train, ner, tmp_path):
    sets = (*EACH_STEP, "train.n_epochs=4", "optimizer.lr_plateau_patience=1")
    whole = train(ner, *sets, name="whole")
    for n_steps in (1, 5):
        train(ner, *sets, name="pieces", budget=Budget(max_steps=n_steps))
        # As a kill between two checkpoints would leave it.
        (tmp_path / "pieces" / "result.json").unlink()
        shutil.rmtree(sorted((tmp_path / "pieces" / "checkpoints").iterdir())[-1])
    pieces = train(ner, *sets, name="pieces")
    assert numbers(tmp_path / "pieces") == numbers(tmp_path / "whole")
    assert {**pieces, "seconds": 0} == {**whole, "seconds": 0}


def test_a_run_that_ends_within_an_epoch_is_measured_and_can_be_made_longer(train, ner, tmp_path):
    sets = ("train.n_epochs=3", "train.log_every=1")
    short = train(ner, *sets, name="short", budget=Budget(max_steps=2))
    assert (tmp_path / "short" / "model" / "task.json").exists()
    assert short["n_epochs"] == 1
    (tmp_path / "short" / "result.json").unlink()
    longer, whole = train(ner, *sets, name="short"), train(ner, *sets, name="whole")
    assert longer["curve"] == whole["curve"]


@pytest.mark.slow
def test_a_run_killed_again_and_again_has_the_losses_of_one_that_never_was(
    ner, tmp_path, bilm_folder
):
    path = tmp_path / ner.file_name
    path.write_text(ner.content, encoding="utf-8")

    def command(out):
        sets = [*ner.sets, *EACH_STEP, "train.n_epochs=15", "train.patience=15"]
        return [
            *(sys.executable, "-m", "elmo", "train", "ner", "--train", str(path)),
            *("--dev", str(path), "--out", str(out), "-m", str(bilm_folder)),
            *(word for entry in sets for word in ("--set", entry)),
        ]

    environment = os.environ | {"OMP_NUM_THREADS": "2"}
    whole, killed = tmp_path / "whole", tmp_path / "killed"
    subprocess.run(command(whole), check=True, env=environment)
    draw = random.Random(3)
    for _ in range(3):
        n_lines = len(numbers(killed)) + draw.randint(1, 15)
        process = subprocess.Popen(command(killed), env=environment)
        while process.poll() is None and len(numbers(killed)) < n_lines:
            time.sleep(0.01)
        process.kill()
        process.wait()
    subprocess.run(command(killed), check=True, env=environment)
    assert numbers(killed) == numbers(whole)
    assert weights(killed) == weights(whole)


# Torch divides the work of larger tensors over its threads.
WIDE = {"coref": ("model.hidden_dim=512",), "squad": ("model.dim=128",)}


def test_every_task_resumes_bit_for_bit_at_two_threads(train, tiny, tmp_path):
    sets = ("train.n_epochs=1", "train.log_every=1", "train.save_every=1", "words.dim=512")
    sets += ("train.batch_size=4",)
    sets += WIDE.get(tiny.name, ("model.dim=96",))
    torch.set_num_threads(2)
    try:
        train(tiny, *sets, name="whole")
        train(tiny, *sets, name="killed", budget=Budget(max_steps=2))
        # As a kill between two checkpoints leaves it.
        (tmp_path / "killed" / "result.json").unlink()
        shutil.rmtree(tmp_path / "killed" / "checkpoints" / "step-000000002")
        train(tiny, *sets, name="killed")
    finally:
        torch.set_num_threads(1)
    assert numbers(tmp_path / "killed") == numbers(tmp_path / "whole")
    assert weights(tmp_path / "killed") == weights(tmp_path / "whole")


@pytest.mark.slow
def test_two_processes_have_the_losses_of_one_in_every_task(tmp_path, bilm_folder):
    train_all(bilm_folder, tmp_path / "one", one_process())
    several = ["torch.distributed.run", "--standalone", "--nproc-per-node=2"]
    command = [*several, "-m", "tests.tasks.two_processes", bilm_folder, tmp_path / "two"]
    environment = os.environ | {"OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, "-m", *command], check=True, env=environment, cwd=ROOT)
    for tiny in TINY_TASKS:
        one, two = (tmp_path / name / tiny.name / "run" for name in ("one", "two"))
        assert [line.keys() for line in numbers(one)] == [line.keys() for line in numbers(two)]
        losses = [[line["loss"] for line in numbers(run) if "loss" in line] for run in (one, two)]
        assert losses[0] == pytest.approx(losses[1], abs=1e-4), tiny.name


TUNING = ("fine_tune.n_frozen_epochs=1", "fine_tune.learning_rate=0.01", "elmo.place=both")


def test_the_bilm_is_trained_after_its_frozen_epochs(train, ner, tmp_path, bilm_folder):
    start = Elmo.load(bilm_folder).bilm.state_dict()
    for n_epochs, is_changed in ((1, False), (12, True)):
        name = f"{n_epochs}-epochs"
        sets = (*TUNING, f"train.n_epochs={n_epochs}", "train.patience=none")
        result = train(ner, *sets, name=name, is_fine_tuned=True)
        opened = open_task(tmp_path / name)
        tensors = opened.model.tokens.source.elmo.bilm.state_dict()
        changed = [key for key in start if not torch.equal(start[key], tensors[key])]
        assert bool(changed) == is_changed
        measured = opened.measure(opened.read(tmp_path / ner.file_name))
        assert measured["f1"] == pytest.approx(result["scores"]["f1"])


def test_fine_tuning_resumes_bit_for_bit(train, ner, tmp_path):
    sets = (*EACH_STEP, *TUNING, "train.n_epochs=3", "train.ema_decay=0.5")
    train(ner, *sets, name="whole", is_fine_tuned=True)
    for n_steps in (2, 5):  # in the frozen epoch, and after it
        budget = Budget(max_steps=n_steps)
        train(ner, *sets, name="pieces", is_fine_tuned=True, budget=budget)
        (tmp_path / "pieces" / "result.json").unlink()
        shutil.rmtree(sorted((tmp_path / "pieces" / "checkpoints").iterdir())[-1])
    train(ner, *sets, name="pieces", is_fine_tuned=True)
    assert numbers(tmp_path / "pieces") == numbers(tmp_path / "whole")
    assert weights(tmp_path / "pieces") == weights(tmp_path / "whole")


@pytest.mark.parametrize(
    ("sets", "has_elmo", "message"),
    [((), False, "without elmo"), (("elmo.state=warm",), True, "expected fresh with fine_tune")],
)
def test_fine_tuning_of_nothing_or_from_a_warm_state_is_refused(
    train, ner, sets, has_elmo, message
):
    with pytest.raises(ConfigError, match=message):
        train(ner, *sets, is_fine_tuned=True, has_elmo=has_elmo)


def test_averaged_weights_are_what_is_evaluated_and_saved(train, ner, tmp_path):
    sets = ("train.n_epochs=12", "train.patience=none", "train.log_every=1")
    plain = train(ner, *sets, name="plain")
    averaged = train(ner, *sets, "train.ema_decay=0.99", name="averaged")
    losses = [
        [line["loss"] for line in numbers(tmp_path / name) if "loss" in line]
        for name in ("plain", "averaged")
    ]
    assert losses[0] == losses[1]  # averages do not change training
    assert plain["curve"] != averaged["curve"]
    opened = open_task(tmp_path / "averaged")
    measured = opened.measure(opened.read(tmp_path / ner.file_name))
    assert measured["f1"] == pytest.approx(averaged["scores"]["f1"])


def weights(run):
    return (run / "model" / "model.safetensors").read_bytes()


def test_the_same_seed_gives_the_same_run_and_another_another(train, ner, tmp_path):
    for name, seed in (("one", 1), ("same", 1), ("other", 2)):
        train(ner, "train.n_epochs=2", "train.log_every=1", f"train.seed={seed}", name=name)
    assert numbers(tmp_path / "one") == numbers(tmp_path / "same")
    assert numbers(tmp_path / "one") != numbers(tmp_path / "other")


def test_training_ends_when_patience_does_and_keeps_the_best(train, ner, tmp_path):
    result = train(ner, "train.n_epochs=200", "train.patience=3", "optimizer.learning_rate=0.1")
    assert result["n_epochs"] == result["best_epoch"] + 3 < 200
    assert max(result["curve"]) == result["scores"]["f1"] == result["curve"][-4]
    opened = open_task(tmp_path / "run")
    measured = opened.measure(opened.read(tmp_path / ner.file_name))
    assert measured["f1"] == pytest.approx(result["scores"]["f1"])


def test_a_run_says_how_it_went(train, ner, tmp_path):
    result = train(ner, "train.n_epochs=2", "elmo.place=both")
    assert result == json.loads((tmp_path / "run" / "result.json").read_text())
    assert result["settings"]["elmo"]["place"] == "both"
    assert sum(result["mixes"]["output"]["weights"]) == pytest.approx(1)
    assert (tmp_path / "run" / "learning_curve.png").stat().st_size > 1000
    assert train(ner, "train.n_epochs=2", "elmo.place=both") == result  # once more: nothing to do


def test_given_vectors_are_used_and_a_missing_file_leaves_nothing_behind(train, ner, tmp_path):
    with pytest.raises(DataError, match=r"absent.txt"):
        train(ner, "train.n_epochs=1", static=tmp_path / "absent.txt")
    assert not (tmp_path / "run").exists()
    (tmp_path / "glove.txt").write_text("ann 1 2 3\nrome 4 5 6\nunseen 7 8 9\n")
    train(ner, "train.n_epochs=1", static=tmp_path / "glove.txt")
    words = open_task(tmp_path / "run").model.tokens.words
    assert (words.dim, words.words.fixed) == (3, ("unseen",))
    assert words.fixed.tolist() == [[7, 8, 9]]


def test_training_without_given_vectors_warns_unless_no_words_are_read(train, ner, tmp_path):
    once = {"has_elmo": False, "budget": Budget(max_steps=1)}
    with pytest.warns(UserWarning, match=r"^no word vectors \(--glove\): random ones are trained"):
        train(ner, name="random", **once)
    (tmp_path / "glove.txt").write_text("ann 1 2 3\n")
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "no word vectors")
        train(ner, "words=none", name="none", **once)
        train(ner, name="given", static=tmp_path / "glove.txt", **once)


def test_another_run_is_refused_in_the_same_folder(train, ner):
    train(ner, "train.n_epochs=1")
    with pytest.raises(ConfigError, match=r"contains another run \(config.model.dim"):
        train(ner, "train.n_epochs=1", "model.dim=7")
    train(ner, "train.n_epochs=2")  # longer is the same run


def test_a_bundled_model_needs_no_other_file(train, ner, tmp_path, elmo):
    train(ner, "train.n_epochs=1", bundle=True)
    settings = json.loads((tmp_path / "run" / "model" / "task.json").read_text())
    settings["bilm"]["path"] = "/nowhere"
    (tmp_path / "run" / "model" / "task.json").write_text(json.dumps(settings))
    shutil.move(tmp_path / "run" / "model", tmp_path / "moved")
    assert list(open_task(tmp_path / "moved").predict(())) == []


def test_a_model_with_the_setting_names_of_format_1_is_opened(train, ner, tmp_path):
    train(ner, "train.n_epochs=1")
    now = open_task(tmp_path / "run")
    path = tmp_path / "run" / "model" / "task.json"
    settings = json.loads(path.read_text())
    assert settings["format_version"] == 2
    settings |= {"format_version": 1, "inventory": settings.pop("vocabularies")}
    config = settings["config"]
    config["optimiser"] = config.pop("optimizer")
    config["optimiser"]["clip_norm"] = config["optimiser"].pop("max_grad_norm")
    config["optimiser"]["halve_after"] = config["optimiser"].pop("lr_plateau_patience")
    config["train"]["share"] = config["train"].pop("train_fraction")
    path.write_text(json.dumps(settings))
    before = open_task(tmp_path / "run")
    assert before.config == now.config
    assert before.vocabularies == now.vocabularies


def test_a_model_whose_bilm_is_gone_says_so(train, ner, tmp_path):
    train(ner, "train.n_epochs=1")
    path = tmp_path / "run" / "model" / "task.json"
    settings = json.loads(path.read_text())
    settings["bilm"]["path"] = str(tmp_path / "gone")
    path.write_text(json.dumps(settings))
    with pytest.raises(ElmoError, match="gone"):
        open_task(tmp_path / "run")


def test_a_broken_model_file_is_refused(train, ner, tmp_path):
    train(ner, "train.n_epochs=1")
    weights = tmp_path / "run" / "model" / "model.safetensors"
    os.truncate(weights, weights.stat().st_size // 2)
    with pytest.raises(CheckpointError, match="not a complete safetensors file"):
        open_task(tmp_path / "run")
    (tmp_path / "run" / "model" / "task.json").write_text('{"format_version": 99}')
    with pytest.raises(CheckpointError, match="format_version is 99"):
        open_task(tmp_path / "run")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda s: s.pop("task"), "no 'task'"),
        (lambda s: s.pop("config"), "no 'config'"),
        (lambda s: s.pop("vocabularies"), "no 'vocabularies'"),
        (lambda s: s.pop("words"), "no 'words'"),
        (lambda s: s.pop("bilm"), "no 'bilm'"),
        (lambda s: s.update(task=["ner"]), "expected the name of a task"),
        (lambda s: s.update(config=5), "config: the settings is 5, expected a group of settings"),
        (lambda s: s.update(vocabularies={"labels": "O"}), "expected lists of words by name"),
        (lambda s: s.update(vocabularies={}), "vocabularies has no 'labels'"),
        (lambda s: s.update(words=None), "words: the settings is None"),
        (lambda s: s["words"].update(dim="x"), "words: dim is 'x', expected int > 0"),
        (lambda s: s["words"].pop("n_trained"), "words: key 'n_trained' is missing"),
        (lambda s: s["bilm"].update(sha256=5), "bilm: sha256 is 5, expected str"),
    ],
)
def test_broken_settings_of_a_model_are_one_error(trained, ner, tmp_path, change, message):
    folder = shutil.copytree(trained(ner) / "run" / "model", tmp_path / "model")
    settings = json.loads((folder / "task.json").read_text())
    change(settings)
    (folder / "task.json").write_text(json.dumps(settings))
    with pytest.raises(ElmoError, match=rf"task\.json: .*{message}"):
        open_task(folder)


def test_a_list_of_words_that_does_not_fit_the_weights_is_refused(trained, ner, tmp_path):
    folder = shutil.copytree(trained(ner) / "run" / "model", tmp_path / "model")
    with (folder / "words.txt").open("a") as file:
        file.write("more\nwords\n")
    message = r"tokens\.words\.fixed has shape \(0, 8\), expected \(2, 8\), as words\.txt has"
    with pytest.raises(CheckpointError, match=message):
        open_task(folder)


def test_a_model_without_frequent_words_is_opened(train, ner, tmp_path):
    train(ner, "words.min_count=1000", has_elmo=False, budget=Budget(max_steps=1))
    assert open_task(tmp_path / "run").model.tokens.words.words.trained == ()


def test_a_learning_rate_at_which_training_diverges_is_an_error(train, ner):
    with pytest.raises(ElmoError, match="training diverged"):
        train(ner, "optimizer.learning_rate=1e30", "train.n_epochs=30")


def test_every_example_comes_once_an_epoch_with_its_like():
    lengths = [random.Random(1).randint(1, 60) for _ in range(200)]
    epochs = [training_batches(lengths, 16, seed=1, epoch=epoch) for epoch in range(2)]
    for batches in epochs:
        assert sorted(k for batch in batches for k in batch) == list(range(200))
        assert all(
            max(lengths[k] for k in b) <= 2 * min(lengths[k] for k in b) + 4 for b in batches
        )
    assert epochs[0] != epochs[1]
    assert epochs[0] == training_batches(lengths, 16, seed=1, epoch=0)


def test_a_share_is_drawn_by_the_seed_and_takes_units_as_wholes():
    units = [number // 4 for number in range(400)]
    drawn = draw_fraction(units, 0.1, seed=1)
    assert len(drawn) == 40
    assert len({units[k] for k in drawn}) == 10
    assert drawn == draw_fraction(units, 0.1, seed=1) != draw_fraction(units, 0.1, seed=2)
    assert set(drawn) < set(draw_fraction(units, 0.5, seed=1))  # a larger share holds the smaller
    assert draw_fraction(units, 1.0, seed=5) == list(range(400))
    assert len(draw_fraction(units, 0.0001, seed=1)) == 4


def test_a_share_trains_on_fewer_and_embeds_no_more_than_it_needs(train, ner, tmp_path):
    cache, share = tmp_path / "cache", ("train.n_epochs=1", "train.train_fraction=0.3")
    assert train(ner, *share, cache=cache)["n_train"] == 3
    assert len(list(cache.iterdir())) == 2  # the share, and the dev file
    train(ner, *share, name="again", cache=cache)
    train(ner, *share, "train.seed=2", name="seed", cache=cache)  # the dev file has all it needs
    assert len(list(cache.iterdir())) == 2


def test_a_rate_follows_the_kind_of_the_optimizer_unless_it_is_given():
    def rates(*sets):
        optimizer = read_config(find_task("srl").defaults(), None, sets).optimizer
        return optimizer.learning_rate, optimizer.beta2

    assert rates() == rates("optimizer.kind=adam") == (4e-3, 0.999)
    assert rates("optimizer.kind=adadelta") == (1.0, 0.95)
    assert rates("optimizer.kind=adadelta", "optimizer.learning_rate=0.5") == (0.5, 0.95)


@pytest.mark.parametrize("kind", ["adam", "adadelta"])
def test_both_optimizers_learn(train, ner, tmp_path, kind):
    rate = {"adam": 0.01, "adadelta": 1.0}[kind]
    sets = (f"optimizer.kind={kind}", f"optimizer.learning_rate={rate}", "optimizer.beta2=0.95")
    train(ner, *sets, "train.n_epochs=10", "train.log_every=3")
    losses = [line["loss"] for line in numbers(tmp_path / "run") if "loss" in line]
    assert losses[-1] < 0.8 * losses[0]


def test_a_word_moves_only_in_steps_that_read_it():
    task = find_task("ner")
    sets = ["words.min_count=1", "train.batch_size=1", "model.dim=8"]
    config = read_config(task.defaults(), None, sets, has_elmo=False)
    examples = [TaggedSentence(words, ("B-X", "O")) for words in (("Ann", "ran"), ("Bob", "sat"))]
    trained = build_trained(task, config, examples, None)
    learner = TaskLearner(trained, examples, examples, None, one_process())
    table = trained.model.tokens.words
    vectors = [table.trained.detach().clone()]
    for step in (0, 1):
        learner.step(step, 0.01)
        vectors.append(table.trained.detach().clone())
    ids = [table.words.ids(example.tokens) for example in examples]
    moved = [
        {k for k, rows in enumerate(ids) if not torch.equal(before[rows], after[rows])}
        for before, after in pairwise(vectors)
    ]
    assert sorted(moved, key=sorted) == [{0}, {1}]
