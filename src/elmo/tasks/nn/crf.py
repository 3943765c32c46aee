"""Linear-chain conditional random field (Lafferty et al. 2001).

In: emission scores (B, T, K) and lengths (B,). Out: the log-likelihood of label sequences, and the
best sequences (Viterbi). Forbidden transitions have a score of IMPOSSIBLE, in training and
decoding.
Shapes: B rows, T tokens, K labels.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor, nn

# Instead of minus infinity, whose differences are NaN.
IMPOSSIBLE = -1e4


@dataclass(frozen=True)
class Transitions:
    """Scores of the first label, of the last label, and of each pair of neighbors."""

    first: Tensor  # (K,)
    last: Tensor  # (K,)
    following: Tensor  # (K, K): from the row's label to the column's

    def __add__(self, other: "Transitions") -> "Transitions":
        return Transitions(
            self.first + other.first, self.last + other.last, self.following + other.following
        )


def transition_constraints(
    labels: Sequence[str], may_follow: Callable[[str | None, str | None], bool]
) -> Transitions:
    """0 for allowed transitions, else IMPOSSIBLE; `may_follow` gets None at both ends of a row."""

    def score(before: str | None, after: str | None) -> float:
        return 0.0 if may_follow(before, after) else IMPOSSIBLE

    return Transitions(
        torch.tensor([score(None, label) for label in labels]),
        torch.tensor([score(label, None) for label in labels]),
        torch.tensor([[score(before, after) for after in labels] for before in labels]),
    )


class CRF(nn.Module):
    """A CRF with learned transition scores under constraints."""

    def __init__(self, constraints: Transitions) -> None:
        super().__init__()
        n_labels = len(constraints.first)
        self.first = nn.Parameter(torch.empty(n_labels).uniform_(-0.1, 0.1))
        self.last = nn.Parameter(torch.empty(n_labels).uniform_(-0.1, 0.1))
        self.following = nn.Parameter(torch.empty(n_labels, n_labels).uniform_(-0.1, 0.1))
        # Constraints are not saved, as the labels determine them.
        self.register_buffer("_first", constraints.first, persistent=False)
        self.register_buffer("_last", constraints.last, persistent=False)
        self.register_buffer("_following", constraints.following, persistent=False)

    @property
    def transitions(self) -> Transitions:
        """Learned scores plus constraints."""
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
        """The most probable label ids of each row."""
        return viterbi(scores, lengths, self.transitions)


def score_paths(
    scores: Tensor, label_ids: Tensor, lengths: Tensor, transitions: Transitions
) -> Tensor:
    """The score of one label sequence per row, (B,)."""
    positions = torch.arange(scores.shape[1], device=scores.device)
    mask = positions < lengths[:, None]  # (B, T)
    emitted = scores.gather(2, label_ids[..., None])[..., 0] * mask
    followed = transitions.following[label_ids[:, :-1], label_ids[:, 1:]] * mask[:, 1:]
    last_ids = label_ids.gather(1, (lengths - 1)[:, None])[:, 0]
    ends = transitions.first[label_ids[:, 0]] + transitions.last[last_ids]
    return emitted.sum(1) + followed.sum(1) + ends


def log_partition(scores: Tensor, lengths: Tensor, transitions: Transitions) -> Tensor:
    """The log-sum-exp of the scores of all label sequences, (B,) (forward algorithm)."""
    total = transitions.first + scores[:, 0]  # (B, K)
    for position in range(1, scores.shape[1]):
        arriving = total[:, :, None] + transitions.following  # (B, K, K)
        new = torch.logsumexp(arriving, dim=1) + scores[:, position]
        total = torch.where((position < lengths)[:, None], new, total)
    return torch.logsumexp(total + transitions.last, dim=1)


def viterbi(scores: Tensor, lengths: Tensor, transitions: Transitions) -> list[list[int]]:
    """The label sequence with the highest score of each row."""
    best = transitions.first + scores[:, 0]  # (B, K)
    back_pointers = []  # (B, K) for each position but the first
    unmoved = torch.arange(scores.shape[2], device=scores.device).expand_as(best)
    for position in range(1, scores.shape[1]):
        arriving, previous = (best[:, :, None] + transitions.following).max(dim=1)
        is_inside = (position < lengths)[:, None]
        best = torch.where(is_inside, arriving + scores[:, position], best)
        back_pointers.append(torch.where(is_inside, previous, unmoved))
    label_ids = [(best + transitions.last).argmax(dim=1)]  # (B,), from the end to the start
    for previous in reversed(back_pointers):
        label_ids.append(previous.gather(1, label_ids[-1][:, None])[:, 0])
    paths = torch.stack(label_ids[::-1], dim=1).tolist()
    return [path[:length] for path, length in zip(paths, lengths.tolist(), strict=True)]
