"""Word vectors from GloVe's and word2vec's files, and to the latter."""

import gzip
import lzma

import numpy as np
import pytest

from elmo.errors import DataError
from elmo.vectors.static import StaticVectors

GLOVE = "the 0.5 -1 2e-3\nbow 1 2 3\nBow 4 5 6\n"


@pytest.fixture
def static():
    vectors = np.random.default_rng(0).normal(size=(3, 4)).astype(np.float32)
    return StaticVectors(["bow", "東京", "a\u00a0b"], vectors)


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


@pytest.mark.parametrize(
    ("name", "read"),
    [("v.txt", read_text_format), ("v.vec", read_text_format), ("v.bin", read_binary_format)],
)
def test_files_read_back_bit_for_bit(static, tmp_path, name, read):
    static.write(tmp_path / name)
    words, vectors = read(tmp_path / name)
    assert words == static.words
    np.testing.assert_array_equal(vectors, static.vectors)


@pytest.mark.parametrize("word", ["two words", "", "tab\there"])
def test_words_that_the_formats_cannot_hold_are_reported(tmp_path, word):
    static = StaticVectors([word], np.zeros((1, 2), dtype=np.float32))
    with pytest.raises(DataError, match="expected a word without spaces"):
        static.write(tmp_path / "v.txt")
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("name", ["v.txt", "v.vec"])
def test_what_is_written_as_text_is_read_as_it_was(static, tmp_path, name):
    static.write(tmp_path / name)
    read = StaticVectors.read(tmp_path / name)
    assert read.words == static.words
    np.testing.assert_array_equal(read.vectors, static.vectors)


@pytest.mark.parametrize(
    ("name", "open_file"), [("g.txt", open), ("g.txt.gz", gzip.open), ("g.txt.xz", lzma.open)]
)
def test_glove_is_read_plain_or_compressed(tmp_path, name, open_file):
    with open_file(tmp_path / name, "wt") as file:
        file.write(GLOVE)
    read = StaticVectors.read(tmp_path / name)
    assert read.words == ["the", "bow", "Bow"]
    np.testing.assert_allclose(read.vectors, [[0.5, -1, 0.002], [1, 2, 3], [4, 5, 6]])


def test_words_that_are_spaces_or_hold_them_are_read_and_a_second_one_is_left_out(tmp_path):
    (tmp_path / "g.txt").write_text("a 1 2\n\u00a0 3 4\n. . . 5 6\na 7 8\n", encoding="utf-8")
    read = StaticVectors.read(tmp_path / "g.txt")
    assert read.words == ["a", "\u00a0", ". . ."]
    assert read.vectors.tolist() == [[1, 2], [3, 4], [5, 6]]


def test_unknown_words_are_zero_and_capital_letters_fall_back_to_small_ones(tmp_path):
    (tmp_path / "g.txt").write_text(GLOVE)
    read = StaticVectors.read(tmp_path / "g.txt")
    found = read.lookup(["The", "Bow", "BOW", "unseen"])
    np.testing.assert_allclose(found, [[0.5, -1, 0.002], [4, 5, 6], [1, 2, 3], [0, 0, 0]])
    assert read.lookup([]).shape == (0, 3)
    assert "THE" in read
    assert "unseen" not in read


@pytest.mark.parametrize(
    "broken", ["bow 1 2", "bow 1 2 x", "bow 1 2 nan", "bow", "", "1 2 3", " 1 2 3"]
)
def test_a_line_that_is_no_word_with_its_numbers_is_named(tmp_path, broken):
    (tmp_path / "g.txt").write_text(f"the 1 2 3\n{broken}\n")
    with pytest.raises(DataError, match=r"g\.txt:2: .* a word and 3 finite numbers"):
        StaticVectors.read(tmp_path / "g.txt")


@pytest.mark.parametrize("content", ["", "0 3\n"])
def test_a_file_without_words_is_refused(tmp_path, content):
    (tmp_path / "g.txt").write_text(content)
    with pytest.raises(DataError, match="no words"):
        StaticVectors.read(tmp_path / "g.txt")


@pytest.mark.parametrize("content", ["the\n", "\n"])
def test_a_first_line_without_numbers_is_refused(tmp_path, content):
    (tmp_path / "g.txt").write_text(content)
    with pytest.raises(DataError, match=r"g\.txt:1: .* a word and its numbers"):
        StaticVectors.read(tmp_path / "g.txt")
