"""The head: from a language model's top layer to the probabilities of output words.

In: hidden rows (N, P) and the ids of the target words (N,). Out: a loss to train with, or
exact log-probabilities. `full`: every word every time. `sampled`: the same model, trained against
a few drawn words, with gradients for touched words only. `adaptive`: rare words are narrower.
Shapes: N tokens, P projection, V words, S negatives.
"""

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor, nn
from torch.nn.functional import cross_entropy, linear
from torch.utils.checkpoint import checkpoint

from elmo.network import kernels


@dataclass(frozen=True)
class Negatives:
    """Distinct words, and the draw they come from."""

    ids: npt.NDArray[np.int64]  # (S,), rising
    n_tries: int  # draws until there were S distinct ones
    n_words: int

    def log_expected(self, ids: Tensor) -> Tensor:
        """The log of how often each word is expected in the sample, at most zero."""
        number = ids.to(torch.float64)
        probability = ((number + 2) / (number + 1)).log() / np.log(self.n_words + 1)
        expected = -torch.expm1(self.n_tries * torch.log1p(-probability))
        return expected.log().to(torch.float32)


def draw_negatives(n_words: int, n_negatives: int, generator: np.random.Generator) -> Negatives:
    """Draw with P(k) = log((k + 2) / (k + 1)) / log(V + 1) until S distinct words are there."""
    draws = np.empty(0, dtype=np.int64)
    while True:
        uniform = generator.random(2 * n_negatives)
        more = np.exp(uniform * np.log(n_words + 1)).astype(np.int64) - 1
        draws = np.concatenate([draws, np.minimum(more, n_words - 1)])
        distinct, first_draw = np.unique(draws, return_index=True)
        if len(distinct) >= n_negatives:
            n_tries = int(np.sort(first_draw)[n_negatives - 1]) + 1
            return Negatives(distinct[first_draw < n_tries], n_tries, n_words)


HeadKind = Literal["sampled", "full", "adaptive"]
# Logits in memory at once. Larger pieces are no faster, and over 32 MB each of them would be given
# back to the system and asked for again.
MOST_LOGITS = 4_000_000


class Head(nn.Module, ABC):
    """What all heads do."""

    kind: HeadKind

    @property
    def has_sparse_gradients(self) -> bool:
        """Whether training touches only some words in a step."""
        return False

    def start_from(self, frequencies: npt.NDArray[np.float64]) -> None:
        """Begin with what words are likely anywhere, if the head can: (V,) -> none."""

    @abstractmethod
    def loss(self, hidden: Tensor, targets: Tensor, generator: np.random.Generator) -> Tensor:
        """What training lowers, the mean over tokens: (N, P), (N,) -> ().

        `generator` draws what the loss needs to draw; the same state of it gives the same loss.
        """

    @abstractmethod
    def log_probs(self, hidden: Tensor) -> Tensor:
        """The log-probability of every word, (N, P) -> (N, V)."""

    @abstractmethod
    def nll(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """The exact negative log-likelihood of the target words, (N, P), (N,) -> (N,)."""

    def log_probs_of(self, rows: Sequence[Tensor], ids: Tensor, n_skipped: int) -> Tensor | None:
        """What a head that has a kernel for it gives; see `FullSoftmax`."""
        return None

    def logits(self, hidden: Tensor, n_at_once: int) -> Iterator[Tensor]:
        """The logits of all words, some at a time where that can be: (N, P) -> (N, n) each."""
        yield self.log_probs(hidden)


class FullSoftmax(Head):
    """A weight row and a bias for each word."""

    kind: HeadKind = "full"

    def __init__(self, n_words: int, projection_dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_words, projection_dim))
        self.bias = nn.Parameter(torch.zeros(n_words))
        if not self.weight.is_meta:  # such a one is filled from a file
            nn.init.normal_(self.weight, std=1 / math.sqrt(projection_dim))  # as the original

    def start_from(self, frequencies: npt.NDArray[np.float64]) -> None:
        """Let the biases be the logs: what to learn is then only how a context differs."""
        with torch.no_grad():
            self.bias.copy_(torch.from_numpy(np.log(frequencies)))

    def loss(self, hidden: Tensor, targets: Tensor, generator: np.random.Generator) -> Tensor:
        """The mean negative log-likelihood."""
        return self.nll(hidden, targets).mean()

    def log_probs(self, hidden: Tensor) -> Tensor:
        """(N, P) -> (N, V)."""
        return linear(hidden, self.weight, self.bias).log_softmax(-1)

    def logits(self, hidden: Tensor, n_at_once: int) -> Iterator[Tensor]:
        """(N, P) -> (N, n) each, `n_at_once` words or fewer."""
        pieces = zip(
            torch.split(self.weight, n_at_once), torch.split(self.bias, n_at_once), strict=True
        )
        for weight, bias in pieces:
            yield linear(hidden, weight, bias)

    def log_probs_of(self, rows: Sequence[Tensor], ids: Tensor, n_skipped: int) -> Tensor | None:
        """Log-probabilities of words by direction and of the mean of both, where kernels can.

        Per direction (N, P), (N,) -> (directions + 1, N). The first `n_skipped` words do not count
        in the mean.
        """
        if not kernels.can_log_sum_exp(rows, self.weight, self.bias):
            return None
        logits = [(hidden * self.weight[ids]).sum(-1) + self.bias[ids] for hidden in rows]
        found = torch.stack([*logits, (logits[0] + logits[-1]) / 2])
        return found - kernels.log_sum_exp(rows, self.weight, self.bias, n_skipped)

    def nll(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """(N, P), (N,) -> (N,), some tokens at a time; a gradient makes their logits once more."""
        if (fast := self.log_probs_of([hidden], targets, 0)) is not None:
            return -fast[0]
        n_at_once = max(1, MOST_LOGITS // len(self.weight))
        pieces = zip(torch.split(hidden, n_at_once), torch.split(targets, n_at_once), strict=True)
        if not torch.is_grad_enabled():
            return torch.cat([_nll(*piece, self.weight, self.bias) for piece in pieces])
        return torch.cat(
            [
                checkpoint(_nll, *piece, self.weight, self.bias, use_reentrant=False)
                for piece in pieces
            ]
        )


class SampledSoftmax(FullSoftmax):
    """The same words and probabilities, trained against words that are drawn for each step."""

    kind: HeadKind = "sampled"

    def __init__(self, n_words: int, projection_dim: int, n_negatives: int) -> None:
        super().__init__(n_words, projection_dim)
        self.n_negatives = n_negatives

    @property
    def has_sparse_gradients(self) -> bool:
        """Not where the sample would be most of the words: then the loss takes all of them."""
        return self.n_negatives <= len(self.weight) // 2

    def loss(self, hidden: Tensor, targets: Tensor, generator: np.random.Generator) -> Tensor:
        """The mean sampled loss: not a likelihood, and lower than one.

        As TensorFlow's sampled softmax with unique log-uniform candidates, shared by all tokens: a
        logit is lowered by the log of how often its word is expected in the sample, and a
        negative is left out where it is the target word.
        """
        if not self.has_sparse_gradients:
            return super().loss(hidden, targets, generator)
        negatives = draw_negatives(len(self.weight), self.n_negatives, generator)
        device = hidden.device.type
        is_autocast = torch.is_autocast_enabled(device)
        dtype = torch.get_autocast_dtype(device) if is_autocast else self.weight.dtype
        with torch.autocast(device, enabled=False):
            loss: Tensor = _SampledLoss.apply(  # type: ignore[no-untyped-call]
                hidden.to(self.weight.dtype), self.weight, self.bias, targets, negatives, dtype
            )
        return loss


class AdaptiveSoftmax(Head):
    """Frequent words first; the rarer the band of words, the narrower its rows (Grave 2017)."""

    kind: HeadKind = "adaptive"

    def __init__(self, n_words: int, projection_dim: int) -> None:
        super().__init__()
        bands = sorted({max(1, n_words // 20), max(2, n_words // 4)})
        self.bands = nn.AdaptiveLogSoftmaxWithLoss(
            projection_dim, n_words, cutoffs=bands, div_value=2.0, head_bias=True
        )

    def loss(self, hidden: Tensor, targets: Tensor, generator: np.random.Generator) -> Tensor:
        """The mean negative log-likelihood."""
        return self.nll(hidden, targets).mean()

    def log_probs(self, hidden: Tensor) -> Tensor:
        """(N, P) -> (N, V)."""
        return self.bands.log_prob(hidden)

    def nll(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """(N, P), (N,) -> (N,)."""
        result: Tensor = -self.bands(hidden, targets).output
        return result


def build_head(kind: HeadKind, n_words: int, projection_dim: int, n_negatives: int = 8192) -> Head:
    """A new head; `n_negatives` is for training a sampled one."""
    if kind == "sampled":
        return SampledSoftmax(n_words, projection_dim, n_negatives)
    return {"full": FullSoftmax, "adaptive": AdaptiveSoftmax}[kind](n_words, projection_dim)


def _nll(hidden: Tensor, targets: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return cross_entropy(linear(hidden, weight, bias), targets, reduction="none")


class _SampledLoss(torch.autograd.Function):
    """The sampled loss with its gradient made in the same pass, some tokens at a time.

    The logits (N, S) are the largest thing in a training step; here they are never whole, never
    kept, and the words' gradients are sparse: rows for the targets and the negatives alone. The
    products with the negatives are made in `dtype`, the rest in float32.
    """

    @staticmethod
    def forward(
        ctx: Any,  # noqa: ANN401 - torch's own
        hidden: Tensor,
        weight: Tensor,
        bias: Tensor,
        targets: Tensor,
        negatives: Negatives,
        dtype: torch.dtype,
    ) -> Tensor:
        """() from (N, P), (V, P), (V,), (N,) and the sample."""
        ids = torch.from_numpy(negatives.ids).to(targets.device)  # (S,), rising
        negative_weight = weight[ids].to(dtype)  # (S, P)
        negative_bias = bias[ids] - negatives.log_expected(ids)  # (S,)
        target_weight = weight[targets]  # (N, P)
        target_bias = bias[targets] - negatives.log_expected(targets)  # (N,)
        grad_hidden = torch.empty_like(hidden)
        grad_negative_weight = torch.zeros_like(negative_weight, dtype=weight.dtype)
        grad_negative_bias = torch.zeros_like(negative_bias)
        grad_target_bias = torch.empty_like(target_bias)
        loss = hidden.new_zeros(())
        n_at_once = max(1, MOST_LOGITS // len(ids))
        for start in range(0, len(hidden), n_at_once):
            rows = slice(start, start + n_at_once)
            some = hidden[rows]  # (n, P)
            target_logits = (some * target_weight[rows]).sum(-1) + target_bias[rows]  # (n,)
            logits = _logits(some, negative_weight, negative_bias)  # (n, S)
            _leave_out_targets(logits, ids, targets[rows])
            highest = torch.maximum(logits.amax(-1), target_logits)
            scores = logits.sub_(highest[:, None]).exp_()  # (n, S)
            target_scores = (target_logits - highest).exp()
            total = scores.sum(-1) + target_scores  # (n,)
            loss += (total.log() + highest - target_logits).sum()
            # The gradient of a logit is its probability, minus one for the target word.
            grad_target = target_scores / total - 1
            grad_target_bias[rows] = grad_target
            rounded = scores.to(dtype)  # nothing new where it is float32
            grad_hidden[rows] = rounded @ negative_weight
            grad_hidden[rows].div_(total[:, None]).addcmul_(
                grad_target[:, None], target_weight[rows]
            )
            _add_product(grad_negative_weight, rounded.T, some / total[:, None])
            grad_negative_bias.addmv_(scores.T, total.reciprocal())
        grad_target_weight = grad_target_bias[:, None] * hidden
        ctx.save_for_backward(
            grad_hidden,
            torch.cat([ids, targets]),
            torch.cat([grad_negative_weight, grad_target_weight]),
            torch.cat([grad_negative_bias, grad_target_bias]),
        )
        ctx.n_words = len(weight)
        return loss / len(hidden)

    @staticmethod
    def backward(ctx: Any, grad_loss: Tensor) -> tuple[Tensor | None, ...]:  # noqa: ANN401
        """Scale what the forward pass has made."""
        grad_hidden, ids, grad_weight, grad_bias = ctx.saved_tensors
        scale = grad_loss / len(grad_hidden)
        size = (ctx.n_words, grad_weight.shape[1])
        return (
            grad_hidden * scale,
            torch.sparse_coo_tensor(ids[None], grad_weight * scale, size, check_invariants=False),
            torch.sparse_coo_tensor(ids[None], grad_bias * scale, size[:1], check_invariants=False),
            None,
            None,
            None,
        )


def _logits(hidden: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """(n, S), the product in the weight's dtype, the bias added in its own."""
    if hidden.dtype == weight.dtype:
        return torch.addmm(bias, hidden, weight.T)
    return (hidden.to(weight.dtype) @ weight.T).add(bias)


def _add_product(total: Tensor, left: Tensor, right: Tensor) -> None:
    """total += left @ right, the product in the left's dtype."""
    if total.dtype == left.dtype:
        total.addmm_(left, right)
    else:
        total += left @ right.to(left.dtype)


def _leave_out_targets(logits: Tensor, ids: Tensor, targets: Tensor) -> None:
    """Where a token's own word is among the negatives, it must not count twice."""
    place = torch.searchsorted(ids, targets).clamp_(max=len(ids) - 1)
    is_hit = (ids[place] == targets).nonzero().squeeze(-1)
    logits[is_hit, place[is_hit]] = -math.inf
