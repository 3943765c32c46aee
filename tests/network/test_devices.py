"""The network where the kernels cannot run: other devices, other dtypes, autocast."""

import pytest
import torch

from elmo.inference.layer import ElmoLayer
from elmo.network import kernels
from elmo.network.bilm import BiLM, BiLMState
from elmo.network.config import BiLMConfig, CharCnnConfig, LstmConfig, tiny
from tests.random_models import encode_batch

SENTENCES = [["I", "took", "a", "bow", "."], ["bow"], ["a", "bow", "and", "arrow"]]


# As wide as its filters, so that the token vectors are not projected.
NO_PROJECTION = BiLMConfig(
    char_cnn=CharCnnConfig(char_dim=8, filters=((1, 8), (2, 8)), n_highways=1),
    lstm=LstmConfig(dim=32, projection_dim=16),
)


def build_model(config: BiLMConfig | None = None) -> BiLM:
    torch.manual_seed(1)
    return BiLM(config or tiny()).eval()


@torch.no_grad()
def test_double_precision_runs_the_plain_path_and_gives_the_same_vectors() -> None:
    bilm = build_model()
    batch = encode_batch(SENTENCES, 50, 3)
    single = bilm(batch).layers
    double = bilm.double()(batch).layers
    assert double.dtype == torch.float64
    torch.testing.assert_close(single.double(), double, atol=1e-5, rtol=0)


def assert_near(rounded: torch.Tensor, exact: torch.Tensor) -> None:
    # bfloat16 has eight bits: products of numbers near one are accurate to a few hundredths.
    torch.testing.assert_close(rounded.float(), exact, atol=0.05, rtol=0.05)


@pytest.mark.parametrize("config", [tiny(), NO_PROJECTION], ids=["projection", "no projection"])
@pytest.mark.parametrize("wants_gradients", [False, True])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_autocast_gives_nearly_the_same_vectors(
    config: BiLMConfig, wants_gradients: bool, dtype: torch.dtype
) -> None:
    bilm = build_model(config)
    batch = encode_batch(SENTENCES, 50, 3)
    with torch.no_grad():
        exact = bilm(batch).layers
    with torch.autocast("cpu", dtype=dtype), torch.set_grad_enabled(wants_gradients):
        assert_near(bilm(batch).layers, exact)


@pytest.mark.parametrize("config", [tiny(), NO_PROJECTION], ids=["projection", "no projection"])
@pytest.mark.parametrize("fine_tune", [False, True])
def test_a_layer_of_a_task_trains_under_autocast(config: BiLMConfig, fine_tune: bool) -> None:
    layer = ElmoLayer(build_model(config), fine_tune=fine_tune, dropout=0.0)
    with torch.no_grad():
        exact = layer(SENTENCES).mixes[0]
    with torch.autocast("cpu", dtype=torch.bfloat16):
        mixed = layer(SENTENCES).mixes[0]
    assert_near(mixed, exact)
    mixed.float().sum().backward()
    trained = [parameter for parameter in layer.parameters() if parameter.requires_grad]
    assert all(parameter.grad is not None for parameter in trained)


@torch.no_grad()
def test_a_model_in_bfloat16_runs_under_autocast() -> None:
    batch = encode_batch(SENTENCES, 50, 3)
    exact = build_model()(batch).layers
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert_near(build_model().bfloat16()(batch).layers, exact)


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
