"""Static vectors: layer 0 of words, means over a text, and word2vec's files."""

import numpy as np
import pytest

from elmo.errors import ConfigError, DataError
from elmo.static_vectors import StaticVectors, export_static, of_text, of_words


def read_text_format(path):
    header, *lines = path.read_text(encoding="utf-8").splitlines()
    n_words, width = map(int, header.split())
    rows = [line.split(" ") for line in lines]
    vectors = np.array([row[1:] for row in rows], dtype=np.float32)
    assert vectors.shape == (n_words, width)
    return [row[0] for row in rows], vectors


def read_binary_format(path):
    content = path.read_bytes()
    header, rest = content.split(b"\n", 1)
    n_words, width = map(int, header.split())
    words, vectors = [], []
    for _ in range(n_words):
        word, rest = rest.split(b" ", 1)
        words.append(word.decode("utf-8"))
        vectors.append(np.frombuffer(rest[: 4 * width], dtype=np.float32))
        rest = rest[4 * width + 1 :]
    assert not rest
    return words, np.array(vectors)


def test_words_have_their_layer_0_once(elmo):
    static = of_words(elmo, ["bow", "東京", "bow", "unseen"])
    assert static.words == ["bow", "東京", "unseen"]
    token_layer = elmo.embed([["bow", "東京", "unseen"]])[0].layers[0]
    np.testing.assert_allclose(static.vectors, token_layer[:, : token_layer.shape[1] // 2], 1e-5)


def test_words_of_a_text_have_the_mean_of_their_vectors(elmo, corpus):
    static = of_text(elmo, corpus, layers="top")
    tokens = [token for words in corpus for token in words]
    vectors = np.concatenate([embedded.vectors("top") for embedded in elmo.embed(corpus)])
    assert set(static.words) == set(tokens)
    counts = [tokens.count(word) for word in static.words]
    assert counts == sorted(counts, reverse=True)
    for word, vector in zip(static.words, static.vectors, strict=True):
        own = [k for k, token in enumerate(tokens) if token == word]
        np.testing.assert_allclose(vector, vectors[own].mean(0), atol=1e-5)


def test_rare_words_are_left_out_and_many_words_are_held(elmo):
    sentences = [[f"word{k}", "often"] for k in range(1500)]
    assert len(of_text(elmo, sentences).words) == 1501
    assert of_text(elmo, sentences, min_count=2).words == ["often"]
    assert of_text(elmo, [], layers="top").vectors.shape == (0, elmo.output_dim)


@pytest.mark.parametrize(
    ("name", "read"),
    [("v.txt", read_text_format), ("v.vec", read_text_format), ("v.bin", read_binary_format)],
)
def test_files_read_back_bit_for_bit(elmo, tmp_path, name, read):
    static = of_words(elmo, ["bow", "東京", "a\u00a0b"])
    static.write(tmp_path / name)
    words, vectors = read(tmp_path / name)
    assert words == static.words
    np.testing.assert_array_equal(vectors, static.vectors)


@pytest.mark.parametrize("word", ["two words", "", "tab\there"])
def test_words_that_the_formats_cannot_hold_are_told(tmp_path, word):
    static = StaticVectors([word], np.zeros((1, 2), dtype=np.float32))
    with pytest.raises(DataError, match="expected words without spaces"):
        static.write(tmp_path / "v.txt")
    assert not list(tmp_path.iterdir())


def test_a_vocabulary_or_a_text_is_exported(official, tmp_path, elmo):
    (tmp_path / "words.txt").write_text("bow\nship\n")
    (tmp_path / "text.txt").write_text("I took a bow. He drew a bow.\n\nThey left.\n")
    export_static(tmp_path / "w.txt", official, vocabulary=tmp_path / "words.txt")
    words, vectors = read_text_format(tmp_path / "w.txt")
    np.testing.assert_allclose(vectors, of_words(elmo, words).vectors, atol=1e-6)
    export_static(tmp_path / "t.txt", official, text=tmp_path / "text.txt", min_count=2)
    words, vectors = read_text_format(tmp_path / "t.txt")
    assert set(words) == {".", "bow", "a"}
    with pytest.raises(ConfigError, match="expected one of them"):
        export_static(tmp_path / "x.txt", official)
    with pytest.raises(ConfigError, match="says no format"):
        export_static(tmp_path / "x.npy", official, vocabulary=tmp_path / "words.txt")
