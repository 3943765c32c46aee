"""Tables of texts: damaged ones."""

import pyarrow as pa
import pytest
from pyarrow import parquet

from elmo.errors import DataError
from elmo.files.remote import StoragePath
from elmo.files.tables import Fields, read_parquet


def test_text_that_is_not_utf_8_is_one_line(tmp_path):
    path = tmp_path / "a.parquet"
    texts = pa.array([b"a bow", b"a \xce bow"]).view(pa.string())
    parquet.write_table(pa.table({"text": texts}), path)
    with pytest.raises(DataError, match=r"a\.parquet: cannot be read .*expected a Parquet file"):
        list(read_parquet(StoragePath.of(path), Fields()))
