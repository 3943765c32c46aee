"""Results of `embed`: choices of layers, and pooling."""

import dataclasses
import math

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


@pytest.mark.parametrize(
    ("choice", "layer"),
    [("top", 2), (0, 0), (1, 1), ("1", 1), (2, 2), (-1, 2), ("-1", 2), (-3, 0), (np.int64(1), 1)],
)
def test_a_layer_is_chosen_by_name_or_number(embedded, choice, layer):
    np.testing.assert_array_equal(embedded.vectors(choice), embedded.layers[layer])


@pytest.mark.parametrize("weights", [[0.5, 0, -2], np.array([0.5, 0, -2])])
def test_layers_are_mixed_by_weights(embedded, weights):
    expected = 0.5 * embedded.layers[0] - 2 * embedded.layers[2]
    np.testing.assert_allclose(embedded.vectors(weights), expected, atol=1e-5)


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
    "choice",
    [
        *(3, -4, "3", "-4", "", "x", "0,", "1.5", "- 1", "toP"),
        *([1, 2], [[1, 2, 3]], ["a", "b", "c"], [1, [2], 3], [1, math.nan, 1], None),
    ],
)
def test_a_choice_that_is_none_is_reported(choice):
    with pytest.raises(ConfigError, match="expected"):
        layer_weights(choice, 3)


@pytest.mark.parametrize("choice", ["all", "0,1"])
def test_one_vector_per_token_needs_one_choice(embedded, choice):
    with pytest.raises(ConfigError, match="expected one layer or one weighted sum"):
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


def test_a_pooling_that_is_none_is_reported(embedded):
    with pytest.raises(ConfigError, match="expected 'mean' or 'max'"):
        embedded.pooled("median")


def test_half_precision_is_pooled_without_overflow():
    layers = np.full((1, 4, 2), 60000, np.float16)
    assert np.isfinite(Embedded(list("abcd"), layers).pooled()).all()


def test_a_result_is_a_sequence_of_its_words(embedded):
    raw = dataclasses.replace(embedded, offsets=[(0, 1), (2, 6), (7, 8), (9, 12)])
    assert len(raw) == 4
    assert [word.text for word in raw] == raw.tokens
    assert [word.offset for word in raw] == raw.offsets
    assert embedded[0].offset is None
    assert raw[-1] == raw[3] != raw[2]
    for word, vector in zip(raw, raw.vectors("top"), strict=True):
        np.testing.assert_array_equal(word.vector("top"), vector)
    assert "bow" in raw
    assert "ship" not in raw
    with pytest.raises(IndexError):
        raw[4]
    with pytest.raises(TypeError):
        raw[1:2]


def test_results_are_compared_by_their_values(embedded):
    assert embedded == dataclasses.replace(embedded, layers=embedded.layers.copy())
    assert embedded != dataclasses.replace(embedded, layers=embedded.layers + 1)
    assert embedded != dataclasses.replace(embedded, layers=embedded.layers[:, :2])
    assert embedded != dataclasses.replace(embedded, text="I took a bow")
    assert embedded != embedded.tokens
    assert embedded in [None, embedded]


def test_a_result_is_shown_in_one_line(embedded):
    assert repr(embedded) == "<Embedded 'I took a bow': 4 tokens, 3 layers of 5 dimensions>"
    long = dataclasses.replace(embedded, text="Two\nlines, " * 10)
    assert "\n" not in repr(long)
    assert len(repr(long)) < 110
    assert repr(embedded[1]) == "<EmbeddedToken 'took': 3 layers of 5 dimensions>"
