"""One projected, clipped layer: against the plain reference, with states, resets and gradients.

Float32 on a CPU runs on the kernels where there are any, float64 on the plain path: both are
compared with the same reference.
"""

import math

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo.network.lstm import LayerState, LstmLayer, run_layers
from tests import reference

DTYPES = {torch.float32: 1e-5, torch.float64: 1e-10}


def random_layer(rng, input_dim, dim, projection_dim, clips, dtype):
    layer = LstmLayer(
        input_dim=input_dim,
        dim=dim,
        projection_dim=projection_dim,
        cell_clip=clips[0],
        projection_clip=clips[1],
    )
    with torch.no_grad():
        for parameter in layer.parameters():
            parameter.copy_(torch.from_numpy(rng.normal(0, 0.7, tuple(parameter.shape))))
    return layer.to(dtype)


def official_weights(layer):
    both = torch.cat([layer.input_weight, layer.recurrent_weight], dim=1).T
    return [x.detach().double().numpy() for x in (both, layer.bias, layer.projection_weight.T)]


def plain(layer, sentences, states, resets):
    """Each sentence by itself, step by step."""
    weights, clips = official_weights(layer), (layer.cell_clip, layer.projection_clip)
    outputs, after = [], []
    for rows, (hidden, cell), is_reset in zip(sentences, states, resets, strict=True):
        outputs.append([])
        for x, is_zero in zip(rows, is_reset, strict=True):
            if is_zero:
                hidden, cell = np.zeros_like(hidden), np.zeros_like(cell)
            hidden, cell = reference.lstm_step(x, hidden, cell, weights, clips)
            outputs[-1].append(hidden)
        after.append((hidden, cell))
    return outputs, after


def packed(sentences):
    """Tokens in time-major order, longest sentence first, and the number of them at each step."""
    n_steps = max(map(len, sentences), default=0)
    tokens = [s[t] for t in range(n_steps) for s in sentences if t < len(s)]
    return tokens, [sum(t < len(s) for s in sentences) for t in range(n_steps)]


@given(
    lengths=st.lists(st.integers(0, 6), min_size=1, max_size=4).map(
        lambda lengths: sorted(lengths, reverse=True)
    ),
    dims=st.tuples(st.integers(1, 5), st.integers(1, 9), st.integers(1, 6)),
    clips=st.tuples(*[st.sampled_from([None, 0.3, 3.0])] * 2),
    n_directions=st.integers(1, 2),
    has_index=st.booleans(),
    has_resets=st.booleans(),
    needs_gradient=st.booleans(),
    dtype=st.sampled_from(list(DTYPES)),
    seed=st.integers(0, 99),
)
def test_layers_equal_the_plain_reference(
    lengths, dims, clips, n_directions, has_index, has_resets, needs_gradient, dtype, seed
):
    rng = np.random.default_rng(seed)
    input_dim, dim, projection_dim = dims
    layers, rows, index, states, resets, expected = [], [], [], [], [], []
    for _ in range(n_directions):
        layer = random_layer(rng, input_dim, dim, projection_dim, clips, dtype)
        words = rng.normal(size=(7, input_dim)).astype(np.float32)
        which = [rng.integers(7, size=length) for length in lengths]
        is_reset = [rng.random(length) < 0.3 * has_resets for length in lengths]
        before = [(rng.normal(size=projection_dim), rng.normal(size=dim)) for _ in lengths]
        tokens, batch_sizes = packed(which)
        tokens = torch.tensor(np.array(tokens, dtype=np.int64))
        rows.append(torch.from_numpy(words).to(dtype))
        if not has_index:
            rows[-1] = rows[-1][tokens]
        layers.append(layer)
        index.append(tokens if has_index else None)
        resets.append(torch.tensor(np.array(packed(is_reset)[0], dtype=bool)))
        states.append(
            LayerState(*(torch.tensor(np.array(x)).to(dtype) for x in zip(*before, strict=True)))
        )
        before = [(h.astype(np.float32), c.astype(np.float32)) for h, c in before]
        expected.append(plain(layer, [words[w] for w in which], before, is_reset))

    with torch.set_grad_enabled(needs_gradient):
        outputs, after = run_layers(
            layers, rows, index, batch_sizes, states, resets if has_resets else None
        )
    tolerance = DTYPES[dtype] if dtype == torch.float32 else 1e-6  # the inputs are in float32
    for found, state, (plain_outputs, plain_after) in zip(outputs, after, expected, strict=True):
        flat = np.array(packed(plain_outputs)[0]).reshape(-1, projection_dim)
        np.testing.assert_allclose(found.detach(), flat, atol=tolerance)
        hidden, cell = (np.array(x) for x in zip(*plain_after, strict=True))
        np.testing.assert_allclose(state.hidden.detach(), hidden, atol=tolerance)
        np.testing.assert_allclose(state.cell.detach(), cell, atol=tolerance)


@pytest.mark.parametrize("has_resets", [False, True])
@pytest.mark.parametrize("clips", [(None, None), (0.3, 0.5)])
def test_gradients_equal_those_of_the_float64_path(clips, has_resets):
    """Compare the kernels' float32 gradients with autograd of the plain path in float64."""
    rng = np.random.default_rng(3)
    lengths, n_words = [5, 3, 3, 1], 4
    tokens, batch_sizes = packed([rng.integers(n_words, size=length) for length in lengths])
    index = torch.tensor(np.array(tokens))
    resets = torch.tensor(rng.random(len(tokens)) < 0.3) if has_resets else None
    layer = random_layer(rng, 3, 8, 5, clips, torch.float64)
    start = [rng.normal(size=shape) for shape in [(n_words, 3), (len(lengths), 5), (4, 8)]]
    weight = torch.tensor(rng.normal(size=(len(tokens), 5)))
    gradients = {}
    for dtype in DTYPES:
        layer = layer.to(dtype)
        layer.zero_grad()
        rows, hidden, cell = (torch.tensor(x).to(dtype).requires_grad_() for x in start)
        [output], [state] = run_layers(
            [layer], [rows], [index], batch_sizes, [LayerState(hidden, cell)], [resets]
        )
        loss = (output * weight.to(dtype)).sum() + state.hidden.sum() + state.cell.square().sum()
        loss.backward()
        gradients[dtype] = [x.grad.double() for x in (rows, hidden, cell, *layer.parameters())]
    for found, expected in zip(gradients[torch.float32], gradients[torch.float64], strict=True):
        torch.testing.assert_close(found, expected, atol=1e-4, rtol=1e-4)


def test_no_tokens_leave_the_state_as_it_was():
    layer = random_layer(np.random.default_rng(0), 3, 4, 2, (3.0, 3.0), torch.float32)
    state = LayerState(torch.randn(2, 2), torch.randn(2, 4))
    with torch.no_grad():
        [output], [after] = run_layers([layer], [torch.empty(0, 3)], [None], [], [state])
    assert output.shape == (0, 2)
    assert torch.equal(after.hidden, state.hidden)
    assert torch.equal(after.cell, state.cell)


def test_the_forget_gate_starts_open():
    layer = LstmLayer(input_dim=3, dim=4, projection_dim=2, cell_clip=None, projection_clip=None)
    assert layer.gate_bias.tolist() == [0.0] * 8 + [1.0] * 4 + [0.0] * 4
    assert not layer.bias.any(), "as in the files, where it is added when the cell runs"


def test_weights_start_as_glorot_of_the_original_s_one_matrix():
    torch.manual_seed(0)
    layer = LstmLayer(
        input_dim=40, dim=100, projection_dim=60, cell_clip=None, projection_clip=None
    )
    bound = math.sqrt(6 / (40 + 60 + 400))
    for weight in (layer.input_weight, layer.recurrent_weight):
        assert weight.abs().max() <= bound
        assert weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.03)
    bound = math.sqrt(6 / 160)
    assert layer.projection_weight.abs().max() <= bound
    assert layer.projection_weight.std().item() == pytest.approx(bound / math.sqrt(3), rel=0.03)
