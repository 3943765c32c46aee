"""The module in a task model: gradients, dropout, copies, state dicts and distributed training."""

import copy
import inspect
import io
import socket

import numpy as np
import pytest
import torch
from torch import nn

from elmo.api import Elmo
from elmo.errors import ConfigError, DataError
from elmo.inference.layer import ElmoLayer
from elmo.models.model_folder import Model
from elmo.network import kernels
from elmo.network.scalar_mix import LAYER_NORMS
from tests.conftest import CORPUS, TINY_OPTIONS
from tests.random_models import build_bilm, random_weights


@pytest.fixture
def layer(bilm):
    return ElmoLayer(bilm, n_outputs=2, dropout=0.0)


@pytest.mark.filterwarnings("ignore:1 words are longer")
def test_each_mix_is_the_mix_of_the_embedded_layers(elmo, corpus):
    layer = elmo.layer(n_outputs=2, dropout=0.0)
    with torch.no_grad():
        layer.mixes[1].weights.copy_(torch.tensor([1.0, 0.0, -1.0]))
        layer.mixes[1].gamma.fill_(3)
        output = layer(corpus)
    shares = torch.softmax(torch.tensor([1.0, 0.0, -1.0]), 0) * 3
    for k, embedded in enumerate(elmo.embed_tokens(corpus)):
        n_tokens = len(corpus[k])
        np.testing.assert_allclose(output.mixes[0][k, :n_tokens], embedded.vectors(), atol=1e-5)
        np.testing.assert_allclose(
            output.mixes[1][k, :n_tokens], embedded.vectors(shares.tolist()), atol=1e-5
        )


def test_shapes_and_mask_have_no_markers(layer, corpus):
    output = layer(corpus[:4])
    longest = max(map(len, corpus[:4]))
    assert [tuple(mix.shape) for mix in output.mixes] == [(4, longest, 16)] * 2
    assert output.mask.sum(1).tolist() == [len(words) for words in corpus[:4]]
    assert layer.output_dim == 16


@pytest.mark.parametrize("layer_norm", [None, *LAYER_NORMS])
def test_padding_is_zero_with_every_norm(bilm, corpus, layer_norm):
    layer = ElmoLayer(bilm, dropout=0.0, layer_norm=layer_norm)
    output = layer(corpus[:4])
    assert not output.mixes[0][~output.mask].any()
    assert output.mixes[0][output.mask].abs().sum(-1).min() > 0


@pytest.mark.filterwarnings("ignore:1 words are longer")
def test_char_ids_give_what_tokens_give(layer, corpus):
    from elmo.adapters.allennlp import batch_to_ids

    sentences = [[word for word in words if word not in ("<S>", "</S>")] for words in corpus]
    by_tokens, by_ids = layer(sentences), layer(batch_to_ids(sentences))
    assert torch.equal(by_tokens.mask, by_ids.mask)
    for one, other in zip(by_tokens.mixes, by_ids.mixes, strict=True):
        torch.testing.assert_close(one, other, atol=1e-5, rtol=0)


def test_it_is_frozen_by_default(layer, corpus):
    output = layer(corpus[:3])
    sum(mix.sum() for mix in output.mixes).backward()
    assert all(parameter.grad is None for parameter in layer.bilm.parameters())
    assert all(parameter.grad is not None for parameter in layer.mixes.parameters())
    trained = [name for name, parameter in layer.named_parameters() if parameter.requires_grad]
    assert trained == [f"mixes.{k}.{name}" for k in range(2) for name in ("weights", "gamma")]


@pytest.mark.needs("compiler")
def test_a_frozen_layer_leaves_the_weights_that_it_shares_packed(official, corpus):
    elmo = Elmo.load(official)
    elmo.layer()(corpus[:3])
    n_all = kernels.count_numbers(elmo.bilm)
    assert sum(each.numel() for each in kernels.plain_tensors(elmo.bilm)) < n_all / 2


def test_frozen_in_training_mode_too(layer, corpus):
    before = {name: tensor.clone() for name, tensor in layer.bilm.state_dict().items()}
    layer.train()
    steps = torch.optim.SGD(layer.parameters(), lr=0.1)
    layer(corpus[:3]).mixes[0].square().sum().backward()
    steps.step()
    assert all(torch.equal(before[name], t) for name, t in layer.bilm.state_dict().items())


def test_fine_tuning_lets_gradients_into_every_weight(bilm, corpus):
    layer = ElmoLayer(bilm, dropout=0.0, fine_tune=True)
    layer(corpus[:3]).mixes[0].square().sum().backward()
    for name, parameter in layer.bilm.named_parameters():
        assert parameter.grad is not None, name
        assert parameter.grad.abs().sum() > 0, name


def test_fine_tuned_gradients_are_those_of_small_changes(bilm):
    """Compare with finite differences in float64, through mix, network and token layer."""
    bilm = bilm.double()
    layer = ElmoLayer(bilm, dropout=0.0, fine_tune=True).double()

    def loss():
        return layer([["a", "bow"], ["arrow"]]).mixes[0].square().sum()

    loss().backward()
    for name, parameter in layer.named_parameters():
        place = parameter.grad.abs().argmax()
        flat = parameter.data.view(-1)
        start, step = flat[place].item(), 1e-6
        with torch.no_grad():
            flat[place] = start + step
            above = loss().item()
            flat[place] = start - step
            below = loss().item()
            flat[place] = start
        expected = (above - below) / (2 * step)
        assert parameter.grad.view(-1)[place].item() == pytest.approx(expected, rel=1e-4), name


def test_fine_tuning_leaves_the_opened_model_as_it_was(elmo, corpus):
    before = elmo.embed_tokens([corpus[0]])[0].layers
    layer = elmo.layer(fine_tune=True, dropout=0.0)
    layer(corpus[:2]).mixes[0].sum().backward()
    torch.optim.SGD(layer.parameters(), lr=0.5).step()
    np.testing.assert_array_equal(elmo.embed_tokens([corpus[0]])[0].layers, before)
    changed = Elmo(Model(layer.bilm)).embed_tokens([corpus[0]])[0].layers
    assert not np.allclose(changed, before)


def test_a_frozen_layer_shares_the_model_s_weights(elmo):
    assert elmo.layer().bilm is elmo.bilm


def test_dropout_is_for_training_only(bilm, corpus):
    layer = ElmoLayer(bilm, dropout=0.5)
    layer.eval()
    assert torch.equal(layer(corpus[:2]).mixes[0], layer(corpus[:2]).mixes[0])
    layer.train()
    dropped = layer(corpus[:2])
    share = (dropped.mixes[0][dropped.mask] == 0).float().mean().item()
    assert 0.3 < share < 0.7
    kept = dropped.mixes[0] != 0
    layer.eval()
    torch.testing.assert_close(dropped.mixes[0][kept], 2 * layer(corpus[:2]).mixes[0][kept])


def test_settings_reach_every_mix(bilm):
    layer = ElmoLayer(
        bilm,
        n_outputs=3,
        initial_weights=[1.0, 2.0, 3.0],
        initial_gamma=0.5,
        freeze_mix=True,
        layer_norm="token",
        penalty=0.1,
    )
    assert layer.penalty().item() == pytest.approx(3 * 0.1 * 14)
    for mix in layer.mixes:
        assert mix.gamma.item() == 0.5
        assert mix.layer_norm == "token"
    assert not any(parameter.requires_grad for parameter in layer.parameters())


def test_a_deep_copy_is_equal_and_independent(bilm, corpus):
    layer = ElmoLayer(bilm, dropout=0.0, fine_tune=True)
    layer(corpus[:2]).mixes[0].sum().backward()
    twin = copy.deepcopy(layer)
    expected = layer(corpus[:2]).mixes[0].detach()
    torch.testing.assert_close(twin(corpus[:2]).mixes[0], expected)
    with torch.no_grad():
        for parameter in twin.parameters():
            parameter.add_(1)
    torch.testing.assert_close(layer(corpus[:2]).mixes[0], expected)


def test_the_state_dict_comes_back_through_a_file(layer, corpus):
    with torch.no_grad():
        layer.mixes[0].weights.copy_(torch.tensor([1.0, 2.0, 3.0]))
    file = io.BytesIO()
    torch.save(layer.state_dict(), file)
    file.seek(0)
    other = ElmoLayer(
        build_bilm(TINY_OPTIONS, random_weights(TINY_OPTIONS, seed=7)), n_outputs=2, dropout=0.0
    )
    other.load_state_dict(torch.load(file, weights_only=True))
    for one, two in zip(layer(corpus[:3]).mixes, other(corpus[:3]).mixes, strict=True):
        torch.testing.assert_close(one, two)


class Tagger(nn.Module):
    """A task model as users write it."""

    def __init__(self, layer):
        super().__init__()
        self.elmo = layer
        self.classify = nn.Linear(layer.output_dim, 3)

    def forward(self, sentences):
        return self.classify(self.elmo(sentences).mixes[0])


def free_port():
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return listener.getsockname()[1]


@pytest.mark.parametrize("fine_tune", [False, True])
@pytest.mark.parametrize("as_ids", [False, True])
def test_it_trains_under_distributed_data_parallel(bilm, corpus, fine_tune, as_ids):
    from elmo.adapters.allennlp import batch_to_ids

    alone = Tagger(ElmoLayer(bilm, dropout=0.0, fine_tune=fine_tune))
    shared = copy.deepcopy(alone)
    sentences = batch_to_ids(corpus[:3]) if as_ids else corpus[:3]
    torch.distributed.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{free_port()}", rank=0, world_size=1
    )
    try:
        parallel = nn.parallel.DistributedDataParallel(shared)
        for _ in range(2):
            for model in (alone, parallel):
                steps = torch.optim.SGD(model.parameters(), lr=0.01)
                steps.zero_grad()
                model(sentences).square().mean().backward()
                steps.step()
    finally:
        # DDP must not hold the last reference to the process group: its destructor may wait, with
        # the GIL held, for a thread that needs the GIL.
        parallel = model = steps = None
        torch.distributed.destroy_process_group()
    for (name, one), other in zip(alone.named_parameters(), shared.parameters(), strict=True):
        torch.testing.assert_close(one, other, msg=name)


def _train_in_process(rank, world_size, port, results):
    """Take one step on sentences of this process; all processes must end with the same weights."""
    torch.set_num_threads(1)
    torch.distributed.init_process_group(
        "gloo", init_method=f"tcp://127.0.0.1:{port}", rank=rank, world_size=world_size
    )
    model = Tagger(
        ElmoLayer(
            build_bilm(TINY_OPTIONS, random_weights(TINY_OPTIONS)), dropout=0.0, fine_tune=True
        )
    )
    nn.init.constant_(model.classify.weight, 0.1)
    nn.init.zeros_(model.classify.bias)
    parallel = nn.parallel.DistributedDataParallel(model)
    sentences = [line.split() for line in CORPUS.splitlines()][rank : rank + 3]
    parallel(sentences).square().mean().backward()
    torch.optim.SGD(parallel.parameters(), lr=0.1).step()
    results[rank] = {name: p.detach().numpy() for name, p in model.named_parameters()}
    del parallel  # it must not hold the last reference, as above
    torch.distributed.destroy_process_group()


@pytest.mark.slow
def test_two_processes_end_with_the_same_weights():
    with torch.multiprocessing.Manager() as manager:
        results = manager.dict()
        torch.multiprocessing.spawn(_train_in_process, (2, free_port(), results), nprocs=2)
        one, other = results[0], results[1]
    for name in one:
        np.testing.assert_array_equal(one[name], other[name], err_msg=name)


@pytest.mark.parametrize("sentences", [[], [[]], [[], ["a"]]])
def test_empty_sentences_and_batches_pass(layer, sentences):
    output = layer(sentences)
    assert output.mixes[0].shape == (len(sentences), max(map(len, sentences), default=0), 16)
    assert output.mask.sum() == sum(map(len, sentences))


def test_long_words_are_counted(layer):
    with pytest.warns(UserWarning, match="1 words are longer than 48 bytes"):
        layer([["x" * 49, "short"]])


@pytest.mark.parametrize(
    ("sentences", "told"),
    [
        (["a bow"], "the text 'a bow', expected a list of tokens"),
        ([["a", 3]], "a token is 3 of type int, expected a str"),
        (torch.zeros(2, 50, dtype=torch.int64), r"tensor \(2, 50\), expected char ids"),
    ],
)
def test_what_is_no_sentence_is_reported(layer, sentences, told):
    with pytest.raises(DataError, match=told):
        layer(sentences)


def test_elmo_s_layer_has_the_parameters_of_the_module():
    ours = inspect.signature(Elmo.layer).parameters
    theirs = inspect.signature(ElmoLayer).parameters
    assert {n: (p.default, p.annotation) for n, p in ours.items() if n != "self"} == {
        n: (p.default, p.annotation) for n, p in theirs.items() if n != "bilm"
    }


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"n_outputs": 0}, "n_outputs is 0, expected a whole number from 1"),
        ({"n_outputs": 1.5}, "n_outputs is 1.5"),
        ({"dropout": 1.5}, "dropout is 1.5, expected a number from 0, below 1"),
        ({"dropout": "0.5"}, "dropout is '0.5'"),
        ({"initial_gamma": float("nan")}, "initial_gamma is nan"),
        ({"initial_weights": [0, float("inf"), 0]}, "an initial weight is inf"),
        ({"initial_weights": "abc"}, "an initial weight is 'a'"),
        ({"penalty": -1}, "penalty is -1, expected a finite number from 0"),
        ({"layer_norm": "batch"}, "layer norm 'batch' is unknown"),
    ],
)
def test_wrong_settings_of_a_layer_are_reported(elmo, settings, told):
    with pytest.raises(ConfigError, match=told):
        elmo.layer(**settings)
