"""Heads: each against a plain reference; the sampled loss against the full one in expectation."""

import numpy as np
import pytest
import torch
from torch.nn.functional import cross_entropy

from elmo.network import softmax
from elmo.network.softmax import (
    AdaptiveSoftmax,
    FullSoftmax,
    Negatives,
    SampledSoftmax,
    build_head,
    draw_negatives,
)

N_WORDS, DIM, N_TOKENS = 60, 16, 23


@pytest.fixture
def hidden():
    torch.manual_seed(1)
    return torch.randn(N_TOKENS, DIM)


@pytest.fixture
def targets():
    torch.manual_seed(2)
    return torch.randint(N_WORDS, (N_TOKENS,))


def draw(seed=5, n_negatives=20):
    return draw_negatives(N_WORDS, n_negatives, np.random.default_rng(seed))


def plain_sampled_loss(head, hidden, targets, negatives):
    """Token by token, word by word, as the definition reads."""
    expected = {
        k: 1 - (1 - np.log((k + 2) / (k + 1)) / np.log(N_WORDS + 1)) ** negatives.n_tries
        for k in range(N_WORDS)
    }
    losses = []
    for row, target in zip(hidden, targets.tolist(), strict=True):
        words = [target] + [k for k in negatives.ids.tolist() if k != target]
        logits = [row @ head.weight[k] + head.bias[k] - np.log(expected[k]) for k in words]
        losses.append(-torch.stack(logits).log_softmax(0)[0])
    return torch.stack(losses).mean()


def test_negatives_are_distinct_rising_words():
    negatives = draw()
    assert len(negatives.ids) == 20
    assert (np.diff(negatives.ids) > 0).all()
    assert negatives.ids.min() >= 0
    assert negatives.ids.max() < N_WORDS


def test_words_are_drawn_as_often_as_the_correction_expects():
    samples = [draw(seed) for seed in range(4000)]
    found = np.bincount(np.concatenate([s.ids for s in samples]), minlength=N_WORDS) / len(samples)
    expected = np.mean([s.log_expected(torch.arange(N_WORDS)).exp().numpy() for s in samples], 0)
    np.testing.assert_allclose(found, expected, atol=0.035)


@pytest.mark.parametrize("most_logits", [10**6, 100])
def test_sampled_loss_and_gradients_equal_the_definition(hidden, targets, monkeypatch, most_logits):
    monkeypatch.setattr(softmax, "MOST_LOGITS", most_logits)
    head = SampledSoftmax(N_WORDS, DIM, n_negatives=20)
    torch.nn.init.normal_(head.bias)
    hidden.requires_grad_()
    loss = head.loss(hidden, targets, np.random.default_rng(5))
    (3 * loss).backward()
    ours = [hidden.grad, head.weight.grad.to_dense(), head.bias.grad.to_dense()]
    plain = plain_sampled_loss(head, hidden, targets, draw())
    torch.testing.assert_close(loss, plain)
    theirs = torch.autograd.grad(3 * plain, [hidden, head.weight, head.bias])
    for mine, reference in zip(ours, theirs, strict=True):
        torch.testing.assert_close(mine, reference, atol=1e-6, rtol=1e-4)


def test_only_targets_and_negatives_get_gradients(hidden, targets):
    head = SampledSoftmax(N_WORDS, DIM, n_negatives=10)
    head.loss(hidden.requires_grad_(), targets, np.random.default_rng(3)).backward()
    assert head.weight.grad.is_sparse
    touched = set(head.weight.grad.coalesce().indices()[0].tolist())
    assert touched == set(targets.tolist()) | set(draw(3, 10).ids.tolist())
    assert len(touched) < N_WORDS


def test_sampled_gradient_is_the_full_one_in_expectation(hidden, targets):
    head = SampledSoftmax(N_WORDS, DIM, n_negatives=29)
    hidden.requires_grad_()
    (full,) = torch.autograd.grad(head.nll(hidden, targets).mean(), hidden)
    rng = np.random.default_rng(0)
    sampled = torch.stack(
        [torch.autograd.grad(head.loss(hidden, targets, rng), hidden)[0] for _ in range(600)]
    ).mean(0)
    similarity = torch.nn.functional.cosine_similarity(sampled.flatten(), full.flatten(), dim=0)
    assert similarity > 0.98
    assert (sampled - full).norm() < 0.25 * full.norm()


def test_a_sample_of_most_words_becomes_the_full_softmax(hidden, targets):
    head = SampledSoftmax(N_WORDS, DIM, n_negatives=8192)
    loss = head.loss(hidden, targets, np.random.default_rng(0))
    torch.testing.assert_close(loss, head.nll(hidden, targets).mean())


@pytest.mark.parametrize("most_logits", [10**6, 200])
def test_full_softmax_in_pieces_equals_cross_entropy(hidden, targets, monkeypatch, most_logits):
    monkeypatch.setattr(softmax, "MOST_LOGITS", most_logits)
    head = FullSoftmax(N_WORDS, DIM)
    hidden.requires_grad_()
    reference = cross_entropy(hidden @ head.weight.T + head.bias, targets)
    loss = head.loss(hidden, targets, np.random.default_rng(0))
    torch.testing.assert_close(loss, reference)
    wanted = [hidden, head.weight, head.bias]
    for mine, theirs in zip(
        torch.autograd.grad(loss, wanted), torch.autograd.grad(reference, wanted), strict=True
    ):
        torch.testing.assert_close(mine, theirs)


@pytest.mark.parametrize("kind", ["full", "sampled", "adaptive"])
def test_probabilities_sum_to_one_and_agree_with_nll(hidden, targets, kind):
    head = build_head(kind, N_WORDS, DIM)
    with torch.no_grad():
        log_probs = head.log_probs(hidden)
        assert log_probs.shape == (N_TOKENS, N_WORDS)
        torch.testing.assert_close(log_probs.exp().sum(-1), torch.ones(N_TOKENS))
        chosen = log_probs.gather(1, targets[:, None]).squeeze(1)
        torch.testing.assert_close(head.nll(hidden, targets), -chosen)


def test_adaptive_softmax_learns_its_targets(hidden, targets):
    head = AdaptiveSoftmax(N_WORDS, DIM)
    optimizer = torch.optim.Adam(head.parameters(), lr=0.05)
    before = head.nll(hidden, targets).mean().item()
    for _ in range(40):
        optimizer.zero_grad()
        head.loss(hidden, targets, np.random.default_rng(0)).backward()
        optimizer.step()
    assert head.nll(hidden, targets).mean().item() < before / 4


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
def test_adaptive_softmax_runs_in_float32_under_autocast(hidden, targets, dtype):
    head = AdaptiveSoftmax(N_WORDS, DIM)
    rows = hidden.detach().to(dtype)
    expected = head.nll(rows.float(), targets)
    with torch.autocast("cpu", torch.bfloat16):
        found = head.nll(rows, targets)
    torch.testing.assert_close(found, expected)


def test_a_vocabulary_of_800k_words_gets_no_dense_gradient():
    head = SampledSoftmax(800_000, 4, n_negatives=64)
    hidden = torch.randn(8, 4, requires_grad=True)
    head.loss(hidden, torch.arange(8) * 99_999, np.random.default_rng(0)).backward()
    assert head.weight.grad.is_sparse
    assert head.weight.grad._nnz() == 64 + 8


def test_log_expected_never_exceeds_zero():
    everything = Negatives(np.arange(10), 10_000, 10)
    assert (everything.log_expected(torch.arange(10)) <= 0).all()


def test_a_head_can_start_from_the_words_frequencies():
    frequencies = np.random.default_rng(0).dirichlet(np.ones(N_WORDS))
    head = FullSoftmax(N_WORDS, DIM)
    head.start_from(frequencies)
    with torch.no_grad():
        probabilities = head.log_probs(torch.zeros(1, DIM)).exp()[0]
    np.testing.assert_allclose(probabilities.numpy(), frequencies, rtol=1e-4)
