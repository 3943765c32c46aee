"""The head: from a language model's top layer to the probabilities of output words.

In: hidden rows (N, P) and the ids of the target words (N,). Out: a training loss, or exact
log-probabilities. `full`: a softmax over all words. `sampled`: the same model, trained against
sampled words, with sparse gradients. `adaptive`: rare words have narrower rows.
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
    """A sample of distinct words, and how it was drawn."""

    ids: npt.NDArray[np.int64]  # (S,), ascending
    n_tries: int  # number of draws until S distinct words were found
    n_words: int

    def log_expected(self, ids: Tensor) -> Tensor:
        """The log of each word's expected count in the sample, at most zero."""
        number = ids.to(torch.float64)
        probability = ((number + 2) / (number + 1)).log() / np.log(self.n_words + 1)
        expected = -torch.expm1(self.n_tries * torch.log1p(-probability))
        return expected.log().to(torch.float32)


def draw_negatives(n_words: int, n_negatives: int, generator: np.random.Generator) -> Negatives:
    """Draw with P(k) = log((k + 2) / (k + 1)) / log(V + 1) until there are S distinct words."""
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
# Maximum number of logits in memory at a time. Larger chunks are no faster, and above 32 MB each
# of them would be returned to the system and allocated again.
MOST_LOGITS = 4_000_000


class Head(nn.Module, ABC):
    """The base class of heads."""

    kind: HeadKind

    @property
    def has_sparse_gradients(self) -> bool:
        """Whether a training step has gradients for some words only."""
        return False

    def start_from(self, frequencies: npt.NDArray[np.float64]) -> None:
        """Initialize the biases from word frequencies (V,), if the head supports it."""

    @abstractmethod
    def loss(self, hidden: Tensor, targets: Tensor, generator: np.random.Generator) -> Tensor:
        """The training loss, a mean over tokens: (N, P), (N,) -> ().

        `generator` is the source of random draws; the same generator state gives the same loss.
        """

    @abstractmethod
    def log_probs(self, hidden: Tensor) -> Tensor:
        """The log-probability of every word, (N, P) -> (N, V)."""

    @abstractmethod
    def nll(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """The exact negative log-likelihood of the target words, (N, P), (N,) -> (N,)."""

    def log_probs_of(self, rows: Sequence[Tensor], ids: Tensor, n_skipped: int) -> Tensor | None:
        """Log-probabilities of words, or None without a kernel for them; see `FullSoftmax`."""
        return None

    def logits(self, hidden: Tensor, n_at_once: int) -> Iterator[Tensor]:
        """Yield the logits of all words, in chunks of words if possible: (N, P) -> (N, n) each."""
        yield self.log_probs(hidden)


class FullSoftmax(Head):
    """A weight row and a bias for each word."""

    kind: HeadKind = "full"

    def __init__(self, n_words: int, projection_dim: int) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(n_words, projection_dim))
        self.bias = nn.Parameter(torch.zeros(n_words))
        if not self.weight.is_meta:  # meta tensors are filled from a file later
            nn.init.normal_(self.weight, std=1 / math.sqrt(projection_dim))  # like the original

    def start_from(self, frequencies: npt.NDArray[np.float64]) -> None:
        """Set the biases to the log frequencies, so that only the effect of context is learned."""
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
        """Log-probabilities of words per direction and for the mean logits of both directions.

        Per direction (N, P), (N,) -> (directions + 1, N). The first `n_skipped` words are excluded
        from the normalizer of the mean. None if the kernels cannot compute it.
        """
        if not kernels.can_log_sum_exp(rows, self.weight, self.bias):
            return None
        logits = [(hidden * self.weight[ids]).sum(-1) + self.bias[ids] for hidden in rows]
        found = torch.stack([*logits, (logits[0] + logits[-1]) / 2])
        return found - kernels.log_sum_exp(rows, self.weight, self.bias, n_skipped)

    def nll(self, hidden: Tensor, targets: Tensor) -> Tensor:
        """(N, P), (N,) -> (N,), in chunks of tokens; the backward pass recomputes their logits."""
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
    """A full softmax that is trained against words sampled for each step."""

    kind: HeadKind = "sampled"

    def __init__(self, n_words: int, projection_dim: int, n_negatives: int) -> None:
        super().__init__(n_words, projection_dim)
        self.n_negatives = n_negatives

    @property
    def has_sparse_gradients(self) -> bool:
        """False if the sample would be more than half of the words: the loss then uses them all."""
        return self.n_negatives <= len(self.weight) // 2

    def loss(self, hidden: Tensor, targets: Tensor, generator: np.random.Generator) -> Tensor:
        """The mean sampled loss: not a negative log-likelihood, and lower than it.

        Like TensorFlow's sampled softmax with unique log-uniform candidates, shared by all tokens:
        the log of a word's expected count in the sample is subtracted from its logit, and a
        negative that is a token's target word is masked.
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
    """An adaptive softmax (Grave 2017) over words by frequency: rarer bands have narrower rows."""

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
        # torch's module cannot run under autocast: it joins parts of different dtypes.
        with torch.autocast(hidden.device.type, enabled=False):
            hidden = hidden.to(self.bands.head.weight.dtype)
            result: Tensor = -self.bands(hidden, targets).output
        return result


def build_head(kind: HeadKind, n_words: int, projection_dim: int, n_negatives: int = 8192) -> Head:
    """Build a head; `n_negatives` is for training a sampled one."""
    if kind == "sampled":
        return SampledSoftmax(n_words, projection_dim, n_negatives)
    return {"full": FullSoftmax, "adaptive": AdaptiveSoftmax}[kind](n_words, projection_dim)


def _nll(hidden: Tensor, targets: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    return cross_entropy(linear(hidden, weight, bias), targets, reduction="none")


class _SampledLoss(torch.autograd.Function):
    """The sampled loss, with its gradient computed in the same pass, in chunks of tokens.

    The logits (N, S) would be the largest tensor of a training step; they are computed in chunks
    and not kept. The gradients of the words are sparse: rows for the targets and the negatives
    only. The products with the negatives are computed in `dtype`, the rest in float32.
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
        """(N, P), (V, P), (V,), (N,) and the sample -> ()."""
        ids = torch.from_numpy(negatives.ids).to(targets.device)  # (S,), ascending
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
            rounded = scores.to(dtype)  # no copy if it is float32
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
        """Scale the gradients computed in the forward pass."""
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
    """Mask each token's target word among the negatives, so that it does not count twice."""
    place = torch.searchsorted(ids, targets).clamp_(max=len(ids) - 1)
    is_hit = (ids[place] == targets).nonzero().squeeze(-1)
    logits[is_hit, place[is_hit]] = -math.inf
