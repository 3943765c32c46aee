"""Batches: words numbered in order, sentences of similar length together, none lost."""

from itertools import pairwise

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo.errors import DataError
from elmo.text.batches import (
    batch_of_char_ids,
    batches_by_length,
    marker_numbers,
    number_words,
    windows,
)
from elmo.text.characters import Marker, encode_words
from tests.random_models import SENTENCES, encode_batch

LENGTHS = st.lists(st.integers(0, 30), max_size=40)


def test_words_are_numbered_in_the_order_in_which_they_come():
    distinct = marker_numbers()
    assert number_words(["a", "b", "a"], distinct) == [2, 3, 2]
    assert number_words(["c", Marker.END_SENTENCE, "b"], distinct) == [4, 1, 3]
    assert list(distinct) == [*Marker, "a", "b", "c"]


@given(LENGTHS, st.integers(1, 8), st.integers(1, 60), st.booleans())
def test_batches_are_filled_in_the_order_of_lengths(lengths, max_items, max_tokens, longest_first):
    batches = list(
        batches_by_length(
            lengths, max_items=max_items, max_tokens=max_tokens, longest_first=longest_first
        )
    )
    order = [k for batch in batches for k in batch]
    assert order == sorted(range(len(lengths)), key=lambda k: lengths[k], reverse=longest_first)
    for batch in batches:
        assert len(batch) == 1 or sum(lengths[k] for k in batch) <= max_tokens
        assert len(batch) <= max_items
    for batch, after in pairwise(batches):
        n_tokens = sum(lengths[k] for k in [*batch, after[0]])
        assert len(batch) == max_items or n_tokens > max_tokens, "full"


@given(LENGTHS, st.integers(1, 80))
def test_sentences_that_are_padded_together_are_of_similar_length(lengths, n_most):
    batches = list(batches_by_length(lengths, max_padded_tokens=n_most, min_ratio=0.5))
    assert sorted(k for batch in batches for k in batch) == list(range(len(lengths)))
    for number, batch in enumerate(batches):
        longest = max(lengths[k] for k in batch)
        assert len(batch) == 1 or len(batch) * longest <= n_most
        assert all(2 * lengths[k] >= longest for k in batch)
        for after in batches[number + 1 : number + 2]:
            is_full = (len(batch) + 1) * longest > n_most
            assert is_full or 2 * lengths[after[0]] < longest


@given(st.lists(st.integers(0, 9)), st.integers(1, 20))
def test_a_window_ends_when_it_is_large_enough(sizes, limit):
    found = list(windows(sizes, lambda size: size, limit))
    assert [size for window in found for size in window] == sizes
    assert all(window for window in found)
    assert all(sum(window[:-1]) < limit for window in found)
    assert all(sum(window) >= limit for window in found[:-1])


def test_a_window_is_given_before_more_is_read():
    endless = iter(lambda: 1, 2)
    assert next(windows(endless, lambda size: size, 3)) == [1, 1, 1]


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
        (torch.zeros(1, 2, 0, dtype=torch.int64), r"\(1, 2, 0\)"),
        (torch.zeros(1, 2, 2, dtype=torch.int64), r"\(1, 2, 2\)"),
        (
            torch.ones(1, 3, 5, dtype=torch.int64) * torch.tensor([1, 0, 1])[:, None],
            "after padding",
        ),
    ],
)
def test_ids_that_are_none_are_refused(char_ids, found):
    with pytest.raises(DataError, match=found):
        batch_of_char_ids(char_ids)
