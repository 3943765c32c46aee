"""Alignment matrices: applied only to their layer; code in their files is not run."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file

from elmo.adapters.onnx import export_onnx
from elmo.api import Elmo
from elmo.errors import CheckpointError, ConfigError, ElmoError
from elmo.models import formats
from elmo.models.describe import describe
from elmo.models.identity import model_hash, vectors_hash
from elmo.pretraining.finetune import finetune_model
from elmo.vectors.corpus.embed import embed_corpus
from elmo.vectors.static import static_from_words


@pytest.fixture
def matrix():
    return np.random.default_rng(0).normal(size=(16, 16)).astype(np.float32)


@pytest.mark.parametrize("kind", ["numpy", "tensor", "old numpy"])
def test_the_named_layer_is_aligned_and_no_other(official, tmp_path, matrix, corpus, kind):
    path = tmp_path / "de_best_mapping.pth"
    torch.save(
        torch.from_numpy(matrix) if kind == "tensor" else matrix,
        path,
        _use_new_zipfile_serialization=kind != "old numpy",
    )
    if kind == "old numpy":
        path.write_bytes(path.read_bytes().replace(b"numpy._core.", b"numpy.core."))
    plain, aligned = Elmo.load(official), Elmo.load(official, alignment={1: path})
    for state in ("fresh", "carry"):
        before = plain.embed_tokens(corpus[:3], state=state)
        for one, other in zip(before, aligned.embed_tokens(corpus[:3], state=state), strict=True):
            np.testing.assert_array_equal(other.layers[[0, 2]], one.layers[[0, 2]])
            expected = torch.nn.functional.linear(
                torch.from_numpy(one.layers[1]), torch.from_numpy(matrix)
            )
            np.testing.assert_allclose(other.layers[1], expected, atol=1e-4)


class Hostile:
    def __reduce__(self):
        return (Path("hostile-was-here").touch, ())


def test_wrong_matrices_are_reported(official, tmp_path, matrix, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "best_mapping.pth"
    for content, told in [(matrix[:3], r"shape \(3, 16\)"), (matrix * np.nan, "NaN or Inf")]:
        torch.save(content, path)
        with pytest.raises(CheckpointError, match=told):
            Elmo.load(official, alignment={1: path})
    torch.save(matrix, path)
    with pytest.raises(ConfigError, match="alignment of layer 3, expected 0 to 2"):
        Elmo.load(official, alignment={3: path})
    path.write_bytes(pickle.dumps(Hostile(), protocol=2))
    with pytest.raises(CheckpointError, match=r"cannot be read with torch.load\("):
        Elmo.load(official, alignment={1: path})
    assert not Path("hostile-was-here").exists()


@pytest.fixture
def file(tmp_path, matrix):
    torch.save(matrix, tmp_path / "best_mapping.pth")
    return tmp_path / "best_mapping.pth"


def test_what_cannot_be_aligned_says_so(official, tmp_path, file):
    elmo = Elmo.load(official, alignment={0: file, 2: file})
    for refused in (
        elmo.layer,
        lambda: formats.write(tmp_path / "weights.hdf5", elmo.model),
        lambda: export_onnx(elmo, tmp_path / "model.onnx"),
        lambda: elmo.index(["A bow."]),
        lambda: elmo.neighbors("A *bow*."),
        lambda: static_from_words(elmo, ["bow"]),
        lambda: finetune_model(elmo.model, None, None, tmp_path / "run", None, None),
    ):
        with pytest.raises(ConfigError, match="not supported, but layer 0 has one; expected"):
            refused()
    assert {path.name for path in tmp_path.iterdir()} == {"official", file.name}


def test_an_aligned_model_comes_back_from_its_folder_and_from_a_pickle(
    official, tmp_path, file, corpus
):
    elmo = Elmo.load(official, alignment={1: file})
    elmo.save(tmp_path / "model")
    saved, copied = Elmo.load(tmp_path / "model"), pickle.loads(pickle.dumps(elmo))
    assert saved.embed_tokens(corpus[0]) == elmo.embed_tokens(corpus[0])
    assert copied.embed_tokens(corpus[0]) == elmo.embed_tokens(corpus[0])
    assert vectors_hash(saved.model) == vectors_hash(elmo.model)
    assert describe(tmp_path / "model")["alignment"] == [1]
    path = tmp_path / "model" / "model.safetensors"
    tensors = load_file(path)
    save_file(tensors | {"alignment.1": tensors["alignment.1"] * torch.nan}, path)
    with pytest.raises(CheckpointError, match=r"alignment.1 contains NaN or Inf"):
        Elmo.load(tmp_path / "model")
    tensors["alignment.7"] = tensors.pop("alignment.1")
    save_file(tensors, path)
    with pytest.raises(CheckpointError, match=r"alignment.7 has shape .*expected .* layers 0 to 2"):
        Elmo.load(tmp_path / "model")


def test_one_long_sentence_is_aligned_too(official, file, corpus):
    elmo = Elmo.load(official, alignment={1: file})
    out = np.empty((len(corpus[0]), 16), np.float32)
    elmo.embed_into(corpus[0], out, layers=1)
    np.testing.assert_allclose(out, elmo.embed_tokens(corpus[0]).vectors(1), atol=1e-5)


def test_the_hash_of_the_vectors_is_of_the_matrices_too(official, tmp_path, file, matrix):
    plain = Elmo.load(official)
    torch.save(matrix * 2, tmp_path / "other.pth")
    files = ({1: file}, {2: file}, {1: tmp_path / "other.pth"})
    hashes = [vectors_hash(Elmo.load(official, alignment=each).model) for each in files]
    assert len({*hashes, vectors_hash(plain.model)}) == 4
    assert vectors_hash(plain.model) == model_hash(plain.bilm)


def test_an_index_is_opened_with_the_alignment_that_it_was_built_with(official, tmp_path, file):
    aligned = Elmo.load(official, alignment={2: file})
    aligned.index(["I took a bow.", "He drew a bow."], tmp_path / "index")
    assert len(aligned.open_index(tmp_path / "index")) == 10
    with pytest.raises(CheckpointError, match="the index of another model"):
        Elmo.load(official).open_index(tmp_path / "index")


def test_shards_are_resumed_with_the_same_alignment_only(official, tmp_path, file):
    pytest.importorskip("pyarrow")
    (tmp_path / "corpus").mkdir()
    (tmp_path / "corpus" / "a.txt").write_text("I took a bow.\n")
    corpus, out = tmp_path / "corpus", tmp_path / "shards"
    assert embed_corpus(corpus, out, official, alignment={1: file}).n_new == 1
    assert embed_corpus(corpus, out, official, alignment={1: file}).n_new == 0
    with pytest.raises(ElmoError):
        embed_corpus(corpus, out, official)
