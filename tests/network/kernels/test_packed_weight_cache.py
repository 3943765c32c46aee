"""The cache of packed weights: packed again after a change, and only then."""

import itertools

import pytest
import torch
from torch import nn

from elmo.network.kernels import forget_all
from elmo.network.kernels.packed_weight_cache import PackedWeightCache


class Packing:
    """A layer whose packed form is the number of times that it was packed before."""

    def __init__(self, layer):
        self.layer = layer
        self._cache = PackedWeightCache()
        self._counter = itertools.count()

    def get(self, settings=None):
        tensors = list(self.layer.parameters())
        return self._cache.get(self.layer, tensors, lambda: next(self._counter), settings)


def step_of_another_model():
    other = nn.Linear(2, 2)
    other(torch.ones(1, 2)).sum().backward()
    torch.optim.SGD(other.parameters(), lr=0.1).step()


def test_frozen_weights_are_not_packed_again_after_a_step_of_another_model():
    packing = Packing(nn.Linear(3, 3).requires_grad_(False))
    assert packing.get() == 0
    step_of_another_model()
    assert packing.get() == 0
    forget_all()
    assert packing.get() == 1


def test_weights_that_are_trained_are_packed_again_after_any_step():
    packing = Packing(nn.Linear(3, 3))
    assert packing.get() == packing.get() == 0
    step_of_another_model()
    assert packing.get() == packing.get() == 1


def test_weights_that_are_trained_and_then_frozen_are_packed_again():
    packing = Packing(nn.Linear(3, 3))
    assert packing.get() == 0
    step_of_another_model()
    packing.layer.requires_grad_(False)
    assert packing.get() == 1


def write_in_place(weight):
    weight.add_(1)


def write_through_data(weight):
    weight.data.mul_(2)


def write_through_numpy(weight):
    weight.numpy()[...] = 0


@pytest.mark.parametrize(
    ("write", "dtype"),
    [
        (write_in_place, torch.float32),
        (write_in_place, torch.bfloat16),
        (write_through_data, torch.float32),
        (write_through_data, torch.bfloat16),
        (write_through_numpy, torch.float32),
    ],
)
def test_a_written_weight_is_packed_again(write, dtype):
    packing = Packing(nn.Linear(50, 30).requires_grad_(False).to(dtype))
    assert packing.get() == packing.get() == 0
    write(packing.layer.weight)
    assert packing.get() == packing.get() == 1


def test_other_settings_are_packed_again():
    packing = Packing(nn.Linear(3, 3))
    assert [packing.get(settings) for settings in (1, 1, 2)] == [0, 0, 1]


def test_weights_that_are_not_numbers_are_packed_once():
    packing = Packing(nn.Linear(3, 3))
    nn.init.constant_(packing.layer.weight, float("nan"))
    assert packing.get() == packing.get() == 0
