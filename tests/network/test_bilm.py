"""The network: against the plain reference for any config, and what must not change a vector."""

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from elmo.network.bilm import BiLM, carry_over
from elmo.network.config import BiLMConfig, CharCnnConfig, LstmConfig
from tests import reference
from tests.conftest import TINY_OPTIONS
from tests.random_models import SENTENCES, build_bilm, encode_batch, options, random_weights

UNCHANGED = build_bilm(TINY_OPTIONS, random_weights(TINY_OPTIONS))


def encode(bilm, sentences):
    cnn = bilm.config.char_cnn
    return encode_batch(sentences, cnn.max_characters, bilm.char_cnn.widest_filter)


def sentence_layers(output, k):
    return output.layers[:, k, output.mask[k]].detach().numpy()


@settings(max_examples=60)
@given(options(), st.lists(SENTENCES, min_size=1, max_size=4), st.booleans(), st.integers(0, 99))
def test_layers_and_states_equal_the_plain_reference(drawn, sentences, needs_gradient, seed):
    weights = random_weights(drawn, seed)
    bilm = build_bilm(drawn, weights)
    with torch.set_grad_enabled(needs_gradient):
        output = bilm(encode(bilm, sentences))
    for k, tokens in enumerate(sentences):
        expected, states = reference.sentence_layers(weights, drawn, tokens)
        np.testing.assert_allclose(sentence_layers(output, k), expected, atol=1e-5, rtol=1e-5)
        for r, layers in enumerate(states):
            for depth, (hidden, cell) in enumerate(layers):
                found = output.state.hidden[r, depth, k], output.state.cell[r, depth, k]
                np.testing.assert_allclose(found[0].detach(), hidden, atol=1e-5)
                np.testing.assert_allclose(found[1].detach(), cell, atol=1e-5)


@settings(max_examples=15)
@given(options(), st.lists(SENTENCES, min_size=2, max_size=2), st.integers(0, 99))
def test_the_plain_path_in_float64_equals_the_plain_reference(drawn, sentences, seed):
    weights = random_weights(drawn, seed)
    bilm = build_bilm(drawn, weights).double()
    with torch.no_grad():
        output = bilm(encode(bilm, sentences))
    for k, tokens in enumerate(sentences):
        expected, _ = reference.sentence_layers(weights, drawn, tokens)
        np.testing.assert_allclose(sentence_layers(output, k), expected, atol=1e-9)


@settings(max_examples=15)
@given(options(), st.lists(SENTENCES, min_size=3, max_size=3), st.integers(0, 99))
def test_a_given_state_is_where_reading_starts(drawn, sentences, seed):
    """One batch position reads three sentences and carries its state over, as in the originals."""
    weights = random_weights(drawn, seed)
    bilm = build_bilm(drawn, weights)
    state, plain_state = None, None
    for tokens in sentences:
        with torch.no_grad():
            output = bilm(encode(bilm, [tokens]), state)
        expected, plain_state = reference.sentence_layers(weights, drawn, tokens, plain_state)
        np.testing.assert_allclose(sentence_layers(output, 0), expected, atol=1e-5, rtol=1e-5)
        state = output.state


@given(st.permutations(range(5)), st.integers(1, 5), st.lists(SENTENCES, min_size=5, max_size=5))
def test_order_and_size_of_a_batch_change_no_vector(order, n_kept, sentences):
    bilm = UNCHANGED
    kept = order[:n_kept]
    with torch.no_grad():
        whole = bilm(encode(bilm, sentences))
        some = bilm(encode(bilm, [sentences[k] for k in kept]))
    for place, k in enumerate(kept):
        np.testing.assert_allclose(
            sentence_layers(some, place), sentence_layers(whole, k), atol=1e-5
        )


@given(SENTENCES, st.integers(1, 40))
def test_padding_changes_no_vector_and_holds_zeros(tokens, n_longer):
    bilm = UNCHANGED
    longer = [*tokens, *["x"] * n_longer]
    with torch.no_grad():
        alone = bilm(encode(bilm, [tokens]))
        padded = bilm(encode(bilm, [tokens, longer]))
    np.testing.assert_allclose(sentence_layers(padded, 0), sentence_layers(alone, 0), atol=1e-5)
    assert not padded.layers[:, 0, len(tokens) + 2 :].any()
    assert padded.mask.sum(1).tolist() == [len(tokens) + 2, len(longer) + 2]


def test_the_bottom_layer_is_the_token_vector_twice(bilm, corpus):
    output = bilm(encode(bilm, corpus))
    forward, backward = output.layers[0].chunk(2, dim=-1)
    assert torch.equal(forward, backward)


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_one_direction_alone_is_half_of_both(bilm, corpus, direction):
    config = BiLMConfig(
        char_cnn=bilm.config.char_cnn, lstm=bilm.config.lstm, directions=(direction,)
    )
    alone = BiLM(config)
    wanted = {k: v for k, v in bilm.state_dict().items() if k in alone.state_dict()}
    alone.load_state_dict(wanted)
    with torch.no_grad():
        both = bilm(encode(bilm, corpus)).layers.chunk(2, dim=-1)
        half = alone(encode(alone, corpus)).layers
    assert config.output_dim == 8
    torch.testing.assert_close(half, both[direction == "backward"], atol=1e-6, rtol=0)


def test_a_sentence_read_backwards_by_the_other_direction_gives_the_same(bilm):
    """The two directions are one computation with other weights and another order."""
    state = bilm.state_dict()
    swapped = BiLM(bilm.config)
    other = {"forward": "backward", "backward": "forward"}

    def across(name):
        for direction in other:
            if f"stacks.{direction}_layers" in name:
                return name.replace(direction, other[direction])
        return name

    swapped.load_state_dict({across(name): tensor for name, tensor in state.items()})
    batch = encode(bilm, [["a", "bow", "."]])
    reverse = type(batch)(batch.char_ids, batch.word_index.flip(1), batch.lengths)
    with torch.no_grad():
        one = bilm(batch).layers
        two = swapped(reverse).layers.flip(2)
    forward, backward = two.chunk(2, dim=-1)
    torch.testing.assert_close(one, torch.cat([backward, forward], -1), atol=1e-6, rtol=0)


def test_outputs_exceed_the_clip_only_by_skip_connections():
    drawn = {**TINY_OPTIONS, "lstm": {**TINY_OPTIONS["lstm"], "proj_clip": 0.05}}
    bilm = build_bilm(drawn, random_weights(drawn))
    with torch.no_grad():
        output = bilm(encode(bilm, [["one", "two", "three"]]))
    assert output.layers[1].abs().max() <= 0.05 + 1e-7
    assert output.layers[2].abs().max() > 0.06
    assert output.state.hidden.abs().max() <= 0.05 + 1e-7, "the state has no residual"


def test_a_larger_batch_starts_fresh_and_a_smaller_one_leaves_the_rest(bilm, corpus):
    def read(sentences, carried):
        batch = encode(bilm, sentences)
        return carry_over(carried, len(sentences), bilm, lambda before: bilm(batch, before))

    with torch.no_grad():
        _, first = read(corpus[:2], bilm.initial_state(0))
        second_output, second = read(corpus[2:5], first)
        _, third = read(corpus[5:6], second)
        fresh = bilm(encode(bilm, [corpus[4]]))
    assert first.hidden.shape[2] == 2
    assert second.hidden.shape[2] == third.hidden.shape[2] == 3
    np.testing.assert_allclose(
        sentence_layers(second_output, 2), sentence_layers(fresh, 0), atol=1e-6
    )
    assert torch.equal(third.hidden[:, :, 1:], second.hidden[:, :, 1:])
    assert not torch.equal(third.hidden[:, :, 0], second.hidden[:, :, 0])


def test_a_carried_state_follows_the_network_to_another_type(bilm, corpus):
    state = bilm.initial_state(1)
    batch = encode(bilm, corpus[:1])
    bilm.double()
    output, after = carry_over(state, 1, bilm, lambda before: bilm(batch, before))
    assert output.layers.dtype == after.hidden.dtype == torch.float64


def test_an_empty_batch_gives_empty_layers(bilm):
    output = bilm(encode(bilm, []))
    assert output.layers.shape == (3, 0, 0, 16)
    assert output.state.hidden.shape == (2, 2, 0, 8)


def test_every_weight_receives_a_gradient(bilm, corpus):
    bilm(encode(bilm, corpus)).layers.square().sum().backward()
    for name, parameter in bilm.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


def test_dropout_drops_in_training_only(bilm, corpus):
    vectors = torch.randn(3, 8)
    index = [torch.tensor([0, 1, 2])] * 2

    def run():
        layers, _ = bilm.run(vectors, index, [1, 1, 1], bilm.initial_state(1), dropout_rate=0.5)
        return layers[-1][0].detach()

    assert torch.equal(run(), run())
    bilm.train()
    assert not torch.equal(run(), run())


@given(st.data())
def test_resets_equal_separate_sentences(data):
    """Read sentences as a stream with resets between them, as in pre-training."""
    bilm = UNCHANGED
    lengths = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=4))
    assume(sum(lengths) > 1)
    vectors = torch.randn(sum(lengths), 8, generator=torch.Generator().manual_seed(0))
    starts = np.cumsum([0, *lengths[:-1]])
    reset = torch.zeros(len(vectors), dtype=torch.bool)
    reset[starts] = True
    everything = torch.arange(len(vectors))
    dirty = bilm.initial_state(1)
    dirty = type(dirty)(dirty.hidden + 1, dirty.cell + 1)
    with torch.no_grad():
        together, _ = bilm.run(vectors, [everything] * 2, [1] * len(vectors), dirty, [reset] * 2)
        for start, length in zip(starts, lengths, strict=True):
            place = slice(start, start + length)
            alone, _ = bilm.run(
                vectors, [everything[place]] * 2, [1] * length, bilm.initial_state(1)
            )
            for r in range(2):
                for depth in range(2):
                    torch.testing.assert_close(
                        together[depth][r][place], alone[depth][r], atol=1e-6, rtol=1e-5
                    )


def test_a_network_is_built_without_any_file():
    config = BiLMConfig(
        char_cnn=CharCnnConfig(filters=((1, 3), (2, 5)), n_highways=0, activation="tanh"),
        lstm=LstmConfig(dim=6, projection_dim=8, n_layers=1, has_skip_connections=False),
    )
    bilm = BiLM(config)
    assert bilm.char_cnn.projection is None
    assert bilm(encode(bilm, [["a"]])).layers.shape == (2, 1, 3, 16)
