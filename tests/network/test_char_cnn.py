"""The token layer: against the plain reference, and its initialization."""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo.network.char_cnn import CharCNN
from elmo.text.characters import encode_words
from tests import reference
from tests.conftest import TINY_OPTIONS
from tests.random_models import WORDS, build_bilm, options, random_weights

UNCHANGED = build_bilm(TINY_OPTIONS, random_weights(TINY_OPTIONS))


@given(options(), st.lists(WORDS, min_size=1, max_size=4), st.integers(0, 99))
def test_token_vectors_equal_the_plain_reference(drawn, words, seed):
    weights = random_weights(drawn, seed)
    bilm = build_bilm(drawn, weights)
    max_characters = drawn["char_cnn"]["max_characters_per_token"]
    char_ids = encode_words(words, max_characters, bilm.char_cnn.widest_filter)
    expected = [
        reference.token_vector(weights, drawn, reference.word_characters(word, max_characters))
        for word in words
    ]
    with torch.no_grad():
        found = bilm.token_vectors(char_ids)
    np.testing.assert_allclose(found, expected, atol=1e-5, rtol=1e-5)


@given(st.lists(WORDS, min_size=1, max_size=4))
def test_columns_of_padding_beyond_the_widest_filter_change_nothing(words):
    bilm = UNCHANGED
    with torch.no_grad():
        trimmed = bilm.token_vectors(encode_words(words, 50, bilm.char_cnn.widest_filter))
        whole = bilm.token_vectors(encode_words(words, 50, 50))
    torch.testing.assert_close(trimmed, whole, atol=1e-6, rtol=0)


def test_the_padding_character_takes_part_in_the_maximum(bilm):
    """It has a learned vector, which would have no effect if the character were masked."""
    char_ids = encode_words(["bow"], 50, 50)
    before = bilm.token_vectors(char_ids)
    with torch.no_grad():
        bilm.char_cnn.char_vectors.weight[261] += 5
    assert not torch.allclose(bilm.token_vectors(char_ids), before)


def test_no_character_is_a_zero_vector_that_stays_zero(bilm):
    char_ids = torch.zeros(1, 8, dtype=torch.int64)
    bilm.token_vectors(char_ids).sum().backward()
    table = bilm.char_cnn.char_vectors.weight
    assert not table[0].any()
    assert not table.grad[0].any()


def fresh(activation, output_dim=64):
    torch.manual_seed(0)
    return CharCNN(
        char_dim=16,
        filters=[(3, 200), (5, 300)],
        n_highways=2,
        activation=activation,
        output_dim=output_dim,
    )


def test_characters_start_uniform_between_minus_one_and_one():
    table = fresh("relu").char_vectors.weight.detach()
    assert table[1:].abs().max() <= 1
    assert table[1:].std().item() == pytest.approx(1 / math.sqrt(3), rel=0.03)
    assert table[1:].mean().item() == pytest.approx(0, abs=0.03)


def test_relu_filters_start_uniform_within_a_twentieth():
    for convolution in fresh("relu").convolutions:
        assert convolution.weight.abs().max() <= 0.05
        assert convolution.weight.std().item() == pytest.approx(0.05 / math.sqrt(3), rel=0.03)
        assert not convolution.bias.any()


def test_tanh_filters_start_normal_by_their_size():
    for convolution, width in zip(fresh("tanh").convolutions, (3, 5), strict=True):
        assert convolution.weight.std().item() == pytest.approx(1 / math.sqrt(width * 16), rel=0.03)
        assert convolution.weight.abs().max() > 2.5 / math.sqrt(width * 16), "not uniform"
        assert not convolution.bias.any()


def test_highways_and_projection_start_normal_by_their_inputs_with_a_closed_gate():
    network = fresh("relu")
    for highway in network.highways:
        for linear in (highway.gate, highway.transform):
            assert linear.weight.std().item() == pytest.approx(1 / math.sqrt(500), rel=0.02)
        assert (highway.gate.bias == -2).all()
        assert not highway.transform.bias.any()
    assert network.projection.weight.std().item() == pytest.approx(1 / math.sqrt(500), rel=0.02)
    assert not network.projection.bias.any()


def test_no_projection_where_it_would_change_no_width():
    assert fresh("relu", output_dim=500).projection is None
