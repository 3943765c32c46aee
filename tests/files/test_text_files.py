"""Text files with byte order marks, in other encodings, damaged or missing."""

import codecs
import gzip

import pytest

from elmo.errors import DataError
from elmo.files.text_files import find_text_files, read_lines
from elmo.settings import read_toml
from elmo.text.vocabulary import read_list


def test_a_byte_order_mark_is_dropped_at_the_start_and_only_there(tmp_path):
    content = codecs.BOM_UTF8 + "One\n\ufefftwo\n".encode()
    (tmp_path / "a.txt").write_bytes(content)
    (tmp_path / "a.txt.gz").write_bytes(gzip.compress(content))
    for name in ("a.txt", "a.txt.gz"):
        assert list(read_lines(tmp_path / name)) == ["One", "\ufefftwo"]


def test_a_byte_order_mark_is_dropped_from_word_lists_and_settings(tmp_path):
    (tmp_path / "words.txt").write_bytes(codecs.BOM_UTF8 + b"one\ntwo\n")
    assert read_list(tmp_path / "words.txt") == ["one", "two"]
    (tmp_path / "settings.toml").write_bytes(codecs.BOM_UTF8 + b"a = 1\n")
    assert read_toml(tmp_path / "settings.toml") == {"a": 1}


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-be"])
def test_utf_16_is_named(tmp_path, encoding):
    mark = codecs.BOM_UTF16_BE if encoding == "utf-16-be" else b""
    (tmp_path / "a.txt").write_bytes(mark + "Some text\n".encode(encoding))
    with pytest.raises(DataError, match=r"a\.txt: UTF-16, expected UTF-8; convert it with: iconv"):
        list(read_lines(tmp_path / "a.txt"))


def test_damaged_bytes_of_gzip_are_an_error_of_the_file(tmp_path):
    whole = gzip.compress(b"".join(b"%d words of text\n" % k for k in range(999)))
    for place in range(12, 200):
        damaged = bytearray(whole)
        damaged[place] ^= 255
        (tmp_path / "a.txt.gz").write_bytes(damaged)
        with pytest.raises(DataError, match=r"a\.txt\.gz"):
            list(read_lines(tmp_path / "a.txt.gz"))


def test_an_error_is_one_line_also_where_it_quotes_several():
    assert str(DataError("a.parquet: cannot be read (first\nsecond)")) == (
        "a.parquet: cannot be read (first second)"
    )


def test_a_missing_file_is_no_such_file(tmp_path):
    for read in (lambda path: list(read_lines(path)), find_text_files, read_list):
        with pytest.raises(DataError) as caught:
            read(tmp_path / "absent.txt")
        assert str(caught.value) == f"{tmp_path}/absent.txt: no such file"


def test_several_paths_globs_and_folders_are_found_in_their_order(tmp_path):
    for name in ("b.txt", "a.txt", "[1].txt", "notes.md"):
        (tmp_path / name).touch()
    found = find_text_files(tmp_path / "b.txt", str(tmp_path / "[1].txt"), str(tmp_path / "a*"))
    assert [path.name for path in found] == ["b.txt", "[1].txt", "a.txt"]
    assert [path.name for path in find_text_files(tmp_path, "-")] == [
        "[1].txt",
        "a.txt",
        "b.txt",
        "-",
    ]
    with pytest.raises(DataError, match="no file matches"):
        find_text_files(tmp_path / "c*")


def test_a_glob_finds_files_at_any_depth_and_a_folder_leaves_out_what_is_hidden(tmp_path):
    below = tmp_path / "below" / "deeper"
    below.mkdir(parents=True)
    (tmp_path / "folder.txt").mkdir()
    for path in (tmp_path / "a.txt", tmp_path / "._a.txt", below / "b.txt"):
        path.touch()
    assert find_text_files(tmp_path) == [tmp_path / "a.txt"]
    assert find_text_files(tmp_path / "**/*.txt") == [tmp_path / "a.txt", below / "b.txt"]
