import lzma
import re

import pytest

from benchmarks.wordnet_sentences import make_examples, write_examples
from elmo.errors import DataError
from elmo.search.wordnet.sentences import (
    SENTENCES,
    SenseExample,
    read_examples,
    read_written,
)

KEY = re.compile(r"[^\s%]+%[1-5]:\d\d:\d\d:[^\s:]*:(\d\d)?")


def test_quoted_sentences_in_which_one_word_of_the_synset_stands_once_are_kept(wordnet_folder):
    found = make_examples(wordnet_folder)
    assert found == [
        SenseExample("bow%1:06:01::", 3, ["he", "drew", "his", "bows"]),
        SenseExample("bow%1:10:00::", 3, ["I", "took", "a", "bow"]),
        SenseExample("earth%1:17:00::", 1, ["the", "Earth", "moves", "around", "the", "sun"]),
        SenseExample("galore%5:00:00:abundant:00", 1, ["daffodils", "galore", "here"]),
        SenseExample("run%2:38:00::", 1, ["He", "ran", "home"]),
        SenseExample("run%2:38:00::", 2, ["do", "n't", "run"]),
    ]


def test_what_is_written_is_read(tmp_path, wordnet_folder):
    examples = make_examples(wordnet_folder)
    write_examples(tmp_path / "s.xz", examples)
    assert read_examples(tmp_path / "s.xz") == examples


@pytest.mark.parametrize(
    "line", ["bow%1:06:01::\t4\the drew his bow", "bow\t0\tbow", "bow%1:06:01::\tbow", ""]
)
def test_a_broken_line_is_named(tmp_path, line):
    with lzma.open(tmp_path / "s.xz", "wt") as file:
        file.write(f"bow%1:10:00::\t1\ta bow\n{line}\n")
    with pytest.raises(DataError, match=r"s\.xz:2: no example"):
        read_examples(tmp_path / "s.xz")


def test_the_shipped_sentences_are_complete_and_have_their_license():
    examples = read_examples()
    assert len(examples) > 38_000
    assert SENTENCES.stat().st_size < 1_000_000
    for example in examples:
        assert KEY.fullmatch(example.key), example
        assert all(example.tokens)
        assert 3 <= len(example.tokens) <= 60
    notice = SENTENCES.with_name("LICENSE").read_text()
    assert "WordNet 3.0 Copyright 2006 by Princeton University" in notice


def test_our_own_sentences_show_five_words_in_several_senses():
    senses = {}
    for example in read_written():
        assert KEY.fullmatch(example.key)
        assert example.word == example.lemma
        senses.setdefault(example.lemma, []).append(example.key)
    assert set(senses) == {"bow", "play", "bank", "spring", "fair"}
    for keys in senses.values():
        assert len(set(keys)) >= 2
        assert all(keys.count(key) >= 4 for key in keys)
