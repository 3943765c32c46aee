"""The compiled highway layer against torch's products."""

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from elmo.network import kernels
from elmo.network.kernels import library

pytestmark = pytest.mark.needs("compiler")


def mix_plainly(transform, gate, rows):
    share = torch.sigmoid(gate(rows))
    return share * torch.relu(transform(rows)) + (1 - share) * rows


@settings(max_examples=20, deadline=None)
@given(n_rows=st.integers(0, 130), dim=st.sampled_from([1, 7, 16, 33, 64, 300]))
def test_the_highway_gives_what_torchs_products_give(n_rows, dim):
    torch.manual_seed(n_rows)
    transform, gate, rows = nn.Linear(dim, dim), nn.Linear(dim, dim), torch.randn(n_rows, dim)
    with torch.no_grad():
        found = kernels.run_highway(transform, gate, rows)
        torch.testing.assert_close(found, mix_plainly(transform, gate, rows), rtol=0, atol=1e-5)
        gate.bias += 1
        changed = kernels.run_highway(transform, gate, rows)
        torch.testing.assert_close(changed, mix_plainly(transform, gate, rows), rtol=0, atol=1e-5)


def test_weights_in_bfloat16_give_what_the_same_weights_give_in_float32():
    tolerance = 1e-2 if library.multiplies_bfloat16() else 1e-5
    transform, gate = (nn.Linear(70, 70).to(torch.bfloat16) for _ in range(2))
    with torch.no_grad():
        for n_rows in (1, 5, 40):
            rows = torch.randn(n_rows, 70)
            assert kernels.can_run_highway(transform, gate, rows)
            found = kernels.run_highway(transform, gate, rows)
            copies = nn.Linear(70, 70), nn.Linear(70, 70)
            for one, other in zip(copies, (transform, gate), strict=True):
                one.load_state_dict(other.state_dict())
            expected = mix_plainly(*copies, rows)
            torch.testing.assert_close(found, expected, rtol=0, atol=tolerance)


def test_a_highway_in_training_is_declined():
    transform, gate, rows = nn.Linear(4, 4), nn.Linear(4, 4), torch.randn(2, 4)
    assert not kernels.can_run_highway(transform, gate, rows)
    with torch.no_grad():
        assert kernels.can_run_highway(transform, gate, rows)
        assert not kernels.can_run_highway(transform.double(), gate, rows)
