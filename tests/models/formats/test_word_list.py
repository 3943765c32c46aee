"""Vocabularies of other projects: rows follow their words, whatever the order of the file."""

import gzip
import shutil
from pathlib import Path

import h5py
import numpy as np
import pytest

from elmo.api import Elmo
from elmo.errors import DataError
from elmo.models.formats.word_list import read_word_list
from tests.random_models import write_files

TRAINED = Path(__file__).parent / "bilm-training"
# As the list of the 1 Billion Word Benchmark begins.
RELEASED = ["</S>", "<S>", "<UNK>", "the", "!!!MAXTERMID", ",", "."]


def write_vocabulary(path, words):
    path.write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    return path


def test_the_released_order_is_read_and_rows_follow_their_words(tmp_path):
    words = read_word_list(write_vocabulary(tmp_path / "vocab.txt", RELEASED))
    assert words.vocabulary.words == ("<S>", "</S>", "<UNK>", "the", ",", ".")
    assert words.rows.tolist() == [1, 0, 2, 3, 4, 5]


def write_softmax(path, table, bias):
    with h5py.File(path, "w") as file:
        file["softmax/W"], file["softmax/b"] = table, bias
    return path


def test_a_softmax_scores_words_the_same_in_any_order_of_its_vocabulary(
    tmp_path, tiny_options, tiny_weights
):
    weights = write_files(tmp_path / "model", tiny_options, tiny_weights)
    rng = np.random.default_rng(3)
    ours = ["<S>", "</S>", "<UNK>", "the", ",", "bow", "."]
    table, bias = (rng.normal(size=size).astype(np.float32) for size in ((7, 8), (7,)))
    found = []
    for order in (range(7), [1, 0, 2, 3, 4, 5, 6], [5, 3, 2, 6, 0, 4, 1]):
        names = [ours[k] for k in order]
        vocabulary = write_vocabulary(tmp_path / "vocab.txt", [*names, "!!!MAXTERMID"])
        softmax = write_softmax(tmp_path / "softmax.hdf5", table[list(order)], bias[list(order)])
        elmo = Elmo.load(weights, softmax=softmax, vocabulary=vocabulary)
        scored = elmo.score_tokens([["the", "bow", ".", "unlisted"]])[0].sentences[0]
        found.append(scored.log_probs["forward"])
    np.testing.assert_allclose(found[1], found[0], atol=1e-6)
    np.testing.assert_allclose(found[2], found[0], atol=1e-6)


@pytest.mark.parametrize("kind", ["words", "characters"])
def test_a_checkpoint_s_rows_follow_their_words(tmp_path, kind):
    """The same checkpoint with two lines swapped is the model with two words swapped."""
    shutil.copytree(TRAINED / kind, tmp_path / "run")
    vocabulary = tmp_path / "run" / "vocab.txt"
    lines = vocabulary.read_text(encoding="utf-8").split("\n")[:-1]
    before = Elmo.load(tmp_path / "run" / "model.ckpt-4")
    one, other = lines.index("<S>"), lines.index(".")
    lines[one], lines[other] = lines[other], lines[one]
    write_vocabulary(vocabulary, lines)
    after = Elmo.load(tmp_path / "run" / "model.ckpt-4")
    assert after.model.vocabulary.words[:3] == ("<S>", "</S>", "<UNK>")
    k = after.model.vocabulary.words.index(".")
    head, old_head = after.model.head.weight.detach(), before.model.head.weight.detach()
    np.testing.assert_array_equal(head[k], old_head[one])
    np.testing.assert_array_equal(head[0], old_head[other])
    if kind == "words":
        table, old_table = (e.bilm.word_table.weight.detach() for e in (after, before))
        np.testing.assert_array_equal(table[k], old_table[one])
        official = Elmo.load(tmp_path / "run" / "weights.hdf5", vocabulary=vocabulary)
        np.testing.assert_array_equal(official.bilm.word_table.weight.detach(), table)


def test_a_packed_vocabulary_is_read(tmp_path):
    text = "".join(f"{word}\n" for word in RELEASED).encode()
    (tmp_path / "vocab.txt.gz").write_bytes(gzip.compress(text))
    assert len(read_word_list(tmp_path / "vocab.txt.gz").vocabulary) == 6


def test_a_byte_order_mark_is_no_part_of_the_first_word(tmp_path):
    text = "".join(f"{word}\n" for word in RELEASED)
    (tmp_path / "vocab.txt").write_text(text, encoding="utf-8-sig")
    found = read_word_list(tmp_path / "vocab.txt")
    assert (
        found.vocabulary.words
        == read_word_list(write_vocabulary(tmp_path / "b.txt", RELEASED)).vocabulary.words
    )


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (["<S>", "</S>", "<UNK>", "a", "b", "a"], r"vocab\.txt:6: 'a' is also line 4"),
        (["<S>", "</S>", "<UNK>", "<S>"], r"vocab\.txt:4: '<S>' is also line 1"),
        (["<S>", "", "</S>", "<UNK>"], r"vocab\.txt:2: a blank line"),
        (["<S>", "</S>", "a\0b", "<UNK>"], r"vocab\.txt:3: a zero byte"),
        (["the", "cat", "<S>", "<UNK>"], r"vocab\.txt: no line '</S>'"),
        ([""], r"vocab\.txt:1: a blank line"),
    ],
)
def test_a_wrong_list_is_reported_with_the_line(tmp_path, lines, message):
    with pytest.raises(DataError, match=message):
        read_word_list(write_vocabulary(tmp_path / "vocab.txt", lines))
