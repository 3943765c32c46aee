"""Words of an index for embedding-atlas and for TensorBoard's projector."""

import numpy as np
import pytest

from elmo.api import Elmo
from elmo.errors import ConfigError, DataError, WriteError
from elmo.models.model_folder import Model
from elmo.search.build import temporary_index
from elmo.search.export import choose, write_map, write_projector
from tests.conftest import CORPUS, TINY_OPTIONS
from tests.random_models import build_bilm, random_weights

SENTENCES = [line.split() for line in CORPUS.splitlines() if "Donau" not in line]


@pytest.fixture(scope="module")
def model():
    return Elmo(Model(build_bilm(TINY_OPTIONS, random_weights(TINY_OPTIONS, seed=1))))


@pytest.fixture(scope="module")
def index(model):
    return model.index([" ".join(tokens) for tokens in SENTENCES])


def expected_vectors(model, index, layers):
    found = model.embed_tokens(list(index.sentences))
    return np.concatenate([embedded.vectors(layers) for embedded in found])


@pytest.mark.parametrize("layers", ["top", "average", 0])
def test_rows_are_the_words_of_the_text_in_its_order(model, index, layers):
    chosen = choose(index, layers, (), 1000)
    assert [o.word for o in chosen.occurrences] == [t for s in index.sentences for t in s]
    expected = expected_vectors(model, index, layers)
    np.testing.assert_allclose(chosen.vectors, expected, atol=5e-3)  # stored as float16


def test_words_are_chosen_by_name_and_by_number(index):
    chosen = choose(index, "top", ["BOW", "the"], 1000)
    assert {o.word for o in chosen.occurrences} == {"bow", "the", "The"}
    assert [o.word for o in chosen.occurrences].count("bow") == index.count("bow")
    some = choose(index, "top", (), 7)
    assert len(some.occurrences) == 7
    tokens = [token for sentence in index.sentences for token in sentence]
    assert (some.occurrences[0].word, some.occurrences[-1].word) == (tokens[0], tokens[-1])


@pytest.mark.parametrize(
    ("words", "max_rows", "told"),
    [
        (["absent"], 100, "0 occurrences of these words, expected at least 5"),
        ((), 4, "at most 4 rows, expected at least 5"),
    ],
)
def test_too_few_words_are_reported_and_leave_nothing(index, tmp_path, words, max_rows, told):
    for write, name in ((write_map, "map.parquet"), (write_projector, "log")):
        with pytest.raises((ConfigError, DataError), match=told):
            write(index, tmp_path / name, words=words, max_rows=max_rows)
    assert list(tmp_path.iterdir()) == []


def test_a_map_has_places_and_nearest_rows(index, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    n_rows = write_map(index, tmp_path / "map.parquet", max_rows=40)
    rows = parquet.read_table(tmp_path / "map.parquet").to_pylist()
    assert n_rows == len(rows) == 40
    assert list(rows[0]) == ["word", "sentence", "position", "x", "y", "neighbors"]
    assert rows[0]["sentence"].split()[rows[0]["position"]] == f"*{rows[0]['word']}*"
    assert np.isfinite([[row["x"], row["y"]] for row in rows]).all()
    vectors = choose(index, "top", (), 40).vectors
    vectors /= np.linalg.norm(vectors, axis=1, keepdims=True)
    distances = np.sort(1 - vectors @ vectors.T, axis=1)[:, :15]
    found = np.array([row["neighbors"]["distances"] for row in rows])
    np.testing.assert_allclose(found, distances, atol=1e-4)
    assert [row["neighbors"]["ids"][0] for row in rows] == list(range(40))


def test_a_row_is_its_own_first_neighbor_where_sentences_repeat(model, tmp_path):
    parquet = pytest.importorskip("pyarrow.parquet")
    repeated = temporary_index(model, [["a", "bow"], ["the", "ship"]] * 20)
    write_map(repeated, tmp_path / "map.parquet")
    rows = parquet.read_table(tmp_path / "map.parquet")["neighbors"].to_pylist()
    assert [row["ids"][0] for row in rows] == list(range(80))
    assert all(len(set(row["ids"])) == 15 for row in rows)
    np.testing.assert_allclose([row["distances"] for row in rows], 0, atol=1e-5)


def test_a_folder_for_the_projector_is_what_tensorboard_reads(index, tmp_path):
    n_rows = write_projector(index, tmp_path / "log", layers="average")
    vectors = np.loadtxt(tmp_path / "log" / "vectors.tsv", delimiter="\t")
    np.testing.assert_allclose(vectors, choose(index, "average", (), 1000).vectors, rtol=1e-4)
    lines = (tmp_path / "log" / "metadata.tsv").read_text(encoding="utf-8").splitlines()
    assert lines[0].split("\t") == ["word", "sentence", "position"]
    assert n_rows == len(lines) - 1 == len(vectors)
    write_projector(index, tmp_path / "log", words=["bow", "the"])  # replaces it
    assert len((tmp_path / "log" / "metadata.tsv").read_text().splitlines()) < len(lines)
    pb2 = pytest.importorskip("tensorboard.plugins.projector.projector_config_pb2")
    from google.protobuf import text_format

    config = text_format.Parse(
        (tmp_path / "log" / "projector_config.pbtxt").read_text(), pb2.ProjectorConfig()
    )
    [embedding] = config.embeddings
    assert (embedding.tensor_path, embedding.metadata_path) == ("vectors.tsv", "metadata.tsv")


def test_what_is_there_is_not_overwritten_by_a_folder(index, tmp_path):
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "notes.txt").write_text("keep")
    with pytest.raises(DataError, match=r"contains 'notes\.txt'; expected a new folder"):
        write_projector(index, tmp_path / "mine")
    assert (tmp_path / "mine" / "notes.txt").read_text() == "keep"
    (tmp_path / "file").write_text("keep")
    with pytest.raises(DataError, match="is a file; expected a new folder"):
        write_projector(index, tmp_path / "file")
    with pytest.raises(WriteError):
        write_map(index, tmp_path / "absent" / "map.parquet")


def test_a_log_folder_of_tensorboard_is_left_as_it_is(index, tmp_path):
    names = ["events.out.tfevents.1", "projector_config.pbtxt"]
    for name in names:
        (tmp_path / name).write_text("a training run")
    with pytest.raises(DataError, match=r"contains 'events\.out\.tfevents\.1'"):
        write_projector(index, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == names


def test_a_folder_for_the_projector_may_be_empty(index, tmp_path):
    assert write_projector(index, tmp_path) == len(index)


def test_tabs_and_line_ends_in_tokens_do_not_break_a_table(model, tmp_path):
    odd = temporary_index(model, [["a\tb", "c\nd", "e", "f", "g"]])
    write_projector(odd, tmp_path / "log")
    lines = (tmp_path / "log" / "metadata.tsv").read_text().splitlines()
    assert [line.count("\t") for line in lines] == [2] * 6
