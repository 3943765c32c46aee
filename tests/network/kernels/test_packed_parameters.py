"""Weights held only in packed form: equal results, and plain tensors on access."""

import copy
import pickle

import pytest
import torch

from elmo.network import kernels
from elmo.network.bilm import BiLM
from elmo.network.config import tiny
from elmo.network.kernels.packed_parameters import PackedParameters, packed_of
from tests.random_models import encode_batch

pytestmark = pytest.mark.needs("compiler")

SENTENCES = [["I", "took", "a", "bow", "."], ["bow"], ["a", "bow", "and", "arrow"]]


def build_model(dtype=None):
    torch.manual_seed(1)
    bilm = BiLM(tiny()).eval()
    if dtype is not None:
        bilm.store_matrices(dtype)
    return bilm


def held_packed(bilm):
    """The modules whose weights are held only in packed form."""
    return [module for module in bilm.modules() if packed_of(module) is not None]


@torch.no_grad()
def run(bilm):
    return bilm(encode_batch(SENTENCES, 50, 3)).layers


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_packed_weights_give_the_same_vectors_and_the_same_weights(dtype):
    plain, packed = build_model(dtype), build_model(dtype)
    packed.hold_packed()
    n_packed = len(held_packed(packed))
    assert n_packed == 2 * tiny().char_cnn.n_highways + 2 * tiny().lstm.n_layers
    assert torch.equal(run(packed), run(plain))
    assert packed.eval().n_parameters == plain.n_parameters
    assert len(held_packed(packed)) == n_packed  # nothing so far has accessed a weight
    found, expected = packed.state_dict(), plain.state_dict()
    assert list(found) == list(expected)
    assert all(torch.equal(found[name], expected[name]) for name in expected)
    assert all(found[name].dtype == expected[name].dtype for name in expected)
    assert not held_packed(packed)
    assert torch.equal(run(packed), run(plain))


@pytest.mark.parametrize("dtype", [None, torch.bfloat16])
def test_weights_can_be_read_without_unpacking_them_for_good(dtype):
    plain, packed = build_model(dtype), build_model(dtype)
    packed.hold_packed()
    n_packed = len(held_packed(packed))
    found, expected = list(kernels.sorted_parameters(packed)), sorted(plain.state_dict().items())
    assert [name for name, _ in found] == [name for name, _ in expected]
    for (_, one), (_, other) in zip(found, expected, strict=True):
        assert one.dtype == other.dtype
        assert torch.equal(one, other)
    assert len(held_packed(packed)) == n_packed


def test_no_plain_tensor_is_left():
    bilm = build_model()
    n_bytes = sum(each.nbytes for each in bilm.parameters())
    bilm.hold_packed()
    layer = bilm.stacks["forward_layers"][0]
    assert [name for name, each in dict.items(layer._parameters) if each is not None] == ["bias"]
    assert sum(each.nbytes for each in kernels.plain_tensors(bilm)) < n_bytes / 2


@pytest.mark.parametrize(
    ("copied", "stays_packed"),
    [(copy.deepcopy, True), (lambda bilm: pickle.loads(pickle.dumps(bilm)), False)],
)
def test_copies_are_plain_and_only_a_pickled_original_is_unpacked(copied, stays_packed):
    bilm = build_model()
    bilm.hold_packed()
    n_packed = len(held_packed(bilm))
    other = copied(bilm)
    assert len(held_packed(bilm)) == (n_packed if stays_packed else 0)
    assert not any(isinstance(each._parameters, PackedParameters) for each in other.modules())
    assert torch.equal(run(other), run(bilm))
    assert list(other.state_dict()) == list(bilm.state_dict())


def test_a_packed_model_can_be_trained_and_then_embeds_with_the_new_weights():
    bilm = build_model()
    bilm.hold_packed()
    before = run(bilm)
    bilm(encode_batch(SENTENCES, 50, 3)).layers.square().sum().backward()
    assert all(weight.grad is not None for weight in bilm.stacks.parameters())
    torch.optim.SGD(bilm.parameters(), lr=0.1).step()
    after = run(bilm)
    assert (after - before).abs().max() > 1e-4
    expected = BiLM(tiny()).eval()
    expected.load_state_dict(bilm.state_dict())
    assert torch.equal(run(expected), after)


def test_weights_asked_for_in_inference_mode_can_be_trained():
    bilm = build_model()
    bilm.hold_packed()
    with torch.inference_mode():
        weight = bilm.stacks["forward_layers"][0].input_weight
    assert not weight.is_inference()
    assert weight.requires_grad


def test_frozen_weights_stay_frozen():
    bilm = build_model().requires_grad_(False)
    bilm.hold_packed()
    bilm(encode_batch(SENTENCES, 50, 3))  # with gradients enabled, but none needed
    assert held_packed(bilm)
    assert not any(each.requires_grad for each in bilm.parameters())


def test_replaced_and_moved_weights_are_used():
    bilm = build_model()
    bilm.hold_packed()
    layer = bilm.stacks["forward_layers"][0]
    before = run(bilm)
    layer.projection_weight = torch.nn.Parameter(torch.zeros_like(layer.projection_weight))
    assert (run(bilm) - before).abs().max() > 1e-4
    double = build_model()
    double.hold_packed()
    assert double.double().stacks["forward_layers"][0].input_weight.dtype == torch.float64
