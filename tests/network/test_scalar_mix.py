"""The weighted sum of layers: by hand, its penalty, and three kinds of layer norm."""

import math

import numpy as np
import pytest
import torch

from elmo.errors import ConfigError
from elmo.network.scalar_mix import LAYER_NORMS, ScalarMix

MASK = torch.tensor([[1, 1, 1, 1, 1], [1, 1, 1, 0, 0]], dtype=torch.bool)


@pytest.fixture
def layers():
    """(3, 2, 5, 4), zero where padded."""
    torch.manual_seed(0)
    return (torch.randn(3, 2, 5, 4) * 3 + 1) * MASK[..., None]


def test_the_sum_is_the_one_computed_by_hand():
    mix = ScalarMix(3, initial_weights=[0.0, math.log(2), math.log(5)], initial_gamma=2.0)
    layers = torch.tensor([1.0, 10.0, 100.0]).reshape(3, 1, 1, 1)
    # softmax of 0, log 2, log 5 is 1/8, 2/8, 5/8.
    expected = 2 * (1 * 1 / 8 + 10 * 2 / 8 + 100 * 5 / 8)
    found = mix(layers, torch.ones(1, 1, dtype=torch.bool))
    assert found.item() == pytest.approx(expected)
    assert mix.layer_weights().tolist() == pytest.approx([1 / 8, 2 / 8, 5 / 8])


def test_it_starts_as_the_mean_of_the_layers(layers):
    torch.testing.assert_close(ScalarMix(3)(layers, MASK), layers.mean(0))


def test_one_layer_can_be_picked_as_allennlp_says(layers):
    mix = ScalarMix(3, initial_weights=[-9e10, 1, -9e10])
    torch.testing.assert_close(mix(layers, MASK), layers[1])


def test_chosen_weights_train_on(layers):
    mix = ScalarMix(3, initial_weights=[0.0, 1.0, 2.0])
    mix(layers, MASK).square().sum().backward()
    assert mix.weights.grad.abs().min() > 0
    assert mix.gamma.grad.abs() > 0
    torch.optim.SGD(mix.parameters(), lr=0.01).step()
    assert mix.weights.tolist() != [0.0, 1.0, 2.0]


@pytest.mark.parametrize("is_frozen", [False, True])
def test_whole_numbers_are_initial_values_too(layers, is_frozen):
    mixes = [
        ScalarMix(3, initial_weights=[0, 0, one], initial_gamma=one, is_frozen=is_frozen)
        for one in (1, 1.0)
    ]
    assert torch.equal(mixes[0](layers, MASK), mixes[1](layers, MASK))


def test_frozen_weights_do_not_train(layers):
    mix = ScalarMix(3, initial_weights=[0.0, 1.0, 2.0], is_frozen=True)
    mix(layers.requires_grad_(), MASK).sum().backward()
    assert mix.weights.grad is None
    assert mix.gamma.grad is None
    assert not any(parameter.requires_grad for parameter in mix.parameters())


def test_the_penalty_is_lambda_times_the_squared_weights():
    mix = ScalarMix(3, initial_weights=[1.0, -2.0, 3.0], penalty=0.1)
    assert mix.penalty().item() == pytest.approx(0.1 * 14)
    mix.penalty().backward()
    assert mix.weights.grad.tolist() == pytest.approx([0.2, -0.4, 0.6])
    assert ScalarMix(3, initial_weights=[1.0, 2.0, 3.0]).penalty().item() == 0


def plain_norm(layers, counted, epsilon):
    """One mean and one variance for all values of all counted tokens of a layer."""
    normed = np.empty_like(layers)
    for j, layer in enumerate(layers):
        values = np.concatenate([layer[b, t] for b, t in np.argwhere(counted)])
        mean = sum(values) / len(values)
        variance = sum((value - mean) ** 2 for value in values) / len(values)
        normed[j] = (layer - mean) / np.sqrt(variance + epsilon)
    return normed


def without_markers(mask):
    inner = mask.copy()
    for row, length in zip(inner, mask.sum(1), strict=True):
        row[0] = row[length - 1] = False
    return inner


def test_bilm_norm_counts_the_batch_without_padding_and_markers(layers):
    expected = plain_norm(layers.double().numpy(), without_markers(MASK.numpy()), 1e-12).mean(0)
    found = ScalarMix(3, layer_norm="bilm")(layers, MASK)
    np.testing.assert_allclose(found.detach(), expected, atol=1e-5)


def test_allennlp_norm_counts_the_batch_without_padding(layers):
    expected = plain_norm(layers.double().numpy(), MASK.numpy(), 1e-13).mean(0)
    found = ScalarMix(3, layer_norm="allennlp")(layers, MASK)
    np.testing.assert_allclose(found.detach(), expected, atol=1e-5)


def test_token_norm_gives_each_token_mean_zero_and_variance_one(layers):
    values = layers.double().numpy()
    mean, variance = values.mean(-1, keepdims=True), values.var(-1, keepdims=True)
    expected = ((values - mean) / np.sqrt(variance + 1e-5)).mean(0)
    found = ScalarMix(3, layer_norm="token")(layers, MASK)
    np.testing.assert_allclose(found.detach(), expected, atol=1e-5)


@pytest.mark.parametrize("layer_norm", [None, *LAYER_NORMS])
def test_only_the_originals_norms_depend_on_the_neighbors(layers, layer_norm):
    mix = ScalarMix(3, layer_norm=layer_norm)
    together = mix(layers, MASK)[1, :3]
    alone = mix(layers[:, 1:, :3], MASK[1:, :3])[0]
    is_same = torch.allclose(together, alone, atol=1e-5)
    assert is_same == (layer_norm in (None, "token"))


@pytest.mark.parametrize("layer_norm", [None, *LAYER_NORMS])
def test_padding_changes_no_vector(layers, layer_norm):
    mix = ScalarMix(3, layer_norm=layer_norm)
    padded = torch.nn.functional.pad(layers, (0, 0, 0, 4))
    found = mix(padded, torch.nn.functional.pad(MASK, (0, 4)))
    torch.testing.assert_close(found[:, :5], mix(layers, MASK), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("layer_norm", [None, *LAYER_NORMS])
def test_an_empty_batch_is_mixed(layer_norm):
    mix = ScalarMix(3, layer_norm=layer_norm)
    assert mix(torch.zeros(3, 0, 0, 4), torch.zeros(0, 0, dtype=torch.bool)).shape == (0, 0, 4)


def test_what_cannot_be_mixed_is_reported():
    with pytest.raises(ConfigError, match="2 initial weights, expected 3"):
        ScalarMix(3, initial_weights=[1, 2])
    with pytest.raises(ConfigError, match="expected one of token, bilm, allennlp or None"):
        ScalarMix(3, layer_norm="layer")
