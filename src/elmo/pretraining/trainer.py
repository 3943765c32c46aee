"""The loop of a training run: steps, held-out perplexity, checkpoints, until its end.

In: a model, texts, settings, a run's folder, a budget. Out: the folder with checkpoints, metrics
and the model. What one step does is in learner.py; what is said meanwhile, in report.py.
"""

import dataclasses
import logging
import math
from dataclasses import dataclass

import elmo
from elmo.errors import DataError, ElmoError
from elmo.models import model_folder
from elmo.models.model_folder import Model
from elmo.network import kernels
from elmo.pretraining.batches import InputOutputEncoder, Streams
from elmo.pretraining.config import PretrainConfig
from elmo.pretraining.corpus import TokenCache
from elmo.pretraining.learner import Learned, Learner
from elmo.pretraining.perplexity import Perplexity, measure, sample_sentences
from elmo.pretraining.report import Report
from elmo.training.budget import Budget, Plan
from elmo.training.checkpoint import TrainingCheckpoint, load_newest, save_checkpoint
from elmo.training.distributed import Processes
from elmo.training.optimizers import scheduled_rate
from elmo.training.plots import draw_pretraining
from elmo.training.run_folder import RunFolder
from elmo.training.signals import catch_signals

MOST_STEPS_UNMEASURED = 1000
# Times the loss of a blind guess: more means that training has come apart.
EXPLODED = 3.0

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Texts:
    """What a run reads."""

    train: TokenCache
    heldout: TokenCache


@dataclass(frozen=True)
class Result:
    """How a run ended: at its end, or stopped before."""

    n_steps: int
    is_finished: bool
    heldout: Perplexity | None  # of a finished run, in the process that measures


@dataclass(frozen=True)
class Best:
    """The best that was measured on held-out text, and how many times since it was not beaten."""

    mean: float = math.inf
    n_worse: int = 0

    def after(self, mean: float) -> "Best":
        """With one more measurement."""
        return Best(mean, 0) if mean < self.mean else Best(self.mean, self.n_worse + 1)


class Trainer:
    """The loop of a run."""

    def __init__(
        self,
        model: Model,
        texts: Texts,
        config: PretrainConfig,
        run: RunFolder,
        processes: Processes,
        budget: Budget,
    ) -> None:
        if texts.train.counts.n_tokens < config.stream.batch_size:
            raise DataError(
                f"{texts.train.counts.n_tokens} words of text, expected at least one for each of "
                f"{config.stream.batch_size} rows; give more text, or set stream.batch_size lower"
            )
        self._model = model
        self._texts = texts
        self._config = config
        self._run = run
        self._processes = processes
        self._encoder = InputOutputEncoder.of(model)
        self._streams = Streams(
            texts.train,
            self._encoder,
            **dataclasses.asdict(config.stream),
            directions=config.model.directions,
        )
        self._learner = Learner(model, self._streams, config, processes)
        self._plan = Plan(budget, math.ceil(config.train.n_epochs / self._streams.n_epochs_read(1)))
        twice_an_epoch = max(1, round(0.5 / self._streams.n_epochs_read(1)))
        self._evaluate_every = config.train.evaluate_every or min(
            MOST_STEPS_UNMEASURED, twice_an_epoch
        )
        self._step = 0
        self._saved_step: int | None = None
        # Since the report's last line: the losses, and when that was.
        self._losses: list[float] = []
        self._told_at = 0.0
        self._best = Best()

    def fit(self) -> Result:
        """Take steps until nothing is left of the budget, or somebody stops the run."""
        kernels.keep_freed_memory()
        self._resume()
        is_silent = not self._processes.is_first
        with Report(self._run.metrics, self._step, is_silent=is_silent) as report:
            with catch_signals() as stop:
                while self._processes.agree(not (stop.is_set() or self._is_over())):
                    self._take_step(report)
            self._save()
            if not self._processes.agree(self._is_over()):
                log.info("stopped and saved at step %d; the same command goes on", self._step)
                return Result(self._step, False, None)
            heldout = self._finish(report)
            self._processes.wait()
            return Result(self._step, True, heldout)

    def _take_step(self, report: Report) -> None:
        rate = self._processes.agree(self._learning_rate())
        learned = self._learner.learn(self._step, rate)
        self._check(learned)
        self._step += 1
        self._losses.append(learned.loss)
        self._plan.update(self._step)
        train = self._config.train
        if self._step % train.log_every == 0:
            self._tell_step(report, learned, rate)
        if self._step % self._evaluate_every == 0:
            self._evaluate(report, train.n_evaluation_sentences)
        if self._step % train.save_every == 0:
            self._save()

    def _is_over(self) -> bool:
        patience = self._config.train.patience
        has_waited = patience is not None and self._best.n_worse >= patience
        return has_waited or self._plan.is_over(self._step)

    def _learning_rate(self) -> float:
        optimizer = self._config.optimizer
        assert optimizer.learning_rate is not None
        assert optimizer.n_warmup_steps is not None
        assert optimizer.decay is not None
        return scheduled_rate(
            self._step,
            self._plan.n_steps,
            highest=optimizer.learning_rate,
            n_warmup=optimizer.n_warmup_steps,
            decay=optimizer.decay,
        )

    def _check(self, learned: Learned) -> None:
        blind = math.log(len(self._encoder.vocabulary))
        if math.isfinite(learned.gradient_norm) and learned.loss < EXPLODED * blind:
            return
        raise ElmoError(
            f"step {self._step}: the loss is {learned.loss:.4g} and the gradient's length "
            f"{learned.gradient_norm:.4g}, expected a loss near or below {blind:.1f}: it came "
            f"apart; the last checkpoint in {self._run.checkpoints} is good; start anew with a "
            "lower optimizer.learning_rate or optimizer.max_grad_norm"
        )

    def _tell_step(self, report: Report, learned: Learned, rate: float) -> None:
        seconds, n_tokens = self._plan.seconds, self._streams.batch_size * self._streams.bptt_length
        values = {
            "loss": sum(self._losses) / len(self._losses),
            "gradient_norm": learned.gradient_norm,
            "learning_rate": rate,
            "epoch": self._streams.n_epochs_read(self._step),
            "tokens": self._step * n_tokens,
            "seconds": seconds,
            "tokens_per_second": len(self._losses) * n_tokens / (seconds - self._told_at),
        }
        self._losses, self._told_at = [], seconds
        report.tell_step(self._step, self._plan.n_steps, values)

    def _evaluate(self, report: Report, n_sentences: int | None) -> Perplexity | None:
        """Measure held-out text, and put the model into its folder if it is to be kept."""
        if not self._processes.is_first:
            return None
        with self._learner.averaged():
            perplexity = self._measure(self._model, n_sentences)
            report.tell_heldout(self._step, perplexity, self._plan.seconds)
            self._best = self._best.after(perplexity.mean)
            if self._config.train.patience is None or self._best.n_worse == 0:
                model_folder.save(self._run.model, self._model, card=self._card(perplexity))
        return perplexity

    def _measure(self, model: Model, n_sentences: int | None) -> Perplexity:
        sentences = sample_sentences(self._texts.heldout, n_sentences)
        assert model.head is not None
        return measure(model.bilm, model.head, self._encoder, sentences)

    def _finish(self, report: Report) -> Perplexity | None:
        """Measure the model that is kept on all of the held-out text, once."""
        if not self._processes.is_first:
            return None
        found = self._run.read_result()
        if found is not None and found["n_steps"] == self._step:
            return Perplexity(**found["heldout"])
        kept = self._model
        if self._config.train.patience is not None and self._run.model.exists():
            kept = model_folder.load(self._run.model)
            for module in (kept.bilm, kept.head):
                assert module is not None
                module.to(self._processes.device)
        with self._learner.averaged():
            perplexity = self._measure(kept, None)
            model_folder.save(self._run.model, kept, card=self._card(perplexity))
        report.tell_heldout(self._step, perplexity, self._plan.seconds)
        draw_pretraining(self._run.metrics, self._run.path / "learning_curve.png")
        heldout = dataclasses.asdict(perplexity)
        self._run.write_result({"n_steps": self._step, "heldout": heldout})
        return perplexity

    def _card(self, perplexity: Perplexity) -> str:
        """What is known of a model by its training."""
        counts, stream = self._texts.train.counts, self._config.stream
        return (
            f"{model_folder.default_card(self._model)}\n## Training\n\n"
            f"{self._step:,} steps of {stream.batch_size} x {stream.bptt_length} tokens, "
            f"{self._streams.n_epochs_read(self._step):.2f} epochs of a text of "
            f"{counts.n_tokens:,} tokens (sha256 {counts.sha256[:16]}), by elmo-torch "
            f"{elmo.__version__}.\n\nHeld-out perplexity, each sentence from its start, full "
            f"softmax: {perplexity.describe()}; {perplexity.bits_per_character:.3f} bits per "
            f"character; {perplexity.unknown_rate:.2%} of {perplexity.tokens:,} words unknown.\n"
        )

    def _save(self) -> None:
        if self._saved_step == self._step:
            return
        self._saved_step = self._step
        tensors = self._learner.tensors()  # all processes take part
        if self._processes.is_first:
            numbers = {
                "seconds": self._plan.seconds,
                "n_planned": self._plan.n_steps,
                "losses": self._losses,
                "best": dataclasses.asdict(self._best),
            }
            save_checkpoint(self._run.checkpoints, TrainingCheckpoint(self._step, tensors, numbers))

    def _resume(self) -> None:
        found = load_newest(self._run.checkpoints)
        if found is None:
            self._plan.start(0.0, None)
        else:
            self._learner.load(found.tensors)
            self._step = self._saved_step = found.step
            self._losses = found.numbers["losses"]
            self._best = Best(**found.numbers["best"])
            self._plan.start(found.numbers["seconds"], found.numbers["n_planned"])
            log.info("going on from step %d", self._step)
        self._told_at = self._plan.seconds
