"""A linear-chain conditional random field: the best sequence of labels, not the best labels.

In: scores (B, T, K) of each label at each place, lengths (B,). Out: the log-likelihood of given
sequences, marginal probabilities, the best sequences. Some labels may not follow others: such
sequences have no probability, in training and after.
Shapes: B rows, T places, K labels.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

# In place of minus infinity, whose differences are no numbers.
IMPOSSIBLE = -1e4


@dataclass(frozen=True)
class Transitions:
    """Scores of what may stand first, last, and after what."""

    first: Tensor  # (K,)
    last: Tensor  # (K,)
    following: Tensor  # (K, K): from a row's label to a column's

    def __add__(self, other: "Transitions") -> "Transitions":
        return Transitions(
            self.first + other.first, self.last + other.last, self.following + other.following
        )


def constraints(
    labels: Sequence[str], may_follow: Callable[[str | None, str | None], bool]
) -> Transitions:
    """Zero where something may stand, IMPOSSIBLE where not; None is what is before and after."""

    def score(before: str | None, after: str | None) -> float:
        return 0.0 if may_follow(before, after) else IMPOSSIBLE

    return Transitions(
        torch.tensor([score(None, label) for label in labels]),
        torch.tensor([score(label, None) for label in labels]),
        torch.tensor([[score(before, after) for after in labels] for before in labels]),
    )


class Crf(nn.Module):
    """Learned transitions, under constraints."""

    def __init__(self, constraints: Transitions) -> None:
        super().__init__()
        n_labels = len(constraints.first)
        self.first = nn.Parameter(torch.empty(n_labels).uniform_(-0.1, 0.1))
        self.last = nn.Parameter(torch.empty(n_labels).uniform_(-0.1, 0.1))
        self.following = nn.Parameter(torch.empty(n_labels, n_labels).uniform_(-0.1, 0.1))
        # Known by the labels, so not part of what is saved.
        self.register_buffer("_first", constraints.first, persistent=False)
        self.register_buffer("_last", constraints.last, persistent=False)
        self.register_buffer("_following", constraints.following, persistent=False)

    @property
    def transitions(self) -> Transitions:
        """What is learned, and what is allowed."""
        learned = Transitions(self.first, self.last, self.following)
        return learned + Transitions(
            self.get_buffer("_first"), self.get_buffer("_last"), self.get_buffer("_following")
        )

    def log_likelihood(self, scores: Tensor, label_ids: Tensor, lengths: Tensor) -> Tensor:
        """The log-probability of each row's labels (B, T): (B,)."""
        transitions = self.transitions
        chosen = score_paths(scores, label_ids, lengths, transitions)
        return chosen - log_partition(scores, lengths, transitions)

    def best_paths(self, scores: Tensor, lengths: Tensor) -> list[list[int]]:
        """The most probable labels of each row."""
        return viterbi(scores, lengths, self.transitions)

    def marginals(self, scores: Tensor, lengths: Tensor) -> Tensor:
        """The probability of each label at each place, (B, T, K), zero where padded."""
        # The gradient of the log-partition by a score is the probability of taking it.
        with torch.enable_grad():
            free = scores.detach().requires_grad_()
            total = log_partition(free, lengths, self.transitions).sum()
            return torch.autograd.grad(total, free)[0]


def score_paths(
    scores: Tensor, label_ids: Tensor, lengths: Tensor, transitions: Transitions
) -> Tensor:
    """The score of one sequence of labels a row, (B,)."""
    places = torch.arange(scores.shape[1], device=scores.device)
    mask = places < lengths[:, None]  # (B, T)
    emitted = scores.gather(2, label_ids[..., None])[..., 0] * mask
    followed = transitions.following[label_ids[:, :-1], label_ids[:, 1:]] * mask[:, 1:]
    last_ids = label_ids.gather(1, (lengths - 1)[:, None])[:, 0]
    ends = transitions.first[label_ids[:, 0]] + transitions.last[last_ids]
    return emitted.sum(1) + followed.sum(1) + ends


def log_partition(scores: Tensor, lengths: Tensor, transitions: Transitions) -> Tensor:
    """The logarithm of the sum over all sequences, (B,)."""
    total = transitions.first + scores[:, 0]  # (B, K)
    for place in range(1, scores.shape[1]):
        arriving = total[:, :, None] + transitions.following  # (B, K, K)
        new = torch.logsumexp(arriving, dim=1) + scores[:, place]
        total = torch.where((place < lengths)[:, None], new, total)
    return torch.logsumexp(total + transitions.last, dim=1)


def viterbi(scores: Tensor, lengths: Tensor, transitions: Transitions) -> list[list[int]]:
    """The best sequence of labels of each row."""
    best = transitions.first + scores[:, 0]  # (B, K)
    pointers = []  # of each place but the first: from which label the best way came, (B, K)
    unmoved = torch.arange(scores.shape[2], device=scores.device).expand_as(best)
    for place in range(1, scores.shape[1]):
        arriving, came_from = (best[:, :, None] + transitions.following).max(dim=1)
        is_inside = (place < lengths)[:, None]
        best = torch.where(is_inside, arriving + scores[:, place], best)
        pointers.append(torch.where(is_inside, came_from, unmoved))
    label_ids = [(best + transitions.last).argmax(dim=1)]  # (B,), from the end to the start
    for came_from in reversed(pointers):
        label_ids.append(came_from.gather(1, label_ids[-1][:, None])[:, 0])
    paths = torch.stack(label_ids[::-1], dim=1).tolist()
    return [path[:length] for path, length in zip(paths, lengths.tolist(), strict=True)]
