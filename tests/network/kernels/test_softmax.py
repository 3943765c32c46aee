"""The kernel's softmax normalizers against PyTorch's over all logits."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo.network import kernels

pytestmark = pytest.mark.needs("compiler")


def expected_sums(rows, weight, bias, n_skipped):
    logits = [hidden.double() @ weight.double().T + bias.double() for hidden in rows]
    mean = (logits[0] + logits[-1])[:, n_skipped:] / 2
    return torch.stack([each.logsumexp(-1) for each in [*logits, mean]])


@settings(deadline=None, max_examples=40)
@given(
    seed=st.integers(0, 1000),
    n_rows=st.integers(0, 70),
    dim=st.integers(1, 70),
    n_words=st.sampled_from([3, 31, 32, 33, 255, 257, 2047, 2048, 2049, 4500]),
    n_directions=st.integers(1, 2),
    n_skipped=st.integers(0, 2),
    scale=st.sampled_from([0.1, 1.0, 10.0]),
)
def test_sums_are_those_of_all_logits(seed, n_rows, dim, n_words, n_directions, n_skipped, scale):
    torch.manual_seed(seed)
    rows = [torch.randn(n_rows, dim) for _ in range(n_directions)]
    weight, bias = scale * torch.randn(n_words, dim) / dim**0.5, torch.randn(n_words)
    found = kernels.log_sum_exp(rows, weight, bias, n_skipped)
    expected = expected_sums(rows, weight, bias, n_skipped).float()
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-6)


def test_logits_far_apart_and_of_any_size_give_no_overflow():
    rows = [torch.ones(9, 1), -torch.ones(9, 1)]
    weight = torch.linspace(-400, 400, 3000)[:, None]
    bias = torch.zeros(3000)
    found = kernels.log_sum_exp(rows, weight, bias)[:2]
    torch.testing.assert_close(found, expected_sums(rows, weight, bias, 0)[:2].float())


def test_what_is_not_a_number_stays_so():
    hidden = torch.randn(9, 4)
    hidden[3, 1] = torch.nan
    found = kernels.log_sum_exp([hidden], torch.randn(50, 4), torch.zeros(50))
    assert found.isnan().any(0).tolist() == [row == 3 for row in range(9)]


def test_unfitting_shapes_are_refused():
    with pytest.raises(ValueError, match=r"shapes \[\(9, 4\), \(49,\)\], expected"):
        kernels.log_sum_exp([torch.randn(9, 4)], torch.randn(50, 4), torch.zeros(49))
    with pytest.raises(ValueError, match="shapes"):
        kernels.log_sum_exp(
            [torch.randn(9, 4), torch.randn(8, 4)], torch.randn(50, 4), torch.ones(50)
        )
