"""The byte table: ids of any word, and batches of them."""

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo.errors import DataError
from elmo.text.characters import (
    Marker,
    batch_of_char_ids,
    count_truncated,
    encode_batch,
    encode_words,
    warn_truncated,
)
from tests.random_models import SENTENCES, WORDS
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


@given(st.lists(SENTENCES, max_size=5))
def test_a_batch_spells_its_sentences_between_markers(sentences):
    batch = encode_batch(sentences, 50, 3)
    begin, end = encode_words(list(Marker), 50, 50)
    assert batch.lengths.tolist() == [len(words) + 2 for words in sentences]
    assert batch.mask.sum(1).tolist() == batch.lengths.tolist()
    assert len(torch.unique(batch.char_ids, dim=0)) == len(batch.char_ids), "each word once"
    for places, words in zip(batch.word_index, sentences, strict=True):
        found = batch.char_ids[places[: len(words) + 2]]
        width = found.shape[1]
        expected = torch.stack([begin, *(encode_words([w], 50, 50)[0] for w in words), end])
        assert torch.equal(found, expected[:, :width])


@given(st.lists(SENTENCES, min_size=1, max_size=5), st.integers(0, 3))
def test_given_ids_make_the_same_batch_as_their_words(sentences, n_more_places):
    n_places = max(map(len, sentences)) + n_more_places
    char_ids = torch.zeros(len(sentences), n_places, 50, dtype=torch.int64)
    for row, words in zip(char_ids, sentences, strict=True):
        row[: len(words)] = encode_words(words, 50, 50)
    expected = encode_batch(sentences, 50, 50)
    found = batch_of_char_ids(char_ids)
    assert torch.equal(found.lengths, expected.lengths)
    for k, length in enumerate(expected.lengths):
        assert torch.equal(
            found.char_ids[found.word_index[k, :length]],
            expected.char_ids[expected.word_index[k, :length]],
        )


@pytest.mark.parametrize(
    ("char_ids", "found"),
    [
        (torch.zeros(2, 50, dtype=torch.int64), r"\(2, 50\)"),
        (torch.zeros(1, 2, 50), "float32"),
        (torch.full((1, 2, 50), 262), "262"),
        (torch.full((1, 2, 50), -1), "-1"),
    ],
)
def test_ids_that_are_none_are_refused(char_ids, found):
    with pytest.raises(DataError, match=found):
        batch_of_char_ids(char_ids)


@given(WORDS)
def test_a_word_has_the_same_row_alone_and_among_others(word):
    alone = encode_words([word], 50, 4)[0]
    among = encode_words(["x" * 48, word, "y"], 50, 4)[1]
    assert torch.equal(alone, among[: len(alone)])
    assert (among[len(alone) :] == 261).all()
