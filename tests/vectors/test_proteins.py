"""Proteins and other sequences: FASTA and tables in, vectors by id out; and a model from FASTA."""

import gzip
import json
import re

import h5py
import numpy as np
import pytest

from elmo.api import Elmo
from elmo.cli.main import main
from elmo.errors import DataError
from elmo.files.tables import Fields, read_records
from elmo.text.lines import split_line
from elmo.vectors import embed_file

FASTA = """\
; a comment
>sp|P12345|AATM_RABIT Aspartate aminotransferase
MALLHSARVL SGVASAFHPG
LAAA*

>sp|Q9/1|X_HUMAN
mktw-x
>tr|EMPTY|NONE
"""


@pytest.fixture
def fasta(tmp_path):
    path = tmp_path / "proteins.fasta"
    path.write_text(FASTA)
    return path


def run(*arguments):
    with pytest.raises(SystemExit) as left:
        main([str(each) for each in arguments])
    return left.value.code or 0


def test_records_have_ids_and_whole_sequences(fasta):
    records = list(read_records(fasta, Fields()))
    assert [record.id for record in records] == [
        "sp|P12345|AATM_RABIT",
        "sp|Q9/1|X_HUMAN",
        "tr|EMPTY|NONE",
    ]
    by_field = read_records(fasta, Fields(id_field=1))
    assert [record.id for record in by_field] == ["P12345", "Q9/1", "EMPTY"]
    [sentence] = split_line(records[0].text, "residues")
    assert "".join(sentence.tokens) == "MALLHSARVLSGVASAFHPGLAAA"
    assert split_line(records[1].text, "residues")[0].tokens == list("MKTWX")
    assert split_line(records[2].text, "residues") == []


@pytest.mark.parametrize("name", ["proteins.fasta", "p.fa", "p.faa.gz", "p.fasta.xz"])
def test_residues_are_tokens_and_ids_are_keys(fasta, official, tmp_path, name):
    path = tmp_path / name
    if name.endswith(".gz"):
        path.write_bytes(gzip.compress(fasta.read_bytes()))
    elif name.endswith(".xz"):
        import lzma

        path.write_bytes(lzma.compress(fasta.read_bytes()))
    else:
        path.write_bytes(fasta.read_bytes())
    counts = embed_file(path, tmp_path / "out.h5", official, id_field=1, layers="sum")
    assert counts.n_tokens == 24 + 5
    expected = Elmo.load(official).embed_tokens([list("MKTWX")])[0].layers.sum(0)
    with h5py.File(tmp_path / "out.h5") as file:
        assert set(file) == {"P12345", "Q9_1", "EMPTY"}
        np.testing.assert_allclose(file["Q9_1"][()], expected, atol=1e-5)
        assert file["EMPTY"].shape == (0, 16)


@pytest.mark.parametrize("pool", ["mean", "max"])
def test_pooled_vectors_are_one_for_a_sequence(fasta, official, tmp_path, pool):
    assert run("embed", fasta, "-o", tmp_path / "out.npz", "-m", official, "--pool", pool) == 0
    embedded = Elmo.load(official).embed_tokens([list("MKTWX")])[0]
    with np.load(tmp_path / "out.npz") as file:
        found = file["sp|Q9_1|X_HUMAN"]
        assert file["tr|EMPTY|NONE"].tolist() == [0.0] * 16
    np.testing.assert_allclose(found, embedded.pooled(pool), atol=1e-6)
    out = tmp_path / "all.npz"
    assert run("embed", fasta, "-o", out, "-m", official, "--pool", pool, "--layers", "all") == 0
    with np.load(out) as file:
        assert file["sp|Q9_1|X_HUMAN"].shape == (3, 16)
    assert run("embed", fasta, "-o", tmp_path / "x.parquet", "-m", official, "--pool", pool) == 2


def test_json_lines_have_the_ids(fasta, official, tmp_path):
    embed_file(fasta, tmp_path / "out.jsonl", official)
    lines = (tmp_path / "out.jsonl").read_text().splitlines()
    assert json.loads(lines[0])["id"] == "sp|P12345|AATM_RABIT"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("MKT\n>a\nMK\n", r"p.fasta:1: 'MKT', expected a header"),
        (">a\nMK\n>a\nMT\n", "the id 'a' of record 2 is also that of record 1"),
        (">\nMK\n", "is empty"),
    ],
)
def test_a_wrong_file_is_reported(official, tmp_path, text, told):
    (tmp_path / "p.fasta").write_text(text)
    with pytest.raises(DataError, match=told):
        embed_file(tmp_path / "p.fasta", tmp_path / "out.h5", official)
    assert not (tmp_path / "out.h5").exists()


@pytest.mark.parametrize(
    ("ids", "out", "key"),
    [
        (["a", "tokens_a"], "out.npz", "tokens_a"),
        (["tokens_a", "a"], "out.npz", "tokens_a"),
        (["."], "out.h5", "."),
    ],
)
def test_ids_that_a_format_cannot_hold_are_reported(official, tmp_path, ids, out, key):
    (tmp_path / "p.fasta").write_text("".join(f">{each}\nMK\n" for each in ids))
    told = f"the key '{key}' of record {len(ids)} is a duplicate"
    with pytest.raises(DataError, match=re.escape(told)):
        embed_file(tmp_path / "p.fasta", tmp_path / out, official)
    assert not (tmp_path / out).exists()


def test_tokens_that_would_fill_a_numpy_archive_are_refused(official, tmp_path):
    text = tmp_path / "text.txt"
    text.write_text("bow\n" + "bow " * 300 + "b" * 300_000 + "\n")
    with pytest.raises(DataError, match=r"record 2: 301 tokens .* 361 MB in \.npz"):
        embed_file(text, tmp_path / "out.npz", official, lines="tokens")
    assert not (tmp_path / "out.npz").exists()


@pytest.mark.parametrize("out", ["out.npz", "out.h5"])
@pytest.mark.parametrize("is_text_first", [False, True])
def test_an_id_that_is_a_line_number_is_reported(official, tmp_path, out, is_text_first):
    (tmp_path / "p.fasta").write_text(f">{0 if is_text_first else 1}\nMK\n")
    (tmp_path / "a.txt").write_text("I took a bow.\n")
    sources = [tmp_path / "p.fasta", tmp_path / "a.txt"]
    with pytest.raises(DataError, match="of record 2 is a duplicate"):
        embed_file(sources[::-1] if is_text_first else sources, tmp_path / out, official)


def test_lines_beside_ids_have_the_same_numbers_in_every_format(official, tmp_path):
    (tmp_path / "p.fasta").write_text(">a\nMK\n")
    (tmp_path / "a.txt").write_text("I took a bow.\nHe left.\n")
    sources = [tmp_path / "p.fasta", tmp_path / "a.txt"]
    for out in ("out.h5", "out.npz"):
        embed_file(sources, tmp_path / out, official)
    with h5py.File(tmp_path / "out.h5") as file, np.load(tmp_path / "out.npz") as arrays:
        assert set(file) == {"a", "1", "2"}
        assert set(arrays.files) == {*file, *(f"tokens_{key}" for key in file)}


@pytest.mark.parametrize("ending", [".csv", ".tsv", ".tsv.gz", ".parquet"])
def test_a_column_of_a_table_is_embedded(official, tmp_path, ending):
    path = tmp_path / f"table{ending}"
    rows = [("a", "MKTW"), ("b", "AR*")]
    if ending == ".parquet":
        pa = pytest.importorskip("pyarrow")
        from pyarrow import parquet

        names, sequences = zip(*rows, strict=True)
        parquet.write_table(pa.table({"id": list(names), "seq": list(sequences)}), path)
    else:
        separator = "," if ending == ".csv" else "\t"
        text = "\n".join(separator.join(row) for row in [("id", "seq"), *rows])
        path.write_bytes(gzip.compress(text.encode()) if ending == ".tsv.gz" else text.encode())
    embed_file(path, tmp_path / "out.npz", official, column="seq", lines="residues")
    with np.load(tmp_path / "out.npz") as file:
        assert "".join(file["tokens_0"]) == "MKTW"
        assert "".join(file["tokens_1"]) == "AR"
    with pytest.raises(DataError, match="nothere"):
        embed_file(path, tmp_path / "out.npz", official, column="nothere")
    for out in ("out.h5", "out.npz"):
        arguments = ("--column", "seq", "--id-column", "id", "--lines", "residues")
        assert run("embed", path, "-o", tmp_path / out, "-m", official, *arguments) == 0
    with h5py.File(tmp_path / "out.h5") as file, np.load(tmp_path / "out.npz") as arrays:
        assert set(file) == {"a", "b"}
        np.testing.assert_array_equal(file["b"], arrays["b"])
    with pytest.raises(DataError, match="no column 'none', expected one of id, seq"):
        embed_file(path, tmp_path / "out.npz", official, column="seq", id_column="none")


def test_a_model_is_trained_on_fasta(tmp_path):
    rng = np.random.default_rng(0)
    for name in ("train", "heldout"):
        with (tmp_path / f"{name}.fasta").open("w") as file:
            for k in range(40):
                file.write(f">{name}{k}\n{''.join(rng.choice(list('ACDEFGHIKL'), 30))}\n")
    code = run(
        *("pretrain", "--train", tmp_path / "train.fasta"),
        *("--heldout", tmp_path / "heldout.fasta", "--out", tmp_path / "run", "--size", "tiny"),
        *("--set", "vocabulary.min_count=1", "--set", "stream.batch_size=4"),
        *("--set", "train.n_epochs=1"),
    )
    assert code == 0
    elmo = Elmo.load(tmp_path / "run" / "model")
    assert set(elmo.model.vocabulary.words) == {"<S>", "</S>", "<UNK>", *"ACDEFGHIKL"}
    embed_file(tmp_path / "heldout.fasta", tmp_path / "out.h5", tmp_path / "run" / "model")


def test_a_corpus_of_sequences_becomes_shards_with_ids(fasta, official, tmp_path):
    pytest.importorskip("pyarrow")
    from pyarrow import parquet

    corpus = tmp_path / "corpus"
    corpus.mkdir()
    (corpus / "p.fasta").write_bytes(fasta.read_bytes())
    (corpus / "note.txt").write_text("I took a bow.\n")
    arguments = ("--format", "parquet", "--id-field", "1", "--workers", "2")
    assert run("embed", corpus, "-o", tmp_path / "out", "-m", official, *arguments) == 0
    table = parquet.read_table(tmp_path / "out" / "p.fasta-00000.parquet")
    assert set(table["id"].to_pylist()) == {"P12345", "Q9_1"}
    embed_file(fasta, tmp_path / "alone.parquet", official, id_field=1)
    alone = parquet.read_table(tmp_path / "alone.parquet")
    for name in ("id", "line", "sentence", "token"):
        assert table[name].to_pylist() == alone[name].to_pylist()
    vectors = [np.stack(each["vector"].to_pylist()) for each in (table, alone)]
    np.testing.assert_allclose(*vectors, atol=1e-5)
    assert "id" not in parquet.read_table(tmp_path / "out" / "note.txt-00000.parquet").column_names


def test_files_with_and_without_ids_go_into_one_table(fasta, official, tmp_path):
    pytest.importorskip("pyarrow")
    from pyarrow import parquet

    (tmp_path / "note.txt").write_text("I took a bow.\n" * 3000)
    embed_file([tmp_path / "note.txt", fasta], tmp_path / "out.parquet", official, id_field=1)
    ids = parquet.read_table(tmp_path / "out.parquet")["id"].to_pylist()
    assert set(ids) == {None, "P12345", "Q9_1"}
