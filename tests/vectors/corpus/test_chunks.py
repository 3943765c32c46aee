"""A corpus split into chunks: nothing lost, nothing twice, and every chunk can be read again."""

import gzip
import lzma

import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'elmo-torch[parquet]'")

import pyarrow as pa
from pyarrow import parquet

from elmo.errors import DataError
from elmo.files.remote import StoragePath
from elmo.files.tables import Fields, Record
from elmo.text.tokenizer import split_text
from elmo.vectors.corpus.chunks import read_chunk, split_corpus

LINES = ["I took a bow. He left.", "", "naïve 東京 🙂", "x" * 300, "", "They don't. Do they?"] * 5


def write(path, lines):
    """Write a file of lines in the format of its extension."""
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(line + "\n" for line in lines).encode()
    if path.suffix == ".parquet":
        parquet.write_table(pa.table({"text": lines}), path, row_group_size=7)
    else:
        pack = {".gz": gzip.compress, ".xz": lzma.compress}.get(path.suffix, bytes)
        path.write_bytes(pack(text))


def split(path, chunk_bytes=100, lines="sentences", column="text"):
    return split_corpus(StoragePath.of(path), lines, Fields(column=column), chunk_bytes)


@pytest.mark.parametrize("name", ["a.txt", "a.txt.gz", "a.xz", "a.parquet"])
@pytest.mark.parametrize("chunk_bytes", [1, 37, 100, 10_000])
def test_chunks_have_the_lines_of_their_file_each_once(name, chunk_bytes, tmp_path):
    write(tmp_path / "corpus" / name, LINES)
    chunks = split(tmp_path / "corpus", chunk_bytes)
    assert [record.text for chunk in chunks for record in read_chunk(chunk, Fields())] == LINES
    assert [chunk.first_line for chunk in chunks] == [
        sum(chunk.n_lines for chunk in chunks[:k]) for k in range(len(chunks))
    ]
    assert all(chunk.n_bytes >= chunk_bytes for chunk in chunks[:-1])
    if chunk_bytes in (1, 10_000):
        assert len(chunks) == {1: 30, 10_000: 1}[chunk_bytes]


def test_every_chunk_but_the_last_of_a_file_is_as_large_as_asked(tmp_path):
    write(tmp_path / "a.txt", ["some words"] * 1000)
    *chunks, last = split(tmp_path / "a.txt", 100)
    assert {chunk.n_bytes for chunk in chunks} == {110}
    assert last.n_bytes <= 110


def test_the_same_text_is_split_alike_in_every_format(tmp_path):
    for name in ("a.txt", "a.gz", "a.xz", "a.parquet"):
        write(tmp_path / name / name, LINES)
    hashes = [
        [chunk.sha256 for chunk in split(tmp_path / name)]
        for name in ("a.txt", "a.gz", "a.xz", "a.parquet")
    ]
    assert hashes[1:] == hashes[:-1]


def test_sentences_of_paragraphs_are_numbered_through_a_file(tmp_path):
    write(tmp_path / "a.txt", LINES)
    for chunk in split(tmp_path / "a.txt", 100, "paragraphs"):
        before = LINES[: chunk.first_line]
        assert chunk.first_sentence == sum(len(split_text(line)) for line in before)


def test_the_number_of_tokens_is_estimated(tmp_path):
    write(tmp_path / "a.txt", ["a line of seven words in all", "and one of five words"] * 500)
    for lines in ("sentences", "paragraphs", "tokens"):
        chunks = split(tmp_path / "a.txt", 2000, lines)
        assert sum(chunk.estimated_tokens for chunk in chunks) == pytest.approx(6000, rel=0.1)


@pytest.mark.parametrize("lines", ["sentences", "tokens"])
def test_blank_lines_do_not_change_the_estimate(lines, tmp_path):
    write(tmp_path / "a.txt", ["", "a line of seven words in all"] * 500)
    chunks = split(tmp_path / "a.txt", 2000, lines)
    assert sum(chunk.estimated_tokens for chunk in chunks) == 7 * 500
    assert all(chunk.estimated_tokens for chunk in chunks)


def test_files_are_found_in_folders_and_others_are_left_out(tmp_path):
    left_out = ("notes.md", "table.csv", "table.tsv.gz", ".hidden.txt", ".git/x.txt")
    for name in ("b.txt", "sub/deep/a.gz", *left_out):
        write(tmp_path / name, LINES)
    assert {chunk.name for chunk in split(tmp_path)} == {"b.txt", "sub/deep/a.gz"}


def test_a_file_that_is_added_changes_no_shard_of_another(tmp_path):
    write(tmp_path / "b.txt", LINES)
    names = {chunk.shard_name: chunk.sha256 for chunk in split(tmp_path)}
    write(tmp_path / "a.txt", LINES)
    assert names.items() <= {chunk.shard_name: chunk.sha256 for chunk in split(tmp_path)}.items()


def test_text_that_changed_meanwhile_is_refused(tmp_path):
    write(tmp_path / "a.txt", LINES)
    chunk = split(tmp_path / "a.txt")[1]
    write(tmp_path / "a.txt", ["other", *LINES])
    with pytest.raises(DataError, match="changed"):
        read_chunk(chunk, Fields())


@pytest.mark.parametrize(
    ("name", "content", "message"),
    [
        ("a.txt", b"fine\ncaf\xe9\n", "a.txt:2: not UTF-8"),
        ("a.gz", gzip.compress(b"fine\n" * 9000)[:-20], r"a\.gz:\d+: cannot be read"),
        ("a.parquet", b"PAR1 no table PAR1", r"a\.parquet: cannot be read"),
        ("a.md", b"fine\n", "none of 1 files is text"),
        ("a.txt", b"", "no line of text"),
    ],
)
def test_what_cannot_be_read_is_refused_by_its_place(name, content, message, tmp_path):
    (tmp_path / name).write_bytes(content)
    with pytest.raises(DataError, match=message):
        split(tmp_path)


@pytest.mark.parametrize("name", ["t.csv", "t.TSV", "t.csv.gz", "t.tsv.xz"])
def test_a_table_that_is_not_parquet_is_refused(name, tmp_path):
    write(tmp_path / name, ["id,text", "7,I took a bow"])
    with pytest.raises(DataError, match=r"a table, expected text, FASTA or \.parquet"):
        split(tmp_path / name)


def test_a_table_without_the_column_says_which_it_has(tmp_path):
    parquet.write_table(pa.table({"body": ["a"], "n": [1]}), tmp_path / "a.parquet")
    with pytest.raises(DataError, match="no column 'text' of text, expected one of body"):
        split(tmp_path)
    assert read_chunk(split(tmp_path, column="body")[0], Fields(column="body")) == [Record("a")]


@pytest.mark.parametrize("name", ["p.fasta", "p.fa.gz"])
@pytest.mark.parametrize("chunk_bytes", [1, 30, 10_000])
def test_chunks_have_the_sequences_of_a_fasta_file_each_once(name, chunk_bytes, tmp_path):
    text = "; a comment\n" + "".join(f">sp|P{k}|X\nMKT\nAR*\n\n" for k in range(9)) + ">empty\n"
    pack = gzip.compress if name.endswith(".gz") else bytes
    (tmp_path / name).write_bytes(pack(text.encode()))
    chunks = split(tmp_path, chunk_bytes, "paragraphs")
    assert len(chunks) == (1 if chunk_bytes == 10_000 else 10 if chunk_bytes == 1 else 6)
    fields = Fields(id_field=1)
    expected = [Record("MKTAR*", f"P{k}") for k in range(9)]
    found = split_corpus(StoragePath.of(tmp_path), "paragraphs", fields, chunk_bytes)
    records = [record for chunk in found for record in read_chunk(chunk, fields)]
    assert records == [*expected, Record("", "")]
    assert [chunk.n_sentences for chunk in split(tmp_path, 1)] == [1] * 9 + [0]


def test_a_chunk_whose_ids_have_changed_is_refused(tmp_path):
    (tmp_path / "p.fasta").write_text(">a\nMKT\n")
    (chunk,) = split(tmp_path)
    (tmp_path / "p.fasta").write_text(">b\nMKT\n")
    with pytest.raises(DataError, match="have changed"):
        read_chunk(chunk, Fields())
