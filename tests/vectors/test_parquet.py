"""Vectors in Parquet: one row per token, as pandas, Arrow and databases read it."""

import numpy as np
import pytest

pytest.importorskip("pyarrow", reason="needs pyarrow: pip install 'elmo-torch[parquet]'")

import pyarrow as pa
from pyarrow import parquet

from elmo.text.tokenizer import tokenize
from elmo.vectors import files
from elmo.vectors.embed import embed_file


@pytest.fixture
def text(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("I took a bow.\n\nnaïve 東京 🙂\nThey don't.\n", encoding="utf-8")
    return path


def vectors_of(table, name="vector"):
    column = table[name].combine_chunks()
    return column.flatten().to_numpy().reshape(len(table), -1)


def test_rows_are_tokens_with_sentence_places_and_vectors(text, official, elmo, tmp_path):
    embed_file(text, tmp_path / "v.parquet", official, layers="top")
    table = parquet.read_table(tmp_path / "v.parquet")
    assert table.column_names == ["line", "sentence", "token", "start", "end", "vector"]
    assert table["vector"].type == pa.list_(pa.float32(), elmo.output_dim)
    lines = text.read_text(encoding="utf-8").splitlines()
    sentences = [tokenize(line).tokens for line in lines]
    assert table["sentence"].to_pylist() == [k for k in (0, 1, 2) for _ in sentences[k and k + 1]]
    for line, _, token, start, end in zip(*table.columns[:5], strict=True):
        assert lines[line.as_py()][start.as_py() : end.as_py()] == token.as_py()
    expected = np.concatenate(
        [embedded.vectors("top") for embedded in elmo.embed_tokens(sentences)]
    )
    np.testing.assert_allclose(vectors_of(table), expected, atol=1e-5)


def test_tokens_of_a_split_paragraph_are_found_in_their_line(official, tmp_path):
    paragraphs = ["One is here. Two is there.", "", "Three. Four. Five!"]
    (tmp_path / "text.txt").write_text("\n".join(paragraphs))
    embed_file(tmp_path / "text.txt", tmp_path / "v.parquet", official)
    rows = parquet.read_table(tmp_path / "v.parquet").to_pylist()
    assert [paragraphs[row["line"]][row["start"] : row["end"]] for row in rows] == [
        row["token"] for row in rows
    ]
    assert {(row["line"], row["sentence"]) for row in rows} == {
        (0, 0), (0, 1), (2, 2), (2, 3), (2, 4)
    }  # fmt: skip


def test_several_layers_are_columns_and_half_precision_is_kept(text, official, elmo, tmp_path):
    embed_file(
        text,
        tmp_path / "v.parquet",
        official,
        lines="tokens",
        layers="0,2",
        dtype="float16",
    )
    table = parquet.read_table(tmp_path / "v.parquet")
    assert table.column_names[5:] == ["vector_0", "vector_1"]
    assert table["vector_1"].type == pa.list_(pa.float16(), elmo.output_dim)
    assert set(table["start"].to_pylist()) == {None}
    sentences = [line.split() for line in text.read_text(encoding="utf-8").splitlines()]
    layers = np.concatenate([embedded.layers for embedded in elmo.embed_tokens(sentences)], axis=1)
    np.testing.assert_allclose(vectors_of(table, "vector_0"), layers[0], atol=2e-3)
    np.testing.assert_allclose(vectors_of(table, "vector_1"), layers[2], atol=2e-3)


def test_groups_of_rows_make_no_difference(text, official, tmp_path, monkeypatch):
    embed_file(text, tmp_path / "one.parquet", official)
    monkeypatch.setattr(files, "ROW_GROUP_TOKENS", 1)
    embed_file(text, tmp_path / "many.parquet", official)
    assert parquet.ParquetFile(tmp_path / "many.parquet").num_row_groups > 1
    one, many = (parquet.read_table(tmp_path / f"{name}.parquet") for name in ("one", "many"))
    assert one.equals(many)


@pytest.mark.parametrize("content", ["", "\n", "\n\n"])
def test_a_text_without_words_gives_a_table_without_rows(content, official, tmp_path):
    (tmp_path / "empty.txt").write_text(content)
    embed_file(tmp_path / "empty.txt", tmp_path / "v.parquet", official)
    table = parquet.read_table(tmp_path / "v.parquet")
    assert table.num_rows == 0
    (tmp_path / "full.txt").write_text("words")
    embed_file(tmp_path / "full.txt", tmp_path / "full.parquet", official)
    assert table.schema.equals(parquet.read_schema(tmp_path / "full.parquet"))
