"""Sentences to layers: independent of the batch, its order and size, and of earlier calls."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo.inference.embedder import Embedder
from tests import reference
from tests.conftest import TINY_OPTIONS
from tests.random_models import SENTENCES, build_bilm, random_weights

WEIGHTS = random_weights(TINY_OPTIONS, seed=4)
BILM = build_bilm(TINY_OPTIONS, WEIGHTS)


def plain(tokens):
    layers, _ = reference.sentence_layers(WEIGHTS, TINY_OPTIONS, tokens)
    return layers[:, 1:-1]


@given(st.lists(SENTENCES, max_size=6), st.none() | st.integers(1, 4))
def test_layers_equal_the_plain_reference_in_the_given_order(sentences, batch_size):
    found = Embedder(BILM, 100).embed(sentences, batch_size)
    assert len(found) == len(sentences)
    for layers, tokens in zip(found, sentences, strict=True):
        assert layers.shape == (3, len(tokens), 16)
        assert layers.dtype == np.float32
        np.testing.assert_allclose(layers, plain(tokens), atol=1e-5, rtol=1e-5)


@given(
    st.lists(SENTENCES, min_size=1, max_size=8),
    st.randoms(use_true_random=False),
    st.none() | st.integers(1, 9),
    st.lists(SENTENCES, max_size=3),
)
def test_batch_order_size_and_what_ran_before_change_no_vector(
    sentences, random, batch_size, before
):
    alone = [Embedder(BILM, 100).embed([tokens])[0] for tokens in sentences]
    embedder = Embedder(BILM, 100)
    embedder.embed(before)
    order = random.sample(range(len(sentences)), len(sentences))
    found = embedder.embed([sentences[k] for k in order], batch_size)
    for k, layers in zip(order, found, strict=True):
        np.testing.assert_allclose(layers, alone[k], atol=1e-5)


@pytest.mark.parametrize("n_threads", [1, 2])
def test_the_number_of_threads_changes_no_vector(corpus, n_threads):
    expected = Embedder(BILM, 100).embed(corpus)
    before = torch.get_num_threads()
    torch.set_num_threads(n_threads)
    try:
        found = Embedder(BILM, 100).embed(corpus)
    finally:
        torch.set_num_threads(before)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_a_result_holds_no_more_memory_than_its_own(corpus):
    for layers in Embedder(BILM, 100).embed(corpus):
        assert layers.base is None


def test_a_training_network_and_a_gradient_change_nothing(corpus):
    expected = Embedder(BILM, 100).embed(corpus)
    bilm = build_bilm(TINY_OPTIONS, WEIGHTS).train()
    with torch.enable_grad():
        found = Embedder(bilm, 100).embed(corpus)
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_array_equal(one, other)
    assert all(parameter.grad is None for parameter in bilm.parameters())


@given(st.lists(st.lists(SENTENCES, min_size=1, max_size=3), min_size=1, max_size=4))
def test_carried_state_is_handed_on_from_place_to_place(batches):
    """Compare with the reference, which keeps one state per batch position."""
    embedder = Embedder(BILM, 100)
    carried = BILM.initial_state(0)
    states = {}
    for sentences in batches:
        found, carried = embedder.embed_carrying(sentences, carried)
        for place, tokens in enumerate(sentences):
            expected, states[place] = reference.sentence_layers(
                WEIGHTS, TINY_OPTIONS, tokens, states.get(place)
            )
            np.testing.assert_allclose(found[place], expected[:, 1:-1], atol=1e-5, rtol=1e-5)


@given(st.lists(SENTENCES, max_size=6), st.none() | st.integers(1, 4))
def test_a_warm_start_is_what_an_empty_sentence_leaves_behind(sentences, batch_size):
    embedder = Embedder(BILM, 100)
    found = embedder.embed(sentences, batch_size, embedder.warm_state())
    _, after_nothing = reference.sentence_layers(WEIGHTS, TINY_OPTIONS, [])
    for layers, tokens in zip(found, sentences, strict=True):
        expected, _ = reference.sentence_layers(WEIGHTS, TINY_OPTIONS, tokens, after_nothing)
        np.testing.assert_allclose(layers, expected[:, 1:-1], atol=1e-5, rtol=1e-5)


def test_sums_of_layers_are_written_in_pieces_that_cover_the_sentence(corpus):
    weights = np.array([[0.5, 0.25, -1.0], [0.0, 0.0, 1.0]], np.float32)
    tokens = corpus[2]
    out = np.full((2, len(tokens), 16), np.nan, np.float32)
    widths = []

    def write(places, columns, values):
        widths.append(columns.stop - columns.start)
        out[:, places, columns] = values

    embedder = Embedder(BILM, 100)
    embedder.write(tokens, weights, write)
    expected = np.tensordot(weights, embedder.embed([tokens])[0], axes=1)
    np.testing.assert_allclose(out, expected, atol=1e-5)
    assert set(widths) == {8}  # one direction at a time
