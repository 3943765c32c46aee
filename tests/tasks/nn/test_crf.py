"""The CRF against brute force over all label sequences."""

import itertools

import pytest
import torch

from elmo.tasks.nn.crf import (
    CRF,
    Transitions,
    log_partition,
    score_paths,
    transition_constraints,
    viterbi,
)
from elmo.tasks.spans import may_follow_bioes, may_follow_iob2

LABELS = ("O", "B-X", "I-X", "E-X", "S-X")
LENGTHS = torch.tensor([4, 1, 3])


def anything(before, after):
    return True


@pytest.fixture(params=[anything, may_follow_bioes], ids=["free", "bioes"])
def crf(request):
    torch.manual_seed(3)
    crf = CRF(transition_constraints(LABELS, request.param)).double()
    for parameter in crf.parameters():
        torch.nn.init.normal_(parameter)
    return crf


@pytest.fixture
def scores():
    torch.manual_seed(4)
    return torch.randn(3, 4, len(LABELS), dtype=torch.float64) * 2


def score_slowly(scores, path, transitions):
    total = transitions.first[path[0]] + transitions.last[path[-1]]
    total = total + sum(scores[place, label] for place, label in enumerate(path))
    return total + sum(transitions.following[a, b] for a, b in itertools.pairwise(path))


def all_paths(length):
    return list(itertools.product(range(len(LABELS)), repeat=length))


def test_log_partition_is_the_sum_over_all_sequences(crf, scores):
    found = log_partition(scores, LENGTHS, crf.transitions)
    for row, length in enumerate(LENGTHS.tolist()):
        each = [score_slowly(scores[row], path, crf.transitions) for path in all_paths(length)]
        torch.testing.assert_close(found[row], torch.logsumexp(torch.stack(each), 0))


def test_best_path_is_the_best_of_all_sequences(crf, scores):
    found = crf.best_paths(scores, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        best = max(all_paths(length), key=lambda p: score_slowly(scores[row], p, crf.transitions))
        assert found[row] == list(best)


def test_likelihood_of_given_labels_does_not_depend_on_padding(crf, scores):
    label_ids = torch.tensor([[0, 1, 2, 3], [4, 0, 0, 0], [1, 3, 0, 0]])
    together = crf.log_likelihood(scores, label_ids, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        alone = crf.log_likelihood(
            scores[row : row + 1, :length], label_ids[row : row + 1, :length], LENGTHS[row][None]
        )
        torch.testing.assert_close(alone[0], together[row])
        slow = score_slowly(scores[row], label_ids[row, :length].tolist(), crf.transitions)
        one = score_paths(scores, label_ids, LENGTHS, crf.transitions)[row]
        torch.testing.assert_close(one, slow)


@pytest.mark.parametrize("may_follow", [may_follow_bioes, may_follow_iob2])
def test_constrained_paths_breach_nothing_however_much_the_scores_ask_for_it(may_follow):
    labels = [label for label in LABELS if may_follow is may_follow_bioes or label[0] not in "ES"]
    allowed = transition_constraints(labels, may_follow)
    torch.manual_seed(5)
    scores = torch.randn(200, 6, len(labels)) * 50
    for path in viterbi(scores, torch.full((200,), 6), allowed):
        named = [None, *(labels[number] for number in path), None]
        assert all(may_follow(before, after) for before, after in itertools.pairwise(named))


def test_forbidden_sequences_have_no_probability():
    crf = CRF(transition_constraints(LABELS, may_follow_bioes))
    forbidden = torch.tensor([[2, 0]])  # I-X at the start
    assert crf.log_likelihood(torch.zeros(1, 2, 5), forbidden, torch.tensor([2])) < -5000


def test_gradients_are_numbers_where_much_is_forbidden():
    crf = CRF(transition_constraints(LABELS, may_follow_bioes))
    scores = torch.randn(2, 3, 5, requires_grad=True)
    label_ids = torch.tensor([[1, 2, 3], [4, 0, 0]])
    crf.log_likelihood(scores, label_ids, torch.tensor([3, 2])).sum().backward()
    assert scores.grad.isfinite().all()
    assert all(parameter.grad.isfinite().all() for parameter in crf.parameters())


def test_transitions_add_up():
    one = Transitions(torch.ones(2), torch.ones(2) * 2, torch.ones(2, 2) * 3)
    both = one + one
    assert (both.first[0], both.last[0], both.following[0, 0]) == (2, 4, 6)
