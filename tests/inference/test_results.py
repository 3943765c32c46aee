"""What `embed` gives: choices of layers, and pooling."""

import numpy as np
import pytest

from elmo.errors import ConfigError
from elmo.inference.results import Embedded, layer_weights


@pytest.fixture
def embedded():
    layers = np.random.default_rng(0).normal(-3, 1, (3, 4, 5)).astype(np.float32)
    return Embedded(["I", "took", "a", "bow"], layers, None, [(0, 4)])


def test_vectors_are_the_mean_of_the_layers_by_default(embedded):
    np.testing.assert_allclose(embedded.vectors(), embedded.layers.mean(0), atol=1e-6)
    assert embedded.vectors().dtype == np.float32


@pytest.mark.parametrize(("choice", "layer"), [("top", 2), (0, 0), (1, 1), ("1", 1), (2, 2)])
def test_a_layer_is_chosen_by_name_or_number(embedded, choice, layer):
    np.testing.assert_array_equal(embedded.vectors(choice), embedded.layers[layer])


def test_layers_are_mixed_by_weights(embedded):
    expected = 0.5 * embedded.layers[0] - 2 * embedded.layers[2]
    np.testing.assert_allclose(embedded.vectors([0.5, 0, -2]), expected, atol=1e-5)


@pytest.mark.parametrize(
    ("choice", "rows"),
    [
        ("all", [[1, 0, 0], [0, 1, 0], [0, 0, 1]]),
        ("0,2", [[1, 0, 0], [0, 0, 1]]),
        (" 1 ", [[0, 1, 0]]),
    ],
)
def test_several_layers_are_a_row_of_weights_each(choice, rows):
    np.testing.assert_array_equal(layer_weights(choice, 3), rows)


@pytest.mark.parametrize(
    "choice", [3, -1, "3", "-1", "", "x", "0,", "1.5", "toP", [1, 2], [[1, 2, 3]]]
)
def test_a_choice_that_is_none_is_told(choice):
    with pytest.raises(ConfigError, match="expected"):
        layer_weights(choice, 3)


@pytest.mark.parametrize("choice", ["all", "0,1"])
def test_one_vector_per_token_needs_one_choice(embedded, choice):
    with pytest.raises(ConfigError, match="expected one layer or one mix"):
        embedded.vectors(choice)


def test_pooling_is_the_mean_or_the_maximum_over_the_tokens(embedded):
    vectors = embedded.layers[2]
    np.testing.assert_allclose(embedded.pooled("mean", "top"), vectors.mean(0), atol=1e-6)
    np.testing.assert_array_equal(embedded.pooled("max", "top"), vectors.max(0))
    assert embedded.pooled().shape == (5,)


def test_no_tokens_pool_to_zero():
    nothing = Embedded([], np.empty((3, 0, 5), np.float32))
    assert nothing.vectors().shape == (0, 5)
    for how in ("mean", "max"):
        np.testing.assert_array_equal(nothing.pooled(how), np.zeros(5))


def test_a_pooling_that_is_none_is_told(embedded):
    with pytest.raises(ConfigError, match="expected 'mean' or 'max'"):
        embedded.pooled("median")


def test_half_precision_is_pooled_without_overflow():
    layers = np.full((1, 4, 2), 60000, np.float16)
    assert np.isfinite(Embedded(list("abcd"), layers).pooled()).all()
