"""The token cache: round trips, counts, reuse, and errors that name broken files."""

import gzip
import lzma
import os

import pytest

from elmo.errors import DataError
from elmo.files import text_files
from elmo.files.text_files import find_text_files, read_blocks
from elmo.pretraining import corpus
from elmo.pretraining.corpus import build_cache

TEXT = "the cat sat .\na dog ran off .\n\nthe end <S> x\n"


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "a.txt").write_text(TEXT)
    with gzip.open(tmp_path / "b.txt.gz", "wt") as file:
        file.write("\n\nb one\n")
    with lzma.open(tmp_path / "c.txt.xz", "wt") as file:
        file.write("c naïve \u200b 東京\n\n\n\nc two the")
    return tmp_path


def build(folder, pattern="*.txt*", lines="tokens"):
    found = find_text_files(str(folder / pattern))
    return build_cache(found, folder / "cache", lines)


def sentences(cache):
    return [cache.sentence(number) for number in range(cache.counts.n_sentences)]


def test_tokens_are_separated_by_any_white_space_as_in_every_verb(tmp_path):
    (tmp_path / "text.txt").write_text("a\u00a0b  c\td\n", encoding="utf-8")
    assert sentences(build(tmp_path)) == [["a", "b", "c", "d"]]


def test_all_sentences_come_back_in_the_order_of_the_files(folder):
    assert sentences(build(folder)) == [
        ["the", "cat", "sat", "."],
        ["a", "dog", "ran", "off", "."],
        ["the", "end", "<S>", "x"],
        ["b", "one"],
        ["c", "naïve", "\u200b", "東京"],
        ["c", "two", "the"],
    ]


def test_counts_positions_and_documents_are_those_of_the_text(folder):
    cache = build(folder)
    assert cache.counts.n_tokens == 22
    assert cache.counts.n_documents == 5
    assert cache.documents.tolist() == [0, 2, 3, 4, 5, 6]
    assert cache.positions.tolist() == [0, 5, 11, 16, 19, 24, 28]


def test_vocabulary_falls_by_frequency_then_alphabet_and_can_be_cut_later(folder):
    cache = build(folder)
    reserved = ("<S>", "</S>", "<UNK>")
    assert cache.vocabulary(min_count=2).words == (*reserved, "the", ".", "c")
    assert cache.vocabulary(max_size=5).words == (*reserved, "the", ".")
    assert len(cache.vocabulary()) == 3 + 17


def test_raw_text_is_split_into_sentences_of_words(tmp_path):
    (tmp_path / "raw.txt").write_text("It rained. We stayed in, didn't we?\n\nThe end.\n")
    cache = build(tmp_path, "raw.txt", "paragraphs")
    assert sentences(cache)[0] == ["It", "rained", "."]
    assert sentences(cache)[-1] == ["The", "end", "."]
    assert cache.counts.n_documents == 2


def test_a_cache_is_built_once_and_again_when_the_text_changes(folder, monkeypatch):
    first = build(folder)
    with monkeypatch.context() as patch:
        patch.setattr(corpus, "_write_cache", lambda *_, **__: pytest.fail("built again"))
        assert build(folder).folder == first.folder
    (folder / "a.txt").write_text(TEXT + "more\n")
    assert build(folder).counts.n_sentences == 7
    assert not list((folder / "cache").glob(".*"))


def test_files_of_the_same_name_size_and_time_have_their_own_caches(tmp_path):
    caches = []
    for name, text in (("one", "a cat\n"), ("two", "a dog\n")):
        path = tmp_path / name / "train.txt"
        path.parent.mkdir()
        path.write_text(text)
        os.utime(path, (1, 1))
        caches.append(build_cache([path], tmp_path / "cache", "tokens"))
    assert [sentences(cache) for cache in caches] == [[["a", "cat"]], [["a", "dog"]]]


@pytest.mark.parametrize("name", ["tokens", "offsets", "positions", "documents"])
@pytest.mark.parametrize("n_bytes", [0, 1, 8, None])
def test_a_damaged_cache_is_an_error_that_names_the_folder_to_delete(folder, name, n_bytes):
    cache = build(folder).folder
    path = cache / f"{name}.bin"
    if n_bytes is None:
        path.unlink()
    else:
        path.write_bytes(path.read_bytes()[:n_bytes])
    with pytest.raises(DataError, match=f"{cache}: a damaged token cache .*; delete this folder"):
        build(folder)


def test_standard_input_is_refused_as_it_cannot_be_read_again(tmp_path):
    with pytest.raises(DataError, match="standard input cannot be read twice, expected a file"):
        build_cache(find_text_files("-"), tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_blocks_and_processes_do_not_change_the_cache(tmp_path, monkeypatch):
    lines = [f"word{n % 7} is number {n}\n" + "\n" * (n % 5 == 0) for n in range(400)]
    (tmp_path / "a.txt").write_text("".join(lines))
    whole = build(tmp_path)
    os.utime(tmp_path / "a.txt", (1, 1))
    monkeypatch.setattr(text_files, "BLOCK_CHARACTERS", 300)
    monkeypatch.setattr(corpus, "_workers", lambda _: 2)
    pieces = build(tmp_path)
    assert pieces.folder != whole.folder
    for name in ("tokens.bin", "offsets.bin", "positions.bin", "documents.bin", "words.txt"):
        assert (pieces.folder / name).read_bytes() == (whole.folder / name).read_bytes()


def test_a_very_long_document_is_cut_into_blocks(tmp_path, monkeypatch):
    monkeypatch.setattr(text_files, "BLOCK_CHARACTERS", 100)
    (tmp_path / "a.txt").write_text("ten words\n" * 100)
    blocks = list(read_blocks([tmp_path / "a.txt"]))
    assert [line for block in blocks for line in block] == ["ten words"] * 100
    assert max(map(len, blocks)) == 20


def test_rare_words_are_forgotten_when_there_are_too_many(tmp_path, monkeypatch):
    monkeypatch.setattr(corpus, "MOST_WORDS", 20)
    (tmp_path / "a.txt").write_text("often often\n" + " ".join(f"w{n}" for n in range(50)) + "\n")
    assert build(tmp_path).vocabulary().words[3:] == ("often",)


@pytest.mark.parametrize(
    ("content", "name", "message"),
    [
        (b"good\n\xff\xfe\n", "a.txt", r"a\.txt:2: not UTF-8"),
        (b"good\nbad\0\n", "a.txt", r"a\.txt:2: a zero byte"),
        (b"not xz at all", "a.txt.xz", r"a\.txt\.xz: cannot be read"),
        (b"not gz at all", "a.txt.gz", r"a\.txt\.gz: cannot be read"),
        (b"\n \n\n", "a.txt", "no words in 1 files"),
    ],
)
def test_a_file_that_is_no_text_is_named_with_its_line(tmp_path, content, name, message):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        build(tmp_path)
    assert not (tmp_path / "cache").exists()


def test_a_truncated_archive_is_an_error_not_a_shorter_corpus(tmp_path):
    (tmp_path / "a.txt.xz").write_bytes(lzma.compress(b"some words\n" * 10_000)[:-40])
    with pytest.raises(DataError, match="cannot be read"):
        build(tmp_path)


def test_a_folder_stands_for_its_texts(folder):
    (folder / "notes.md").write_text("not of the corpus")
    (folder / "more").mkdir()
    assert find_text_files(str(folder)) == find_text_files(str(folder / "*.txt*"))


def test_a_glob_without_files_is_an_error(tmp_path):
    with pytest.raises(DataError, match="no file matches"):
        find_text_files(str(tmp_path / "*.txt"))


def test_frequencies_are_shares_of_all_positions(folder):
    cache = build(folder)
    vocabulary = cache.vocabulary(min_count=2)
    shares = dict(zip(vocabulary.words, cache.frequencies(vocabulary).tolist(), strict=True))
    assert shares["the"] == pytest.approx(3 / 28)
    assert shares["</S>"] == shares["<S>"] == pytest.approx(6 / 28)
    assert shares["<UNK>"] == pytest.approx((1 + 22 - 3 - 2 - 2) / 28)
