"""Word encoding: by bytes, by lists or by both; and which configs of lists are valid."""

import copy
import dataclasses

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo.api import Elmo
from elmo.errors import ConfigError, DataError
from elmo.models import model_folder
from elmo.models.model_folder import Model
from elmo.network.bilm import BiLM
from elmo.network.config import BiLMConfig, CharCnnConfig, LstmConfig, tiny
from elmo.settings import from_mapping
from elmo.settings import to_mapping as mapping_of
from elmo.text.characters import Marker, encode_words
from elmo.text.vocabulary import Vocabulary
from elmo.text.word_encoder import FIRST_CHARACTER, Lexicon, LexiconConfig, WordEncoder
from tests.random_models import SENTENCES, WORDS, encode_batch

LEXICON = Lexicon(Vocabulary.of_words(["bow", "東京", "the"]), ("b", "o", "w", "東", "é", "\u2028"))
N_WORDS, N_CHARACTERS = len(LEXICON.words), len(LEXICON.characters)
CNN = CharCnnConfig(char_dim=3, filters=((1, 4), (3, 5)), n_highways=1, max_characters=9)
LSTM = LstmConfig(dim=7, projection_dim=6)

# Every way to read words, with the lists that it needs.
READINGS = {
    "bytes": (CNN, None, Lexicon()),
    "words": (None, LexiconConfig(n_words=N_WORDS, word_dim=6), Lexicon(LEXICON.words)),
    "projected words": (
        None,
        LexiconConfig(n_words=N_WORDS, word_dim=4, has_projection=True),
        Lexicon(LEXICON.words),
    ),
    "characters": (
        CNN,
        LexiconConfig(n_characters=N_CHARACTERS),
        Lexicon(characters=LEXICON.characters),
    ),
    "words and characters": (
        CNN,
        LexiconConfig(n_words=N_WORDS, word_dim=4, n_characters=N_CHARACTERS, has_projection=True),
        LEXICON,
    ),
    "words and bytes": (
        CNN,
        LexiconConfig(n_words=N_WORDS, word_dim=4, has_projection=True),
        Lexicon(LEXICON.words),
    ),
}


def build(name, **lstm):
    char_cnn, lists, lexicon = READINGS[name]
    torch.manual_seed(0)
    config = BiLMConfig(char_cnn=char_cnn, lstm=dataclasses.replace(LSTM, **lstm), lexicon=lists)
    return BiLM(config, lexicon).eval()


@pytest.mark.parametrize("name", READINGS)
@given(words=st.lists(WORDS, max_size=5))
def test_a_word_s_vector_does_not_depend_on_the_words_beside_it(name, words):
    bilm = build(name)
    with torch.no_grad():
        together = bilm.token_vectors(bilm.word_encoder.encode([*words, *Marker]))
        alone = [
            bilm.token_vectors(bilm.word_encoder.encode([word]))[0] for word in [*words, *Marker]
        ]
    assert together.shape == (len(words) + 2, LSTM.projection_dim)
    torch.testing.assert_close(together, torch.stack(alone), atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("name", READINGS)
@pytest.mark.parametrize("n_layers", [0, 1, 3])
def test_every_reading_and_depth_embeds_and_is_kept(name, n_layers, tmp_path):
    elmo = Elmo(Model(build(name, n_layers=n_layers)))
    sentences = [["bow", "the", "other"], [], ["東京"]]
    embedded = elmo.embed_tokens(sentences)
    assert [e.layers.shape for e in embedded] == [(n_layers + 1, n, 12) for n in (3, 0, 1)]
    elmo.save(tmp_path / "model")
    for one, other in zip(
        embedded, Elmo.load(tmp_path / "model").embed_tokens(sentences), strict=True
    ):
        np.testing.assert_array_equal(one.layers, other.layers)


@pytest.mark.parametrize("name", READINGS)
def test_everything_that_reads_learns(name):
    bilm = build(name)
    output = bilm(bilm.word_encoder.batch([["bow", "other"], ["the"]]))
    output.layers.square().sum().backward()
    for layer in bilm.token_layers():
        assert all(weight.grad.abs().sum() > 0 for weight in layer.parameters())


def test_a_trained_word_table_is_seen_by_what_remembers_words():
    elmo = Elmo(Model(build("words")))
    before = elmo.embed_tokens([["bow"]])[0].layers[0]
    with torch.no_grad():
        elmo.bilm.word_table.weight += 1
    np.testing.assert_allclose(elmo.embed_tokens([["bow"]])[0].layers[0], before + 1, atol=1e-6)


@given(sentences=st.lists(SENTENCES, max_size=3))
def test_a_reader_of_bytes_reads_as_the_byte_table(sentences):
    encoder = WordEncoder(Lexicon(), 9, 3)
    expected = encode_batch(sentences, 9, 3)
    found = encoder.batch(sentences)
    assert torch.equal(found.char_ids, expected.char_ids)
    assert torch.equal(found.word_index, expected.word_index)


def test_rows_hold_the_word_s_number_and_then_its_characters():
    rows = WordEncoder(LEXICON, 9, 2).encode(["bow", "éx", Marker.BEGIN_SENTENCE, ""]).tolist()
    b, o, w, _, e, _ = range(FIRST_CHARACTER, FIRST_CHARACTER + 6)
    assert rows == [
        [3, 3, b, o, w, 4, 5, 5],
        [2, 3, e, 6, 4, 5, 5, 5],
        [0, 3, 1, 4, 5, 5, 5, 5],
        [2, 3, 4, 5, 5, 5, 5, 5],
    ]


def test_words_and_bytes_are_numbered_by_both():
    rows = WordEncoder(Lexicon(LEXICON.words), 9, 2).encode(["the", "é"])
    assert rows[:, 0].tolist() == [5, 2]
    assert torch.equal(rows[:, 1:], encode_words(["the", "é"], 9, 2))


@pytest.mark.parametrize(
    ("encoder", "n_truncated"),
    [
        (WordEncoder(Lexicon(), 5, 1), 2),
        (WordEncoder(LEXICON, 5, 1), 1),
        (WordEncoder(Lexicon(LEXICON.words), None, 1), 0),
    ],
)
def test_words_are_cut_in_bytes_or_in_characters(encoder, n_truncated):
    assert encoder.count_truncated(["東京", "abcd", "abc"]) == n_truncated


def test_lists_are_files_that_people_can_read(tmp_path):
    LEXICON.write(tmp_path)
    assert (tmp_path / "input_words.txt").read_text("utf-8").split("\n")[3:6] == [
        "bow",
        "東京",
        "the",
    ]
    config = READINGS["words and characters"][1]
    assert Lexicon.read(tmp_path, config) == LEXICON
    assert Lexicon.read(tmp_path, None) == Lexicon()


def test_lists_of_another_length_are_refused():
    with pytest.raises(ConfigError, match="a lexicon with 6 words, expected none"):
        BiLM(tiny(), LEXICON)
    lists = LexiconConfig(n_words=9, word_dim=6)
    with pytest.raises(ConfigError, match="a lexicon with no words, expected 9"):
        BiLM(BiLMConfig(char_cnn=None, lstm=LSTM, lexicon=lists))


@pytest.mark.parametrize(
    ("char_cnn", "lists", "message"),
    [
        (None, None, "expected at least one"),
        (None, {"n_characters": 4}, "expected at least one"),
        (
            None,
            {"n_words": 9, "word_dim": 6, "n_characters": 4},
            "char_cnn is absent, expected one",
        ),
        (CNN, {"n_words": 9, "word_dim": 6}, "expected lexicon.has_projection = true"),
        (None, {"n_words": 9, "word_dim": 5}, "word_dim is 5, expected lstm.projection_dim 6"),
        (None, {"n_words": 9}, "one of n_words and word_dim is absent"),
        (CNN, {"n_characters": 0}, "n_characters is 0, expected int > 0"),
    ],
)
def test_a_token_layer_that_cannot_be_is_reported(char_cnn, lists, message):
    mapping = {
        "char_cnn": None if char_cnn is None else mapping_of(char_cnn),
        "lstm": mapping_of(LSTM),
        "lexicon": lists,
    }
    with pytest.raises(ConfigError, match=message):
        from_mapping(BiLMConfig, mapping, "config.json")


def test_settings_without_a_lexicon_are_those_of_bytes():
    before = mapping_of(tiny())
    before.pop("lexicon")
    assert from_mapping(BiLMConfig, before, "config.json") == tiny()


def test_ids_of_bytes_are_refused_by_a_model_of_lists():
    char_ids = torch.ones(1, 2, 50, dtype=torch.int64)
    assert build("bytes").word_encoder.batch_of_char_ids(char_ids).word_index.shape == (1, 4)
    with pytest.raises(DataError, match="expected token lists"):
        build("words and bytes").word_encoder.batch_of_char_ids(char_ids)


def test_ids_of_fewer_characters_than_a_filter_reads_are_refused():
    encoder = dataclasses.replace(build("bytes").word_encoder, widest_filter=4)
    with pytest.raises(DataError, match=r"\(1, 2, 3\), expected .* C at least 4"):
        encoder.batch_of_char_ids(torch.ones(1, 2, 3, dtype=torch.int64))


def test_a_copy_of_a_network_keeps_its_lists():
    bilm = build("words and characters")
    assert copy.deepcopy(bilm).word_encoder == bilm.word_encoder


def test_a_card_says_how_words_are_read():
    cards = {name: model_folder.default_card(Model(build(name))) for name in READINGS}
    assert "reads words by a CNN over bytes (9 filters, 1 highways);" in cards["bytes"]
    assert "by a list of 6 words and a CNN over 6 characters" in cards["words and characters"]
    assert "by a list of 6 words;" in cards["words"]
