import gzip

import pytest

from elmo.text.lines import read_sentences, split_line
from elmo.text.tokenizer import Sentence, split_text, tokenize

LINE = "I took a bow. He doesn't."


def tokens_of(sentences):
    return [sentence.tokens for sentence in sentences]


def test_a_paragraph_is_split_into_sentences():
    assert tokens_of(split_line(LINE)) == [
        ["I", "took", "a", "bow", "."],
        ["He", "does", "n't", "."],
    ]
    assert split_line(LINE) == split_text(LINE)


def test_a_line_may_be_one_raw_sentence():
    assert split_line(LINE, "sentences") == [tokenize(LINE)]


@pytest.mark.parametrize("space", [" ", "  ", "\t", "\u00a0", "\u3000"])
def test_tokens_are_separated_by_any_white_space(space):
    assert split_line(f"a.{space}b-c", "tokens") == [Sentence(["a.", "b-c"], [])]


@pytest.mark.parametrize("lines", ["paragraphs", "sentences", "tokens"])
def test_a_blank_line_has_no_sentence(lines):
    assert split_line("", lines) == split_line(" \u00a0\t", lines) == []


@pytest.mark.parametrize("lines", ["paragraphs", "sentences", "tokens"])
def test_files_are_read_line_by_line(lines, tmp_path):
    (tmp_path / "a.txt").write_text(f"{LINE}\n\nYes.\n")
    (tmp_path / "b.gz").write_bytes(gzip.compress(b"No .\n"))
    found = list(read_sentences([tmp_path / "a.txt", tmp_path / "b.gz"], lines))
    every = [*split_line(LINE, lines), *split_line("Yes.", lines), *split_line("No .", lines)]
    assert found == tokens_of(every)
