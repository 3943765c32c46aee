"""Static vectors of a model: layer 0 of words, means over a text."""

import numpy as np
import pytest

from elmo.errors import ConfigError
from elmo.vectors.static import StaticVectors, export_static, static_from_text, static_from_words


def test_words_have_their_layer_0_once(elmo):
    static = static_from_words(elmo, ["bow", "東京", "bow", "unseen"])
    assert static.words == ["bow", "東京", "unseen"]
    token_layer = elmo.embed_tokens([["bow", "東京", "unseen"]])[0].layers[0]
    np.testing.assert_allclose(static.vectors, token_layer[:, : token_layer.shape[1] // 2], 1e-5)


def test_words_of_a_text_have_the_mean_of_their_vectors(elmo, corpus):
    static = static_from_text(elmo, corpus, layers="top")
    tokens = [token for words in corpus for token in words]
    vectors = np.concatenate([embedded.vectors("top") for embedded in elmo.embed_tokens(corpus)])
    assert set(static.words) == set(tokens)
    counts = [tokens.count(word) for word in static.words]
    assert counts == sorted(counts, reverse=True)
    for word, vector in zip(static.words, static.vectors, strict=True):
        own = [k for k, token in enumerate(tokens) if token == word]
        np.testing.assert_allclose(vector, vectors[own].mean(0), atol=1e-5)


def test_rare_words_are_left_out_and_many_words_are_held(elmo):
    sentences = [[f"word{k}", "often"] for k in range(1500)]
    assert len(static_from_text(elmo, sentences).words) == 1501
    assert static_from_text(elmo, sentences, min_count=2).words == ["often"]
    assert static_from_text(elmo, [], layers="top").vectors.shape == (0, elmo.output_dim)


def test_a_vocabulary_or_a_text_is_exported(official, tmp_path, elmo):
    (tmp_path / "words.txt").write_text("bow\nship\n")
    (tmp_path / "text.txt").write_text("I took a bow. He drew a bow.\n\nThey left.\n")
    export_static(tmp_path / "w.txt", official, vocabulary=tmp_path / "words.txt")
    exported = StaticVectors.read(tmp_path / "w.txt")
    expected = static_from_words(elmo, exported.words)
    np.testing.assert_allclose(exported.vectors, expected.vectors, atol=1e-6)
    export_static(tmp_path / "t.txt", official, text=tmp_path / "text.txt", min_count=2)
    assert set(StaticVectors.read(tmp_path / "t.txt").words) == {".", "bow", "a"}
    with pytest.raises(ConfigError, match="expected either"):
        export_static(tmp_path / "x.txt", official)
    with pytest.raises(ConfigError, match="unknown file extension"):
        export_static(tmp_path / "x.npy", official, vocabulary=tmp_path / "words.txt")
