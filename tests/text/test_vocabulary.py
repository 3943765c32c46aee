"""Vocabulary: numbering, unknown words, files."""

import pytest

from elmo.errors import DataError
from elmo.text.vocabulary import BEGIN, END, UNKNOWN, Vocabulary


def test_words_are_numbered_after_the_reserved_three():
    vocabulary = Vocabulary.of_words(["the", "cat"])
    assert vocabulary.words == ("<S>", "</S>", "<UNK>", "the", "cat")
    assert vocabulary.ids(["cat", "dog", "the"]).tolist() == [4, UNKNOWN, 3]


def test_text_that_spells_a_marker_is_unknown():
    vocabulary = Vocabulary.of_words(["<S>", "a", "</S>", "<UNK>"])
    assert len(vocabulary) == 4
    ids = vocabulary.ids(["<S>", "</S>", "<UNK>", "a"])
    assert ids.tolist() == [UNKNOWN, UNKNOWN, UNKNOWN, 3]
    assert BEGIN not in ids
    assert END not in ids


def test_a_file_comes_back_as_it_was_written(tmp_path):
    vocabulary = Vocabulary.of_words(["naïve", "a\u2028b", "東京", "x\x85", "a\rb"])
    vocabulary.write(tmp_path / "vocab.txt")
    assert Vocabulary.read(tmp_path / "vocab.txt") == vocabulary


def test_a_file_without_the_reserved_words_is_refused_by_name(tmp_path):
    (tmp_path / "vocab.txt").write_text("the\ncat\n")
    with pytest.raises(DataError, match=r"vocab\.txt.*expected.*<S>"):
        Vocabulary.read(tmp_path / "vocab.txt")


def test_a_missing_file_is_one_clear_error(tmp_path):
    with pytest.raises(DataError, match="no such file"):
        Vocabulary.read(tmp_path / "none.txt")


def test_a_binary_file_is_one_clear_error(tmp_path):
    (tmp_path / "vocab.txt").write_bytes(b"\xff\xfe\x00")
    with pytest.raises(DataError, match="not UTF-8"):
        Vocabulary.read(tmp_path / "vocab.txt")
