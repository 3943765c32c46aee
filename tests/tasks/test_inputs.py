"""Inputs of task models: independent of the rest of the batch, and as configured."""

import pytest
import torch

from elmo.errors import ConfigError
from elmo.tasks.config import CharsConfig, ElmoConfig, TaskConfig, WordsConfig, read_config
from elmo.tasks.inputs import TokenVectors
from elmo.tasks.nn.lstm import BiLSTM
from elmo.tasks.word_table import WordTable


@pytest.fixture
def build(source, corpus):
    def build(**groups):
        settings = {"chars": CharsConfig(filters=((2, 5),)), "words": WordsConfig(dim=4)} | groups
        config = TaskConfig(**settings)
        torch.manual_seed(1)
        words = None if config.words is None else WordTable.build(config.words, corpus, None)
        layers = None if config.elmo is None else source(config.elmo)
        return TokenVectors(config, words, layers).eval()

    return build


def test_padding_and_order_do_not_change_vectors(build, corpus):
    tokens = build()
    batch = tokens.read(corpus)
    together = tokens(batch)
    assert together.shape == (len(corpus), max(map(len, corpus)), tokens.input_dim)
    assert tokens.input_dim == 4 + 5 + 16
    for row, sentence in reversed(list(enumerate(corpus))):
        alone = tokens(tokens.read([sentence]))[0]
        torch.testing.assert_close(together[row, : len(sentence)], alone, atol=2e-3, rtol=0)
        assert not together[row, len(sentence) :].any()


def test_a_paragraph_is_its_sentences_one_after_the_other(build, corpus):
    tokens = build()
    joined = tokens(tokens.read_joined([corpus[:3], corpus[3:4]]))
    apart = [tokens(tokens.read([sentence]))[0] for sentence in corpus[:3]]
    n_tokens = sum(map(len, corpus[:3]))
    torch.testing.assert_close(joined[0, :n_tokens], torch.cat(apart), atol=2e-3, rtol=0)
    assert not joined[1, len(corpus[3]) :].any()


def test_elmo_has_a_mix_of_its_own_at_each_place(build, corpus):
    tokens = build(elmo=ElmoConfig(place="both"))
    batch = tokens.read(corpus)
    hidden = torch.zeros(*batch.index.shape, 3)
    before = tokens(batch)
    with torch.no_grad():
        tokens.output_mix.gamma.mul_(2)
    assert tokens.add_at_output(hidden, batch).shape[-1] == 3 + tokens.output_dim
    torch.testing.assert_close(tokens(batch), before)
    widened = tokens.add_at_output(hidden, batch)[..., 3:]
    torch.testing.assert_close(widened, 2 * before[..., -16:])


def test_without_a_place_at_the_output_nothing_is_added(build, corpus):
    tokens = build(elmo=ElmoConfig(place="input"))
    hidden = torch.randn(len(corpus), 15, 3)
    assert tokens.add_at_output(hidden, tokens.read(corpus)) is hidden
    assert tokens.output_dim == 0


def test_the_baseline_has_words_and_characters_alone(build, corpus):
    tokens = build(elmo=None)
    assert tokens(tokens.read(corpus)).shape[-1] == tokens.input_dim == 9
    assert float(tokens.penalty()) == 0
    assert tokens.layer_weights() == {}


def test_gamma_is_learned_or_stays_as_it_is(build):
    assert build().input_mix.gamma.requires_grad
    assert not build(elmo=ElmoConfig(has_gamma=False)).input_mix.gamma.requires_grad


def test_gamma_scales_elmo_from_the_start(build, corpus):
    vectors, smaller = (
        tokens(tokens.read(corpus[:1]))
        for tokens in (
            build(elmo=ElmoConfig(gamma=gamma), words=None, chars=None) for gamma in (1.0, 0.25)
        )
    )
    torch.testing.assert_close(smaller, 0.25 * vectors)


def test_the_penalty_is_lambda_times_the_weights_squared(build):
    tokens = build(elmo=ElmoConfig(place="both", penalty=0.5))
    with torch.no_grad():
        tokens.input_mix.weights.copy_(torch.tensor([1.0, 2.0, 0.0]))
        tokens.output_mix.weights.copy_(torch.tensor([0.0, 0.0, 3.0]))
    assert tokens.penalty().item() == pytest.approx(0.5 * (1 + 4 + 9))


def test_one_layer_needs_no_weights_but_gamma(build, corpus, elmo):
    tokens = build(elmo=ElmoConfig(layers="top"), words=None, chars=None)
    expected = torch.from_numpy(elmo.embed_tokens(corpus[:1])[0].vectors("top"))
    vectors = tokens(tokens.read(corpus[:1]))[0]
    torch.testing.assert_close(vectors, expected, atol=2e-3, rtol=0)
    assert tokens.layer_weights()["input"] == {"weights": [1.0], "gamma": 1.0}


def test_something_must_read_the_words():
    with pytest.raises(ConfigError, match="all absent"):
        TaskConfig(words=None, chars=None, elmo=ElmoConfig(place="output"))


def test_settings_for_elmo_are_passed_over_by_the_baseline(tmp_path):
    (tmp_path / "task.toml").write_text("[elmo]\npenalty = 0.5\n[train]\nseed = 4\n")
    config = read_config(TaskConfig(), tmp_path / "task.toml", [], has_elmo=False)
    assert (config.elmo, config.train.seed) == (None, 4)
    config = read_config(TaskConfig(), tmp_path / "task.toml", ["elmo.layers=0"])
    assert (config.elmo.penalty, config.elmo.layers) == (0.5, 0)


def test_a_state_that_depends_on_other_sentences_is_refused():
    with pytest.raises(ConfigError, match=r"elmo\.state is 'carry', expected fresh or warm"):
        read_config(TaskConfig(), None, ["elmo.state=carry"])


def test_an_unknown_setting_is_named_with_the_nearest():
    with pytest.raises(ConfigError, match=r"elmo.layer' \(did you mean 'layers'\?\)"):
        read_config(TaskConfig(), None, ["elmo.layer=top"])


def test_the_encoder_is_blind_to_padding():
    torch.manual_seed(2)
    encoder = BiLSTM(3, 4, n_layers=2).eval()
    x, lengths = torch.randn(3, 6, 3), torch.tensor([2, 6, 4])
    together = encoder(x, lengths)
    for row, length in enumerate(lengths.tolist()):
        alone = encoder(x[row : row + 1, :length], lengths[row : row + 1])
        torch.testing.assert_close(together[row, :length], alone[0])
        assert not together[row, length:].any()


def test_the_encoder_is_torchs_bidirectional_lstm():
    torch.manual_seed(3)
    encoder = BiLSTM(3, 4)
    reference = torch.nn.LSTM(3, 4, batch_first=True, bidirectional=True)
    ahead, back = encoder.forward_layers[0], encoder.backward_layers[0]
    given = ahead.state_dict() | {f"{k}_reverse": v for k, v in back.state_dict().items()}
    reference.load_state_dict(given)
    x, lengths = torch.randn(3, 6, 3, requires_grad=True), torch.tensor([6, 4, 2])
    packed = torch.nn.utils.rnn.pack_padded_sequence(x, lengths, batch_first=True)
    expected, _ = torch.nn.utils.rnn.pad_packed_sequence(reference(packed)[0], batch_first=True)
    found = encoder(x, lengths)
    torch.testing.assert_close(found, expected)
    gradients = [torch.autograd.grad(y.square().sum(), x)[0] for y in (found, expected)]
    torch.testing.assert_close(gradients[0], gradients[1])
