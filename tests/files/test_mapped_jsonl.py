"""Lists on disk, compared with lists in memory."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.errors import DataError
from elmo.files.mapped_jsonl import MappedJsonLines, mapped_jsonl_writer

# Words of any kind: line ends, quotation marks, lone surrogates.
WORDS = st.text(st.characters(codec=None), min_size=1, max_size=5)


def is_word(value):
    return isinstance(value, str)


@given(values=st.lists(st.lists(WORDS, min_size=1), min_size=1))
def test_what_was_appended_is_read(values, tmp_path_factory):
    path = tmp_path_factory.mktemp("lines") / "values.jsonl"
    with mapped_jsonl_writer(path) as append:
        for value in values:
            append(value)
    kept = MappedJsonLines(path, lambda value: isinstance(value, list))
    assert list(kept) == values
    assert kept[-1] == values[-1]
    assert kept[1:] == values[1:]
    with pytest.raises(IndexError):
        kept[len(values)]


def test_a_file_that_ends_early_is_refused(tmp_path):
    with mapped_jsonl_writer(tmp_path / "words.jsonl") as append:
        append("bow")
        append("arrow")
    (tmp_path / "words.jsonl").write_text('"bow"\n')
    with pytest.raises(ValueError, match="has 6 bytes instead of 14"):
        MappedJsonLines(tmp_path / "words.jsonl", is_word)


@pytest.mark.parametrize(
    "line", [b'"b*w\xa2"', b'["b*w"]', b'"bow" 1', b'"b\tw1"', b"[[[[[[[", b"3      "]
)
def test_a_damaged_value_is_one_line_when_it_is_read(tmp_path, line):
    path = tmp_path / "words.jsonl"
    with mapped_jsonl_writer(path) as append:
        append("x" * (len(line) - 2))
        append("arrow")
    path.write_bytes(line + path.read_bytes()[len(line) :])
    words = MappedJsonLines(path, is_word)
    assert words[1] == "arrow"
    with pytest.raises(DataError, match=r"words\.jsonl: value 0 is .*, the file is damaged"):
        words[0]
