"""The learner of pre-training: a biLM with a head that predicts the next and the previous word.

In: a model, texts, settings; for each step its number and learning rate. Out: the loss; the model,
its optimizer and the recurrent state of its rows are updated. All random numbers depend on the seed
and the number of the step alone, so a step depends only on what `state()` returns.
Shapes: B rows, N packed tokens of a direction, R directions, P projection.
"""

import dataclasses
import math
from collections.abc import Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import dropout
from torch.nn.parallel import DistributedDataParallel

import elmo
from elmo.errors import ConfigError, DataError
from elmo.models import model_folder
from elmo.models.model_folder import Model
from elmo.network.bilm import BiLM, BiLMState
from elmo.pretraining.batches import InputOutputEncoder, StreamBatch, Streams
from elmo.pretraining.config import OptimizerConfig, PretrainConfig
from elmo.pretraining.corpus import TokenCache
from elmo.pretraining.perplexity import Perplexity, measure, sample_sentences
from elmo.training.averages import Averages
from elmo.training.distributed import Processes
from elmo.training.loop import (
    Evaluation,
    History,
    Schedule,
    StepResult,
    seed_step,
    with_prefix,
)
from elmo.training.optimizers import (
    Optimizer,
    Parameters,
    build_adagrad,
    build_adamw,
    build_muon,
    clip_gradients,
)
from elmo.training.plots import ScorePlot

MAX_EVALUATION_INTERVAL = 1000  # steps
# Training has diverged at a loss this many times that of a uniform distribution.
DIVERGED = 3.0


@dataclass(frozen=True)
class Texts:
    """The training text and the held-out text."""

    train: TokenCache
    heldout: TokenCache


class StreamEncoder(nn.Module):
    """The biLM over a batch of streams; a separate module, as DDP wraps a module's `forward`."""

    def __init__(self, bilm: BiLM, dropout_rate: float) -> None:
        super().__init__()
        self.bilm = bilm
        self.dropout_rate = dropout_rate

    def forward(self, batch: StreamBatch, state: BiLMState) -> tuple[Tensor, BiLMState]:
        """The top layer of all directions, (R * N, P), and the state after the batch."""
        layers, after = self.bilm.run(
            self.bilm.token_vectors(batch.char_ids),
            batch.index,
            batch.batch_sizes,
            state,
            batch.resets,
            self.dropout_rate,
        )
        return dropout(torch.cat(layers[-1]), self.dropout_rate, self.training), after


class PretrainLearner:
    """A language model in training; a `Learner` of the training loop."""

    score_plot = ScorePlot(r"heldout_(forward|backward)", "held-out perplexity", "log")

    def __init__(
        self, model: Model, texts: Texts, config: PretrainConfig, processes: Processes
    ) -> None:
        assert model.head is not None
        _check_sizes(texts, config, processes)
        self._model = model
        self._texts = texts
        self._encoder = InputOutputEncoder.of(model)
        self.streams = Streams(
            texts.train,
            self._encoder,
            **dataclasses.asdict(config.stream),
            directions=config.model.directions,
        )
        self.schedule = _build_schedule(config, self.streams, len(self._encoder.vocabulary))
        self._bilm = model.bilm.to(processes.device).train()
        self._head = model.head.to(processes.device).train()
        self._config = config
        self._processes = processes
        self._rows = processes.own_rows(self.streams.batch_size)
        self._state = self._bilm.initial_state(len(self._rows))
        encoder = StreamEncoder(self._bilm, config.train.dropout)
        is_shared = processes.n_processes > 1 and any(p.requires_grad for p in encoder.parameters())
        self._stream_encoder = DistributedDataParallel(encoder) if is_shared else encoder
        dense = _trained_parameters(self._bilm, "bilm")
        words = _trained_parameters(self._head, "head")
        sparse = words if self._head.has_sparse_gradients else {}
        dense |= {} if sparse else words
        self._trained = [*dense.values(), *sparse.values()]
        n_blocks = {f"bilm.{name}": n for name, n in self._bilm.hidden_matrices().items()}
        self._optimizer = _build_optimizer(config.optimizer, dense, sparse, n_blocks)
        self._averages = Averages(dense | sparse, config.train.ema_decay)

    def step(self, step: int, learning_rate: float) -> StepResult:
        """Train on the batch of a step."""
        seed_step(self._config.train.seed, step, self._processes.rank)
        n_parts = self._config.train.n_accumulate
        turn = self.streams.rows(step)
        n_own = len(self._rows) // turn.step // n_parts
        states: list[BiLMState] = []
        loss = torch.zeros((), device=self._processes.device)
        for part in range(n_parts):
            with self._sync_after_last(part == n_parts - 1):
                part_loss, state = self.loss(step, range(part * n_own, (part + 1) * n_own))
                (part_loss * self._loss_scale / n_parts).backward()  # type: ignore[no-untyped-call]
            states.append(state)
            loss += part_loss.detach() / n_parts
        self._keep_state(turn, _join_rows(states))
        self._processes.average_gradients(self._head.parameters())
        assert self._config.optimizer.max_grad_norm is not None
        norm = clip_gradients(self._trained, self._config.optimizer.max_grad_norm)
        self._optimizer.step(learning_rate)
        self._averages.update(step + 1)
        mean_loss = float(self._processes.sum(loss)) / self._processes.n_processes
        n_rows = self.streams.batch_size // turn.step
        return StepResult(mean_loss, norm, n_rows * self.streams.bptt_length)

    def loss(self, step: int, own: range) -> tuple[Tensor, BiLMState]:
        """The loss of some of this process's rows of a step, and their state after it."""
        turn = self.streams.rows(step)
        first = self._rows.start // turn.step
        part = slice(first + own.start, first + own.stop)
        batch = self.streams.batch(step, part).to(self._processes.device)
        is_half = self._config.train.dtype == "bfloat16"
        with torch.autocast(self._processes.device.type, torch.bfloat16, enabled=is_half):
            before = self._state.rows(turn).rows(slice(own.start, own.stop))
            hidden, state = self._stream_encoder(batch, before)
            # Negative samples are the same for all processes and parts, as in an undivided batch.
            generator = np.random.default_rng((self._config.train.seed, step))
            loss = self._head.loss(hidden, torch.cat(batch.targets), generator)
        return loss, state

    def state(self) -> dict[str, Tensor]:
        """Everything that the next step depends on; all processes must call it together."""
        return {
            **{f"bilm.{name}": tensor for name, tensor in self._bilm.state_dict().items()},
            **{f"head.{name}": tensor for name, tensor in self._head.state_dict().items()},
            **{f"optimizer.{name}": part for name, part in self._optimizer.state().items()},
            **{f"average.{name}": tensor for name, tensor in self._averages.state().items()},
            "state.hidden": self._processes.all_gather(self._state.hidden, dim=2),
            "state.cell": self._processes.all_gather(self._state.cell, dim=2),
        }

    def load_state(self, state: Mapping[str, Tensor]) -> None:
        """Restore what `state` returned."""
        self._bilm.load_state_dict(with_prefix(state, "bilm."))
        self._head.load_state_dict(with_prefix(state, "head."))
        self._optimizer.load_state(with_prefix(state, "optimizer."))
        self._averages.load_state(with_prefix(state, "average."))
        own = slice(self._rows.start, self._rows.stop)
        rows = BiLMState(state["state.hidden"], state["state.cell"]).rows(own)
        device = self._processes.device
        self._state = BiLMState(rows.hidden.to(device, copy=True), rows.cell.to(device, copy=True))

    def evaluate(self) -> Evaluation:
        """The perplexity of a sample of the held-out text."""
        with self._averages.in_place():
            return self._evaluate(self._model, self._config.train.n_evaluation_sentences)

    def evaluate_final(self, folder: Path, step: int) -> Evaluation:
        """The perplexity of the saved model on all of the held-out text."""
        kept = self._model
        if self.schedule.keeps_best and folder.exists():
            kept = model_folder.load(folder)
            for module in (kept.bilm, kept.head):
                assert module is not None
                module.to(self._processes.device)
        with self._averages.in_place():
            evaluation = self._evaluate(kept, None)
            model_folder.save(folder, kept, card=self._card(step, evaluation))
        return evaluation

    def save_model(self, folder: Path, step: int, evaluation: Evaluation) -> None:
        """Save the model with a card that says how it was trained."""
        with self._averages.in_place():
            model_folder.save(folder, self._model, card=self._card(step, evaluation))

    def result(self, history: History) -> dict[str, Any]:
        """Nothing besides the evaluation."""
        return {}

    def _evaluate(self, model: Model, n_sentences: int | None) -> Evaluation:
        assert model.head is not None
        sentences = sample_sentences(self._texts.heldout, n_sentences)
        perplexity = measure(model.bilm, model.head, self._encoder, sentences)
        values = dataclasses.asdict(perplexity)
        return Evaluation(
            score=-perplexity.mean,
            metrics={f"heldout_{name}": x for name, x in values.items() if x is not None},
            summary=f"held-out perplexity {perplexity.describe()}",
            details={"heldout": values},
        )

    def _card(self, step: int, evaluation: Evaluation) -> str:
        counts, streams = self._texts.train.counts, self.streams
        sizes = sorted({self._config.stream.smallest_batch_size, streams.batch_size})
        perplexity = Perplexity(**evaluation.details["heldout"])
        return (
            f"{model_folder.default_card(self._model)}\n## Training\n\n"
            f"{step:,} steps of {' to '.join(map(str, sizes))} x {streams.bptt_length} tokens, "
            f"{streams.n_epochs_read(step):.2f} epochs of a text of "
            f"{counts.n_tokens:,} tokens (sha256 {counts.sha256[:16]}), by elmo-torch "
            f"{elmo.__version__}.\n\nHeld-out perplexity, each sentence from its start, full "
            f"softmax: {perplexity.describe()}; {perplexity.bits_per_character:.3f} bits per "
            f"character; {perplexity.unknown_rate:.2%} of {perplexity.tokens:,} words unknown.\n"
        )

    def _keep_state(self, turn: slice, after: BiLMState) -> None:
        """Store the state after a step of the rows of this process that are in `turn`."""
        if turn.step == 1:
            self._state = after
            return
        self._state.hidden[:, :, turn] = after.hidden
        self._state.cell[:, :, turn] = after.cell

    @property
    def _loss_scale(self) -> float:
        return self._config.stream.bptt_length if self._config.optimizer.scales_loss else 1.0

    def _sync_after_last(self, is_last: bool) -> AbstractContextManager[None]:
        """Synchronize gradients once per step, in the backward pass of its last part."""
        if is_last or not isinstance(self._stream_encoder, DistributedDataParallel):
            return nullcontext()
        waiting: AbstractContextManager[None] = self._stream_encoder.no_sync()
        return waiting


def _check_sizes(texts: Texts, config: PretrainConfig, processes: Processes) -> None:
    n_tokens, batch_size = texts.train.counts.n_tokens, config.stream.batch_size
    if n_tokens < batch_size:
        raise DataError(
            f"{n_tokens} words of training text, expected at least stream.batch_size, "
            f"which is {batch_size}"
        )
    n_processes, n_parts = processes.n_processes, config.train.n_accumulate
    smallest = config.stream.smallest_batch_size
    if smallest % (n_processes * n_parts):
        raise ConfigError(
            f"the initial batch size is {smallest}, expected a multiple of the number of processes "
            f"({n_processes}) times train.n_accumulate ({n_parts})"
        )


def _build_schedule(config: PretrainConfig, streams: Streams, n_words: int) -> Schedule:
    train, optimizer = config.train, config.optimizer
    assert optimizer.learning_rate is not None
    assert optimizer.n_warmup_steps is not None
    assert optimizer.decay is not None
    half_an_epoch = max(1, streams.n_steps(0.5))
    return Schedule(
        n_steps=streams.n_steps(train.n_epochs),
        n_epochs_read=streams.n_epochs_read,
        log_every=train.log_every,
        evaluate_every=train.evaluate_every or min(MAX_EVALUATION_INTERVAL, half_an_epoch),
        save_every=train.save_every,
        patience=train.patience,
        keeps_best=train.patience is not None,
        learning_rate=optimizer.learning_rate,
        n_warmup_steps=optimizer.n_warmup_steps,
        decay=optimizer.decay,
        max_loss=DIVERGED * math.log(n_words),
    )


def _build_optimizer(
    config: OptimizerConfig, dense: Parameters, sparse: Parameters, n_blocks: Mapping[str, int]
) -> Optimizer:
    if config.kind == "adagrad":
        return build_adagrad(dense, sparse)
    betas, weight_decay = (config.beta1, config.beta2), config.weight_decay
    if config.kind == "adamw":
        return build_adamw(dense, sparse, betas=betas, weight_decay=weight_decay)
    return build_muon(
        dense,
        sparse,
        n_blocks=n_blocks,
        every=config.muon_every,
        momentum=config.momentum,
        betas=betas,
        weight_decay=weight_decay,
    )


def _trained_parameters(module: nn.Module, prefix: str) -> dict[str, nn.Parameter]:
    return {n: p for n, p in module.named_parameters(prefix) if p.requires_grad}


def _join_rows(states: list[BiLMState]) -> BiLMState:
    """Concatenate the states of the parts of a batch, detached from the graph."""
    return BiLMState(
        torch.cat([state.hidden for state in states], dim=2).detach(),
        torch.cat([state.cell for state in states], dim=2).detach(),
    )
