"""Held-out perplexity: equal to a plain computation, whatever the order and batches."""

import json
import math

import pytest
import torch
from click.testing import CliRunner

from elmo.cli.main import cli
from elmo.errors import CheckpointError, DataError
from elmo.models import model_folder
from elmo.models.model_folder import Model
from elmo.network.bilm import BiLM
from elmo.network.config import tiny
from elmo.network.softmax import build_head
from elmo.pretraining.batches import InputOutputEncoder
from elmo.pretraining.perplexity import measure, measure_text
from elmo.text.vocabulary import BEGIN, END, Vocabulary
from tests.random_models import encode_batch

SENTENCES = [["a", "b", "c", "a"], ["b"], ["c", "zebra", "b"], ["a", "a"], ["never", "b", "c"]]


@pytest.fixture(scope="module")
def model():
    torch.manual_seed(3)
    vocabulary = Vocabulary.of_words(["a", "b", "c"])
    head = build_head("sampled", len(vocabulary), tiny().lstm.projection_dim)
    torch.nn.init.normal_(head.bias)
    return Model(BiLM(tiny()).eval(), head, vocabulary)


def perplexity(model, sentences=SENTENCES):
    return measure(model.bilm, model.head, InputOutputEncoder.of(model), sentences)


@torch.no_grad()
def plain_nll(model, direction):
    """The total NLL of the sentences, each run alone as for embedding."""
    total, width = 0.0, model.bilm.config.lstm.projection_dim
    for words in SENTENCES:
        top = model.bilm(encode_batch([words], 50, model.bilm.char_cnn.widest_filter)).layers[-1, 0]
        ids = [BEGIN, *model.vocabulary.ids(words).tolist(), END]
        if direction == "forward":
            hidden, targets = top[:-1, :width], ids[1:]
        else:
            hidden, targets = top[1:, width:], ids[:-1]
        scores = model.head.log_probs(hidden)
        total -= sum(scores[n, target].item() for n, target in enumerate(targets))
    return total


def test_perplexity_is_that_of_the_network_as_it_embeds(model):
    measured = perplexity(model)
    n_positions = sum(len(words) + 1 for words in SENTENCES)
    forward, backward = (plain_nll(model, d) / n_positions for d in ("forward", "backward"))
    assert measured.forward == pytest.approx(math.exp(forward), rel=1e-5)
    assert measured.backward == pytest.approx(math.exp(backward), rel=1e-5)
    assert measured.mean == pytest.approx((math.exp(forward) + math.exp(backward)) / 2, rel=1e-5)


def test_order_and_batches_change_nothing(model, monkeypatch):
    expected = perplexity(model)
    monkeypatch.setattr("elmo.pretraining.perplexity.POSITIONS_AT_ONCE", 5)
    again = perplexity(model, SENTENCES[::-1])
    assert again.forward == pytest.approx(expected.forward, rel=1e-6)
    assert again.backward == pytest.approx(expected.backward, rel=1e-6)
    assert again.tokens == expected.tokens == 13


def test_a_model_that_knows_nothing_is_as_perplexed_as_it_has_words(model):
    head = build_head("full", 6, 16)
    torch.nn.init.zeros_(head.weight)
    measured = perplexity(Model(model.bilm, head, model.vocabulary))
    assert measured.forward == pytest.approx(6)
    # 18 positions of log2(6) bits; "zebra" and "never" spelled, with their ends, at 8 bits a byte.
    bits = 18 * math.log2(6) + 8 * (6 + 6)
    n_characters = sum(len(word) + 1 for words in SENTENCES for word in words)
    assert measured.bits_per_character == pytest.approx(bits / n_characters)
    assert measured.unknown_rate == pytest.approx(2 / 13)


def test_a_model_of_one_direction_is_measured_in_it(model):
    config = type(tiny())(char_cnn=tiny().char_cnn, lstm=tiny().lstm, directions=("backward",))
    measured = perplexity(Model(BiLM(config).eval(), model.head, model.vocabulary))
    assert measured.forward is None
    assert measured.mean == measured.backward


def test_measuring_leaves_a_training_model_in_training(model):
    bilm = BiLM(tiny()).train()
    perplexity(Model(bilm, model.head, model.vocabulary))
    assert bilm.training


def test_no_words_are_an_error(model):
    with pytest.raises(DataError, match="no words"):
        perplexity(model, [])


def test_a_model_without_a_head_is_an_error(model, tmp_path):
    with pytest.raises(CheckpointError, match="no softmax"):
        measure_text(Model(model.bilm), str(tmp_path / "any.txt"), "tokens")


def test_the_command_prints_what_a_program_can_read(model, tmp_path):
    model_folder.save(tmp_path / "model", model)
    (tmp_path / "text.txt").write_text("".join(" ".join(words) + "\n" for words in SENTENCES))
    arguments = [
        "evaluate",
        str(tmp_path / "model"),
        str(tmp_path / "text.txt"),
        "--lines",
        "tokens",
    ]
    result = CliRunner().invoke(cli, [*arguments, "--json"], catch_exceptions=False)
    printed = json.loads(result.stdout)
    expected = ["forward", "backward", "mean", "bits_per_character", "unknown_rate", "tokens"]
    assert [name for name in expected if name not in printed] == []
    assert printed["forward"] == pytest.approx(perplexity(model).forward)
    assert "unknown rate" in CliRunner().invoke(cli, arguments, catch_exceptions=False).stdout
