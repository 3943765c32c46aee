"""Alignment matrices: applied to their layer alone; files are read as numbers alone."""

import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from elmo.api import Elmo
from elmo.errors import CheckpointError, ConfigError


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


def test_wrong_matrices_are_told(official, tmp_path, matrix, monkeypatch):
    monkeypatch.chdir(tmp_path)
    path = tmp_path / "best_mapping.pth"
    for content, told in [(matrix[:3], r"shape \(3, 16\)"), (matrix * np.nan, "of numbers")]:
        torch.save(content, path)
        with pytest.raises(CheckpointError, match=told):
            Elmo.load(official, alignment={1: path})
    torch.save(matrix, path)
    with pytest.raises(ConfigError, match="alignment of layer 3, expected 0 to 2"):
        Elmo.load(official, alignment={3: path})
    path.write_bytes(pickle.dumps(Hostile(), protocol=2))
    with pytest.raises(CheckpointError, match="cannot be read as a matrix alone"):
        Elmo.load(official, alignment={1: path})
    assert not Path("hostile-was-here").exists()


def test_what_cannot_be_aligned_says_so(official, tmp_path, matrix):
    torch.save(matrix, tmp_path / "best_mapping.pth")
    elmo = Elmo.load(official, alignment={2: tmp_path / "best_mapping.pth"})
    with pytest.raises(ConfigError, match="layer of an aligned model"):
        elmo.layer()
    with pytest.raises(ConfigError, match="embed_into of an aligned model"):
        elmo.embed_into(["a"], np.zeros((1, 16), np.float32))
