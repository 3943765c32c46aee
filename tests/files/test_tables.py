"""Tables of texts: quotation marks, long fields, damaged files."""

import pytest

from elmo.errors import DataError
from elmo.files.remote import StoragePath
from elmo.files.tables import Fields, Record, read_parquet, read_records


def test_a_quotation_mark_of_a_tsv_is_a_character(tmp_path):
    path = tmp_path / "a.tsv"
    path.write_text('id\ttext\n1\t"Hello there\n2\t"Go," he said.\n')
    found = list(read_records(path, Fields(id_column="id")))
    assert found == [Record('"Hello there', "1"), Record('"Go," he said.', "2")]


def test_a_quotation_mark_of_a_csv_encloses_a_field_and_must_be_closed(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text('id,text\n1,"Go, he\nsaid ""now"""\n2,a bow\n')
    found = list(read_records(path, Fields(id_column="id")))
    assert found == [Record('Go, he said "now"', "1"), Record("a bow", "2")]
    path.write_text('id,text\n1,"Hello there\n2,a bow\n')
    with pytest.raises(DataError, match=r"a\.csv:3: unexpected end of data, expected a table"):
        list(read_records(path, Fields()))


def test_a_field_may_be_a_long_text(tmp_path):
    path = tmp_path / "a.csv"
    path.write_text("text\n" + "bow " * 50_000 + "\n")
    (record,) = read_records(path, Fields())
    assert len(record.text) == 199_999


def test_text_that_is_not_utf_8_is_one_line(tmp_path):
    pa = pytest.importorskip("pyarrow")
    from pyarrow import parquet

    path = tmp_path / "a.parquet"
    texts = pa.array([b"a bow", b"a \xce bow"]).view(pa.string())
    parquet.write_table(pa.table({"text": texts}), path)
    with pytest.raises(DataError, match=r"a\.parquet: cannot be read .*expected a Parquet file"):
        list(read_parquet(StoragePath.of(path), Fields()))
