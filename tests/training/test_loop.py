"""The training loop, with a learner whose losses and scores are given."""

import json
import math
import shutil

import pytest
import torch

from elmo.errors import CheckpointError, ElmoError
from elmo.training import checkpoint
from elmo.training.budget import Budget
from elmo.training.distributed import Processes
from elmo.training.loop import Evaluation, History, Schedule, StepResult, TrainingLoop, reproducible
from elmo.training.metrics import read_metrics
from elmo.training.plots import ScorePlot
from elmo.training.run_folder import RunFolder

CPU = torch.device("cpu")
ALONE = Processes(0, 1, CPU)


class FakeLearner:
    """Counts its steps; evaluation n has the n-th of the given scores."""

    score_plot = ScorePlot("dev_", "dev score")

    def __init__(self, scores=(), losses=None, final_score=None, **schedule):
        given = {
            "n_steps": 100,
            "n_epochs_read": lambda step: step / 2,
            "log_every": 1,
            "evaluate_every": 2,
        }
        given |= {"save_every": 3, "patience": None, "keeps_best": True, "learning_rate": 1.0}
        self.schedule = Schedule(**given | schedule)
        self.scores, self.losses, self.final_score = scores, losses, final_score
        self.counts = torch.zeros(2, dtype=torch.int64)  # steps, evaluations
        self.rates, self.saved, self.final_step = [], [], None

    def step(self, step, learning_rate):
        assert step == self.counts[0]
        self.counts[0] += 1
        self.rates.append(learning_rate)
        loss = 1 / (1 + step) if self.losses is None else self.losses[step]
        return StepResult(loss, abs(loss), 10)

    def evaluate(self):
        self.counts[1] += 1
        return self._evaluation(self.scores[self.counts[1] - 1])

    def evaluate_final(self, folder, step):
        self.final_step = step
        return None if self.final_score is None else self._evaluation(self.final_score)

    def save_model(self, folder, step, evaluation):
        self.saved.append(step)

    def state(self):
        return {"counts": self.counts.clone()}

    def load_state(self, state):
        self.counts.copy_(state["counts"])

    def result(self, history):
        return {"n_evaluations": len(history.scores)}

    def _evaluation(self, score):
        return Evaluation(score, {"dev_f1": score}, f"f1 {score}", {"score": score})


def fit(learner, folder, n_steps=None):
    folder.mkdir(exist_ok=True)
    return TrainingLoop(learner, RunFolder(folder), Budget(max_steps=n_steps), ALONE).fit()


def measured(folder):
    """Step, loss and score of all lines of metrics."""
    lines = read_metrics(folder / "metrics.jsonl")
    return [(line["step"], line.get("loss"), line.get("dev_f1")) for line in lines]


def test_a_run_ends_when_its_patience_does_and_keeps_the_best_model(tmp_path):
    learner = FakeLearner([10, 30, 20, 25, 29], patience=3)
    result = fit(learner, tmp_path)
    assert learner.saved == [2, 4]
    assert (result["n_steps"], result["score"], result["n_evaluations"]) == (10, 30, 5)


def test_every_evaluated_model_is_saved_where_the_best_is_not_asked_for(tmp_path):
    learner = FakeLearner([30, 20, 10], keeps_best=False)
    fit(learner, tmp_path, n_steps=6)
    assert learner.saved == [2, 4, 6]


def test_the_learning_rate_is_halved_at_each_plateau(tmp_path):
    learner = FakeLearner([10, 20, 15, 16, 17, 30, 5, 5], lr_plateau_patience=2)
    fit(learner, tmp_path, n_steps=16)
    assert learner.rates == [1.0] * 8 + [0.5] * 8
    history = History()
    plateaus = []
    for score in learner.scores:
        history = history.after(Evaluation(score, {}, "", {}), step=0)
        plateaus.append(history.n_plateaus(2))
    assert plateaus == [0, 0, 0, 1, 1, 1, 1, 2]
    assert (history.best_number, history.best.score, history.n_since_best) == (6, 30, 2)


def test_a_run_that_ends_before_its_first_evaluation_is_evaluated_once(tmp_path):
    learner = FakeLearner([50], evaluate_every=10)
    assert fit(learner, tmp_path, n_steps=3)["score"] == 50
    assert learner.saved == [3]
    assert fit(FakeLearner(evaluate_every=10), tmp_path, n_steps=3)["score"] == 50  # not again


def test_the_result_is_of_the_final_evaluation_where_there_is_one(tmp_path):
    result = fit(FakeLearner([10, 20], final_score=15), tmp_path, n_steps=4)
    assert result["score"] == 15
    assert result == json.loads((tmp_path / "result.json").read_text())
    assert measured(tmp_path)[-1] == (4, None, 15)


def test_a_plot_that_cannot_be_drawn_does_not_lose_the_result(tmp_path, caplog):
    (tmp_path / "learning_curve.png").mkdir()
    result = fit(FakeLearner([10]), tmp_path, n_steps=2)
    assert result == json.loads((tmp_path / "result.json").read_text())
    assert "learning_curve.png: no learning curve is drawn" in caplog.text


@pytest.mark.parametrize(("keeps_best", "step"), [(True, 4), (False, 10)])
def test_the_final_evaluation_is_of_the_step_of_the_kept_model(tmp_path, keeps_best, step):
    settings = {"patience": 3, "keeps_best": keeps_best, "final_score": 30}
    fit(FakeLearner([10, 30, 20, 25, 29], **settings), tmp_path, n_steps=6)
    (tmp_path / "result.json").unlink()
    resumed = FakeLearner([10, 30, 20, 25, 29], **settings)
    fit(resumed, tmp_path)
    assert resumed.final_step == step


def test_a_resumed_run_continues_its_history_and_its_metrics(tmp_path):
    scores = [10, 20, 15, 16, 17, 18, 19]
    settings = {"lr_plateau_patience": 2, "patience": 5, "log_every": 2}
    whole = fit(FakeLearner(scores, **settings), tmp_path / "whole")
    fit(FakeLearner(scores, **settings), tmp_path / "parts", n_steps=3)  # between two log lines
    fit(FakeLearner(scores, **settings), tmp_path / "parts", n_steps=10)
    resumed = FakeLearner(scores, **settings)
    parts = fit(resumed, tmp_path / "parts")
    assert resumed.rates == [0.5, 0.5, 0.25, 0.25]
    assert {**parts, "seconds": 0} == {**whole, "seconds": 0}
    assert measured(tmp_path / "parts") == measured(tmp_path / "whole")


def test_checkpoints_are_written_every_so_many_steps_and_at_the_end(tmp_path):
    fit(FakeLearner([1, 2, 3]), tmp_path, n_steps=7)
    kept = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert kept == ["step-000000006", "step-000000007"]


def test_other_folders_beside_the_checkpoints_are_left_alone(tmp_path):
    fit(FakeLearner([1, 2, 3]), tmp_path, n_steps=6)
    copy = tmp_path / "checkpoints" / "step-000000003.bak"
    shutil.copytree(tmp_path / "checkpoints" / "step-000000003", copy)
    assert fit(FakeLearner([1, 2, 3]), tmp_path, n_steps=7)["n_steps"] == 7
    assert copy.is_dir()


def test_an_old_checkpoint_that_cannot_be_removed_does_not_end_the_run(tmp_path, caplog):
    fit(FakeLearner([1, 2, 3, 4]), tmp_path, n_steps=3)
    old = tmp_path / "checkpoints" / "step-000000003"
    old.rename(tmp_path / "moved")
    old.symlink_to(tmp_path / "moved")  # only folders can be removed with their files
    assert fit(FakeLearner([1, 2, 3, 4]), tmp_path, n_steps=9)["n_steps"] == 9
    assert "step-000000003: an old checkpoint that cannot be removed" in caplog.text


@pytest.mark.parametrize("manifest", ["[]", "{}", ""])
def test_a_checkpoint_with_a_broken_manifest_is_passed_over(tmp_path, manifest):
    fit(FakeLearner([1, 2, 3]), tmp_path, n_steps=6)
    (tmp_path / "checkpoints" / "step-000000006" / "manifest.json").write_text(manifest)
    assert checkpoint.load_newest(tmp_path / "checkpoints").step == 3


def test_damaged_checkpoints_do_not_take_the_place_of_intact_ones(tmp_path):
    fit(FakeLearner([1, 2, 3]), tmp_path, n_steps=6)
    (tmp_path / "checkpoints" / "step-000000006" / "manifest.json").write_text("{}")
    fit(FakeLearner([1, 2, 3]), tmp_path, n_steps=4)
    kept = sorted(path.name for path in (tmp_path / "checkpoints").iterdir())
    assert kept == ["step-000000003", "step-000000004"]


def test_the_result_of_a_run_that_is_continued_and_killed_is_made_again(tmp_path):
    def scored(final_score, losses=None):
        return FakeLearner([1, 2, 3, 4], losses, final_score=final_score, save_every=100)

    fit(scored(5), tmp_path, n_steps=4)
    with pytest.raises(ElmoError, match="diverged"):
        fit(scored(6, [1.0] * 5 + [math.nan]), tmp_path, n_steps=8)
    assert fit(scored(7), tmp_path, n_steps=4)["score"] == 7
    assert fit(scored(8), tmp_path, n_steps=4)["score"] == 7


def test_a_checkpoint_of_an_earlier_version_is_refused(tmp_path):
    old = checkpoint.TrainingCheckpoint(3, FakeLearner().state(), {"seconds": 1.0, "losses": []})
    checkpoint.save_checkpoint(tmp_path / "checkpoints", old)
    with pytest.raises(CheckpointError, match="written by an earlier version"):
        fit(FakeLearner(), tmp_path)


@pytest.mark.parametrize("loss", [math.nan, math.inf, 6.0])
def test_a_run_that_diverges_is_stopped_and_keeps_its_checkpoints(tmp_path, loss):
    learner = FakeLearner([1, 2, 3], losses=[1.0] * 4 + [loss], max_loss=5.0)
    with pytest.raises(ElmoError, match=r"step 4: training diverged.*a loss below 5;"):
        fit(learner, tmp_path)
    assert checkpoint.load_newest(tmp_path / "checkpoints").step == 3


def test_metrics_have_the_mean_loss_since_the_last_line(tmp_path):
    learner = FakeLearner(losses=[4.0, 2.0, 9.0], log_every=2, evaluate_every=9, final_score=0)
    fit(learner, tmp_path, n_steps=3)
    assert measured(tmp_path)[0] == (2, 3.0, None)


def test_gradients_of_indexing_are_the_same_every_time_at_two_threads():
    torch.manual_seed(0)
    table, index = torch.randn(50, 2000, requires_grad=True), torch.randint(50, (400,))
    weights = torch.randn(400, 2000)
    torch.set_num_threads(2)
    try:
        with reproducible(CPU):
            found = {
                torch.autograd.grad(table[index], table, weights)[0].numpy().tobytes()
                for _ in range(20)
            }
    finally:
        torch.set_num_threads(1)
    assert len(found) == 1
    assert not torch.are_deterministic_algorithms_enabled()


def test_reproducible_restores_how_torch_treats_other_operations():
    torch.use_deterministic_algorithms(True, warn_only=True)
    try:
        with reproducible(CPU):
            pass
        assert torch.is_deterministic_algorithms_warn_only_enabled()
    finally:
        torch.use_deterministic_algorithms(False)
