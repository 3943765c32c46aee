"""The network where the kernels cannot run: other devices, other number types, autocast."""

import torch

from elmo.network import kernels
from elmo.network.bilm import BiLM, BiLMState
from elmo.network.config import tiny
from tests.random_models import encode_batch

SENTENCES = [["I", "took", "a", "bow", "."], ["bow"], ["a", "bow", "and", "arrow"]]


def build_model() -> BiLM:
    torch.manual_seed(1)
    return BiLM(tiny()).eval()


@torch.no_grad()
def test_double_precision_runs_the_plain_path_and_gives_the_same_vectors() -> None:
    bilm = build_model()
    batch = encode_batch(SENTENCES, 50, 3)
    single = bilm(batch).layers
    double = bilm.double()(batch).layers
    assert double.dtype == torch.float64
    torch.testing.assert_close(single.double(), double, atol=1e-5, rtol=0)


@torch.no_grad()
def test_autocast_runs_the_plain_path_near_the_same_vectors() -> None:
    bilm = build_model()
    batch = encode_batch(SENTENCES, 50, 3)
    exact = bilm(batch).layers
    with torch.autocast("cpu", dtype=torch.bfloat16):
        layers = next(zip(*bilm.stacks.values(), strict=True))
        assert not kernels.can_run(layers, [exact])
        rounded = bilm(batch).layers
    # bfloat16 has eight bits: products of numbers near one are right to some hundredths.
    torch.testing.assert_close(rounded.float(), exact, atol=0.05, rtol=0.05)


@torch.no_grad()
def test_matrices_stored_in_half_the_bits_are_computed_with_as_if_rounded() -> None:
    batch = encode_batch(SENTENCES, 50, 3)
    exact = build_model()(batch).layers
    stored, rounded = build_model(), build_model()
    stored.store_matrices(torch.bfloat16)
    rounded.store_matrices(torch.bfloat16)
    rounded.float()
    layers = stored(batch).layers
    assert layers.dtype == torch.float32
    assert stored.stacks["forward_layers"][0].input_weight.dtype == torch.bfloat16
    # Where the processor multiplies bfloat16, what the matrices are multiplied with is rounded too.
    near = 0.01 if kernels.multiplies_bfloat16() else 1e-5
    torch.testing.assert_close(layers, rounded(batch).layers, atol=near, rtol=0)
    assert 1e-5 < float((layers - exact).abs().max()) < 0.02
    # The plain path, which double precision takes, computes with them in the same way.
    for parameter in (*stored.char_cnn.parameters(), *stored.stacks.parameters()):
        parameter.data = parameter.data if parameter.dtype == torch.bfloat16 else parameter.double()
    torch.testing.assert_close(stored(batch).layers.float(), layers, atol=near, rtol=0)


def test_a_device_without_numbers_gives_the_shapes() -> None:
    with torch.device("meta"):
        bilm = BiLM(tiny())
        state = bilm.initial_state(2)
        index = torch.zeros(5, dtype=torch.int64)
        vectors = bilm.token_vectors(torch.zeros(3, 10, dtype=torch.int64))
        layers, after = bilm.run(vectors, [index, index], [2, 2, 1], state)
    width = bilm.config.lstm.projection_dim
    assert [[tuple(rows.shape) for rows in layer] for layer in layers] == [[(5, width)] * 2] * 2
    assert isinstance(after, BiLMState)
    assert after.cell.shape == state.cell.shape
    assert after.cell.device.type == "meta"
