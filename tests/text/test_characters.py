"""The byte table: ids of any word."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo.text.characters import (
    Marker,
    count_truncated,
    encode_words,
    warn_truncated,
)
from tests.random_models import WORDS, encode_batch
from tests.reference import marker_characters, word_characters

ANY_TEXT = st.text(st.characters(exclude_categories=()))


@given(st.lists(ANY_TEXT, max_size=8), st.integers(3, 60), st.integers(1, 7))
def test_ids_are_the_official_rows_plus_one_for_any_unicode(words, max_characters, widest):
    char_ids = encode_words(words, max_characters, widest).numpy()
    for row, word in zip(char_ids, words, strict=True):
        whole = np.array(word_characters(word, max_characters)) + 1
        np.testing.assert_array_equal(row, whole[: len(row)])
        assert (whole[len(row) :] == 261).all(), "only padding is left out"


@given(st.lists(ANY_TEXT, min_size=1, max_size=8), st.integers(1, 7))
def test_as_many_columns_as_the_longest_word_and_the_widest_filter_need(words, widest):
    longest = max(min(len(word.encode("utf-8", "surrogatepass")), 48) + 2 for word in words)
    assert encode_words(words, 50, widest).shape == (len(words), min(50, longest + widest))


def test_a_marker_is_one_character_of_its_own():
    char_ids = encode_words(list(Marker), 50, 50)
    expected = [marker_characters("begin", 50), marker_characters("end", 50)]
    np.testing.assert_array_equal(char_ids, np.array(expected) + 1)


@pytest.mark.parametrize("literal", ["<S>", "</S>", "<UNK>", "<s>"])
def test_a_literal_marker_in_text_is_text(literal):
    batch = encode_batch([[literal]], 50)
    begin, word, end = batch.word_index[0].tolist()
    spelled = [259, *(byte + 1 for byte in literal.encode()), 260]
    assert batch.char_ids[word, : len(spelled)].tolist() == spelled
    assert word not in (begin, end)


def test_no_words_give_no_rows():
    assert encode_words([], 50).shape[0] == 0


def test_a_word_is_cut_after_its_first_48_bytes_even_inside_a_character():
    row = encode_words(["é" * 30], 50)[0].tolist()
    assert row == [259, *([0xC3 + 1, 0xA9 + 1] * 24), 260]
    odd = encode_words(["x" + "é" * 30], 50)[0].tolist()
    assert odd[-2:] == [0xC3 + 1, 260]


@pytest.mark.parametrize(
    ("word", "is_truncated"),
    [("a" * 48, False), ("a" * 49, True), ("é" * 24, False), ("é" * 24 + "a", True), ("", False)],
)
def test_words_over_48_bytes_are_counted(word, is_truncated):
    assert count_truncated([word, "short"], 50) == is_truncated


def test_the_warning_says_how_many_and_how_long():
    with pytest.warns(UserWarning, match="3 words are longer than 48 bytes"):
        warn_truncated(3, 50)


@given(WORDS)
def test_a_word_has_the_same_row_alone_and_among_others(word):
    alone = encode_words([word], 50, 4)[0]
    among = encode_words(["x" * 48, word, "y"], 50, 4)[1]
    assert torch.equal(alone, among[: len(alone)])
    assert (among[len(alone) :] == 261).all()
