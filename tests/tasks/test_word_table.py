"""Rows of words: given or random, trained or fixed, known or not."""

import numpy as np
import pytest
import torch

from elmo.tasks import find_task
from elmo.tasks.config import WordsConfig
from elmo.tasks.word_table import UNKNOWN, WordTable
from elmo.vectors.static import StaticVectors

SENTENCES = [["The", "cat", "the", "xyzzy"], ["Plugh", "plugh", "rare"]]
STATIC = StaticVectors(
    ["the", "cat", "dog", "rare"], np.arange(12, dtype=np.float32).reshape(4, 3) / 4
)


def rows(table, *words):
    return table(torch.tensor(table.words.ids(words)))


def test_training_words_start_at_the_given_vectors_and_learn():
    table = WordTable.build(WordsConfig(), SENTENCES, STATIC)
    torch.testing.assert_close(
        rows(table, "the", "CAT", "rare").detach(), torch.from_numpy(STATIC.vectors[[0, 1, 3]])
    )
    rows(table, "the", "dog").sum().backward()
    changed = table.trained.grad.any(1).nonzero()[:, 0].tolist()
    assert changed == table.words.ids(["the"])


def test_words_first_seen_in_use_keep_the_vectors_of_the_file():
    table = WordTable.build(WordsConfig(), SENTENCES, STATIC)
    assert table.words.fixed == ("dog",)
    torch.testing.assert_close(rows(table, "Dog")[0], torch.from_numpy(STATIC.vectors[2]))


def test_words_without_a_vector_need_to_come_often():
    table = WordTable.build(WordsConfig(min_count=2), SENTENCES, STATIC)
    assert table.words.ids(["xyzzy"]) == [UNKNOWN]
    assert table.words.ids(["plugh"]) != [UNKNOWN]
    assert table.words.ids(["never"]) == [UNKNOWN]


def test_fixed_vectors_do_not_learn():
    table = WordTable.build(WordsConfig(is_trained=False), SENTENCES, STATIC)
    assert table.words.trained == ()
    assert set(table.words.fixed) == set(STATIC.words)
    rows(table, "the", "cat", "never").sum().backward()
    assert table.trained.grad.shape == (1, 3)  # the unknown word's alone


def test_random_vectors_learn_even_where_those_of_a_file_would_not():
    table = WordTable.build(WordsConfig(is_trained=False, min_count=1), SENTENCES, None)
    rows(table, "the", "rare").sum().backward()
    changed = table.trained.grad.any(1).nonzero()[:, 0].tolist()
    assert changed == sorted(table.words.ids(["the", "rare"]))


def test_random_vectors_are_as_wide_as_asked_and_drawn_by_the_seed():
    def build():
        torch.manual_seed(7)
        return WordTable.build(WordsConfig(dim=5, min_count=1), SENTENCES, None)

    one, other = build(), build()
    assert rows(one, "the", "rare").shape == (2, 5)
    torch.testing.assert_close(one.trained, other.trained)


def test_case_can_be_kept():
    table = WordTable.build(
        WordsConfig(is_lowercased=False, min_count=1),
        SENTENCES,
        StaticVectors(["The"], np.ones((1, 2), np.float32)),
    )
    the, small = table.words.ids(["The", "the"])
    assert the != small
    assert table.words.ids(["PLUGH"]) == table.words.ids(["plugh"])


def test_a_long_file_is_read_to_its_most_frequent_words_and_those_of_the_text():
    table = WordTable.build(WordsConfig(max_words=1, is_trained=False), SENTENCES, STATIC)
    assert table.words.fixed == ("the", "cat", "rare")


def test_a_tagger_knows_all_words_of_the_file():
    words = [f"word{number}" for number in range(200_001)]
    static = StaticVectors(words, np.zeros((len(words), 1), np.float32))
    table = WordTable.build(find_task("ner").defaults().words, SENTENCES, static)
    assert table.words.ids(words[-1:]) != [UNKNOWN]


@pytest.mark.parametrize("is_trained", [True, False])
def test_checkpoints_do_not_hold_what_no_training_changes(is_trained):
    table = WordTable.build(WordsConfig(is_trained=is_trained), SENTENCES, STATIC)
    assert set(table.state_dict()) == {"trained"}
