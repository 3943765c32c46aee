"""The main interface: open a model, embed texts and token lists, one or many."""

import gc
import inspect
import warnings
import weakref

import numpy as np
import pandas
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

import elmo as package
from elmo import Elmo
from elmo.errors import CheckpointError, ConfigError, DataError
from elmo.models.model_folder import Model
from tests.conftest import TINY_OPTIONS
from tests.random_models import SENTENCES, build_bilm, random_weights

UNCHANGED = build_bilm(TINY_OPTIONS, random_weights(TINY_OPTIONS))
TEXT = "I took a bow. He was wielding a bow, and an arrow!"


def test_a_raw_text_gives_one_result_with_places_in_the_text(elmo):
    embedded = elmo.embed(TEXT)
    assert [TEXT[start:end] for start, end in embedded.offsets] == embedded.tokens
    assert embedded.tokens[:5] == ["I", "took", "a", "bow", "."]
    assert embedded.layers.shape == (3, len(embedded.tokens), 16)
    assert embedded.layers.dtype == np.float32
    assert embedded.sentences == [(0, 5), (5, len(embedded.tokens))]


def test_each_sentence_of_a_text_is_read_by_itself(elmo):
    embedded = elmo.embed(TEXT)
    for start, end in embedded.sentences:
        [alone] = elmo.embed_tokens([embedded.tokens[start:end]])
        np.testing.assert_allclose(embedded.layers[:, start:end], alone.layers, atol=1e-5)


def test_a_list_of_texts_gives_a_list_in_its_order(elmo):
    found = elmo.embed(["A bow.", "", TEXT])
    assert [embedded.tokens for embedded in found[:2]] == [["A", "bow", "."], []]
    assert [embedded.text for embedded in found] == ["A bow.", "", TEXT]
    np.testing.assert_allclose(found[2].layers, elmo.embed(TEXT).layers, atol=1e-5)
    assert found[0].offsets == [(0, 1), (2, 5), (5, 6)]


def test_one_token_list_gives_one_result_and_several_give_a_list(elmo):
    one = elmo.embed_tokens(["an", "arrow"])
    found = elmo.embed_tokens([["an", "arrow"], []])
    assert [embedded.tokens for embedded in found] == [["an", "arrow"], []]
    np.testing.assert_allclose(found[0].layers, one.layers, atol=1e-5)
    assert one.offsets is one.text is None
    assert one.sentences == [(0, 2)]


@pytest.mark.parametrize("nothing", ["", " ", "\n\t "])
@pytest.mark.parametrize("state", ["fresh", "warm", "carry"])
def test_nothing_gives_no_vectors_of_the_right_shape(elmo, nothing, state):
    for embedded in (elmo.embed(nothing, state=state), elmo.embed_tokens([[]], state=state)[0]):
        assert embedded.tokens == []
        assert embedded.layers.shape == (3, 0, 16)
        assert embedded.vectors().shape == (0, 16)
        assert embedded.pooled().shape == (16,)


TOKENS = ["I", "took", "a", "bow", "."]


@pytest.mark.parametrize("call", ["embed", "stream", "score"])
@pytest.mark.parametrize("kind", [list, tuple, iter, np.array, pandas.Series])
def test_tokens_given_as_texts_are_refused_with_the_right_call(scoring_model, call, kind):
    elmo = Elmo.load(scoring_model)
    with pytest.raises(DataError, match=f"5 texts of one word each.* go to {call}_tokens"):
        list(getattr(elmo, call)(kind(TOKENS)))
    with pytest.raises(DataError, match=f"text 1 is .*; tokenized sentences go to {call}_tokens"):
        list(getattr(elmo, call)(["A bow.", TOKENS]))


@pytest.mark.parametrize("call", ["embed", "stream", "score"])
def test_texts_given_as_tokens_are_refused_with_the_right_call(scoring_model, call):
    elmo = Elmo.load(scoring_model)
    for texts in ("A bow.", ["A bow.", "An arrow."], [TOKENS, "A bow."]):
        with pytest.raises(DataError, match=f"go(es)? to {call}"):
            list(getattr(elmo, f"{call}_tokens")(texts))


def test_texts_of_one_word_are_embedded_where_it_is_said(elmo):
    words = ["bow", "arrow", "東京"]
    found = elmo.embed(words, single_words=True)
    assert [embedded.tokens for embedded in found] == [["bow"], ["arrow"], ["東", "京"]]
    for one, other in zip(found, elmo.stream(words, single_words=True), strict=True):
        assert one == other
    by_tokens = elmo.embed_tokens([["bow"], ["arrow"]])
    np.testing.assert_array_equal(by_tokens[1].layers, found[1].layers)
    assert len(elmo.embed(["bow"])) == 1


def test_a_stream_takes_one_text_as_a_text(elmo):
    [embedded] = elmo.stream("I took")
    assert embedded.tokens == ["I", "took"]


@pytest.mark.parametrize("kind", [tuple, iter, np.array, pandas.Series])
def test_any_iterable_of_texts_is_taken(elmo, kind):
    texts = ["A bow.", "An arrow."]
    found = elmo.embed(kind(texts))
    assert [embedded.text for embedded in found] == texts
    assert {type(text) for embedded in found for text in [embedded.text, *embedded.tokens]} == {str}


def test_one_empty_text_gives_one_result(elmo):
    embedded = elmo.embed("")
    assert embedded.layers.shape == (3, 0, 16)
    assert embedded.offsets == []


def test_no_texts_give_no_results(elmo):
    assert elmo.embed([]) == []
    assert list(elmo.stream(iter([]))) == []


def test_no_tokens_are_a_sentence_without_vectors_and_can_be_iterated_over(elmo):
    embedded = elmo.embed_tokens([])
    assert embedded.layers.shape == (3, 0, 16)
    assert list(embedded) == []


@pytest.mark.parametrize("changed", ["dtype", "device"])
def test_torchs_default_dtype_and_device_change_nothing(official, changed):
    def results():
        elmo = Elmo.load(official)
        vectors = [each.layers for each in elmo.embed_tokens(sentences, state="warm")]
        gradients = torch.autograd.grad(layer(sentences).mixes[0].square().sum(), weights)
        return [*vectors, *map(np.asarray, gradients)]

    sentences = [["I", "took", "a", "bow"], ["bow"]]
    layer = Elmo.load(official).layer(fine_tune=True, dropout=0.0)
    weights = list(layer.bilm.parameters())
    expected = results()
    try:
        if changed == "dtype":
            torch.set_default_dtype(torch.float64)
        else:
            torch.set_default_device("meta")
        found = results()
    finally:
        torch.set_default_dtype(torch.float32)
        torch.set_default_device(None)
    for one, other in zip(found, expected, strict=True):
        assert one.dtype == np.float32
        np.testing.assert_allclose(one, other, atol=1e-5)


def test_tokens_with_spaces_are_kept_whole(elmo):
    [embedded] = elmo.embed_tokens([["New York", "is", " ", "", "a\nb"]])
    assert embedded.tokens == ["New York", "is", " ", "", "a\nb"]
    assert embedded.layers.shape == (3, 5, 16)
    [apart] = elmo.embed_tokens([["New", "York", "is"]])
    assert not np.allclose(embedded.layers[0, 0], apart.layers[0, 0])


def test_a_literal_marker_is_text(elmo):
    [embedded] = elmo.embed_tokens([["<S>", "bow", "</S>"]])
    assert embedded.tokens == ["<S>", "bow", "</S>"]
    assert embedded.layers.shape == (3, 3, 16)
    begin = elmo.bilm.token_vectors(torch.tensor([[259, 257, 260, *[261] * 47]]))
    assert not np.allclose(embedded.layers[0, 0, :8], begin.detach().numpy(), atol=1e-3)


@given(st.lists(SENTENCES, min_size=1, max_size=4), st.lists(SENTENCES, max_size=3))
def test_the_same_sentence_has_the_same_vectors(sentences, others):
    elmo = Elmo(Model(UNCHANGED))
    elmo.embed_tokens(others)
    together = elmo.embed_tokens([*others, *sentences, *others])[len(others) :]
    for tokens, embedded in zip(sentences, together, strict=False):
        np.testing.assert_allclose(
            embedded.layers, elmo.embed_tokens([tokens])[0].layers, atol=1e-5
        )


def test_carried_state_depends_on_what_ran_before_and_fresh_does_not(elmo, corpus):
    twice = [corpus[0], corpus[1], corpus[0]]
    fresh = elmo.embed_tokens(twice, batch_size=1)
    carried = elmo.embed_tokens(twice, state="carry", batch_size=1)
    np.testing.assert_allclose(fresh[0].layers, fresh[2].layers, atol=1e-6)
    np.testing.assert_allclose(carried[0].layers, fresh[0].layers, atol=1e-5)
    assert np.abs(carried[2].layers - fresh[2].layers).max() > 1e-3
    np.testing.assert_allclose(carried[2].layers[0], fresh[2].layers[0], atol=1e-6)
    again = elmo.embed_tokens(twice, state="carry", batch_size=1)
    for one, other in zip(carried, again, strict=True):
        np.testing.assert_array_equal(one.layers, other.layers)


@pytest.mark.parametrize("batch_size", [1, 2])
def test_carried_state_goes_through_the_sentences_of_texts(elmo, batch_size):
    texts = ["I took a bow. He drew a bow. It was cold.", "They sail.", "We bow. We sail. We go."]
    found = elmo.embed(texts, state="carry", batch_size=batch_size)
    sentences = [text.tokens[start:end] for text in found for start, end in text.sentences]
    assert len(sentences) == 7
    expected = elmo.embed_tokens(sentences, state="carry", batch_size=batch_size)
    np.testing.assert_array_equal(
        np.concatenate([text.layers for text in found], axis=1),
        np.concatenate([sentence.layers for sentence in expected], axis=1),
    )


def test_a_warm_start_is_the_same_for_every_sentence_and_not_the_fresh_one(elmo, corpus):
    warm = elmo.embed_tokens([corpus[0], corpus[1], corpus[0]], state="warm", batch_size=1)
    fresh, _ = elmo.embed_tokens([corpus[0], corpus[1]])
    np.testing.assert_allclose(warm[0].layers, warm[2].layers, atol=1e-6)
    after_nothing = elmo.embed_tokens([[], corpus[0]], state="carry", batch_size=1)[1]
    np.testing.assert_allclose(warm[0].layers, after_nothing.layers, atol=1e-5)
    assert np.abs(warm[0].layers - fresh.layers).max() > 1e-3


def test_long_words_are_counted_and_reported_once(elmo):
    long = "x" * 60
    with pytest.warns(UserWarning, match="3 words are longer than 48 bytes") as caught:
        found = elmo.embed_tokens([[long, "a"], [long], ["é" * 25]])
    assert len(caught) == 1
    assert found[0].tokens == [long, "a"]
    np.testing.assert_allclose(
        found[0].layers, elmo.embed_tokens([["x" * 48, "a"]])[0].layers, atol=1e-6
    )


def test_long_words_of_a_single_text_are_reported_too(elmo):
    with pytest.warns(UserWarning, match="1 words are longer than 48 bytes"):
        elmo.embed("a " + "x" * 60)


def test_words_of_48_bytes_are_not_reported(elmo):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        elmo.embed_tokens([["x" * 48, "é" * 24]])


def test_a_stream_reads_no_further_than_a_window(bilm):
    elmo = Elmo(Model(bilm))
    n_read = 0

    def endless():
        nonlocal n_read
        while True:
            n_read += 1
            yield ["word"] * 200

    stream = elmo.stream_tokens(endless())
    assert inspect.isgenerator(stream)
    first = next(stream)
    assert first.layers.shape == (3, 200, 16)
    per_window = 64 * 2**20 / (3 * 16 * 4 * 202)
    assert n_read <= per_window + 2


def test_a_stream_holds_on_to_nothing_it_has_given(elmo):
    stream = elmo.stream_tokens(["word"] * 5 for _ in range(10))
    given_before = [weakref.ref(next(stream).layers) for _ in range(10)]
    assert list(stream) == []
    gc.collect()
    assert [ref() for ref in given_before] == [None] * 10


@pytest.mark.filterwarnings("ignore:1 words are longer")
def test_a_stream_gives_what_embed_gives(elmo, corpus):
    streamed = list(elmo.stream_tokens(iter(corpus), batch_size=3))
    for one, other in zip(streamed, elmo.embed_tokens(corpus), strict=True):
        assert one.tokens == other.tokens
        np.testing.assert_allclose(one.layers, other.layers, atol=1e-5)


def test_windows_change_no_vector(corpus, tiny_weights):
    """The text exceeds a window; the model is so wide that a short text suffices."""
    wide = {**TINY_OPTIONS, "lstm": {**TINY_OPTIONS["lstm"], "projection_dim": 2048, "dim": 1}}
    elmo = Elmo(Model(build_bilm(wide, random_weights(wide))))
    bytes_per_token = 3 * 2 * 2048 * 4
    n_sentences = 2 * 64 * 2**20 // (bytes_per_token * 52)
    sentences = [[f"w{k}"] * 50 for k in range(n_sentences)]
    for k, embedded in enumerate(elmo.stream_tokens(sentences)):
        assert embedded.tokens[0] == f"w{k}"
        if k % 10 == 0:
            expected = elmo.embed_tokens([sentences[k]])[0].layers
            np.testing.assert_allclose(embedded.layers, expected, atol=1e-5)


def test_pooling_never_counts_padding(elmo):
    """A short sentence is padded to the length of a long one; pooled zeros would show."""
    [short, _] = elmo.embed_tokens([["bow"], ["x"] * 50])
    vectors = short.vectors()
    assert (vectors < 0).any(), "a maximum with padding would be zero there"
    np.testing.assert_allclose(short.pooled("max"), vectors[0])
    np.testing.assert_allclose(short.pooled("mean"), vectors[0])


def test_a_model_comes_back_from_its_folder(elmo, corpus, tmp_path):
    elmo.save(tmp_path / "model")
    loaded = Elmo.load(str(tmp_path / "model"))
    np.testing.assert_array_equal(
        loaded.embed_tokens([corpus[0]])[0].layers, elmo.embed_tokens([corpus[0]])[0].layers
    )
    assert (loaded.n_layers, loaded.output_dim) == (3, 16)


def test_official_files_are_opened_with_given_options(official, tmp_path):
    options = official.with_name("options.json").rename(tmp_path / "elsewhere.json")
    assert Elmo.load(official, options=options).output_dim == 16


def test_what_is_not_a_model_is_reported(tmp_path):
    with pytest.raises(CheckpointError, match="no such file or folder"):
        Elmo.load(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("texts", "told"),
    [
        (None, "None of type NoneType, expected a text or a list of texts"),
        (3, "3 of type int, expected a text"),
        (b"bytes", "b'bytes' of type bytes, expected a text"),
        ({"a text": 1}, "of type dict, expected a text"),
        (pandas.DataFrame({"text": ["A bow."]}), "of type DataFrame, expected a text"),
        (["A bow.", None], "text 1 is None of type NoneType, expected a str"),
        (pandas.Series(["A bow.", np.nan]), "text 1 is nan of type float, expected a str"),
        (["A bow.", b"bytes"], "text 1 is b'bytes' of type bytes, expected a str"),
        (np.array([1.5]), r"text 0 is np.float64\(1.5\) of type float64, expected a str"),
    ],
)
def test_what_is_no_text_is_reported_in_one_line(elmo, texts, told):
    for call in (elmo.embed, elmo.stream):
        with pytest.raises(DataError, match=told) as error:
            list(call(texts))
        assert "\n" not in str(error.value)


@pytest.mark.parametrize(
    ("tokens", "told"),
    [
        (None, "None of type NoneType, expected a list of tokens"),
        ([["a", 3]], "a token is 3 of type int"),
        (["a", None], "a token is None"),
        ([["a"], None], "None of type NoneType, expected a list of tokens"),
        ([[["a", "b"]]], r"a token is \['a', 'b'\] of type list"),
        ([b"bytes"], "of type bytes"),
    ],
)
def test_what_is_no_token_is_reported(elmo, tokens, told):
    with pytest.raises(DataError, match=told):
        elmo.embed_tokens(tokens)


def test_wrong_settings_are_reported(elmo):
    with pytest.raises(ConfigError, match="expected 'fresh', 'warm' or 'carry'"):
        elmo.embed("a", state="tepid")
    with pytest.raises(ConfigError, match="batch_size is 0, expected at least 1"):
        elmo.embed("a", batch_size=0)


def test_the_public_names_are_these():
    assert package.__all__ == [
        "BiLMConfig",
        "CheckpointError",
        "ConfigError",
        "DataError",
        "Elmo",
        "ElmoError",
    ]
    assert all(getattr(package, name).__name__ == name for name in package.__all__)
    with pytest.raises(AttributeError, match="no attribute 'Elmoo'"):
        _ = package.Elmoo


def test_how_many_words_are_remembered_changes_no_vector(official):
    sentences = [["I", "took", "a", "bow", "."], ["a", "bow", "and", "arrow"]]
    many, few = (Elmo.load(official, n_cached_words=n) for n in (1000, 4))
    for one, other in zip(many.embed_tokens(sentences), few.embed_tokens(sentences), strict=True):
        np.testing.assert_allclose(one.layers, other.layers, atol=1e-5)
    assert len(few.embedder.cache) <= 4 < len(many.embedder.cache)


def test_half_the_bits_are_near_and_an_unknown_type_is_refused(official):
    sentences = [["I", "took", "a", "bow", "."]]
    exact, rounded = Elmo.load(official), Elmo.load(official, dtype="bfloat16")
    with pytest.raises(ConfigError, match="bfloat16; fine-tuning expects float32"):
        rounded.layer(fine_tune=True)
    [one], [other] = exact.embed_tokens(sentences), rounded.embed_tokens(sentences)
    assert other.layers.dtype == np.float32
    assert 0 < np.abs(one.layers - other.layers).max() < 0.05
    with pytest.raises(ConfigError, match="float16"):
        Elmo.load(official, dtype="float16")
