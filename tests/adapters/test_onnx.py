"""The exported graph returns the same layers in onnxruntime, for batches of any size."""

import json

import numpy as np
import pytest

pytest.importorskip("onnx", reason="needs onnx: pip install 'elmo-torch[onnx]'")
pytest.importorskip("onnxruntime", reason="needs onnxruntime: pip install 'elmo-torch[onnx]'")

import onnx
import onnxruntime
from hypothesis import given, settings
from hypothesis import strategies as st

from elmo.adapters.onnx import encode, export_onnx
from elmo.api import Elmo
from elmo.cli.main import main
from elmo.errors import DataError
from elmo.models.model_folder import Model
from tests.models.formats.many_langs_models import write_model
from tests.random_models import build_bilm, options, random_weights

BATCHES = [
    [["I", "took", "a", "bow", "."]],
    [["bow"], [], ["naïve", "東京", "🙂"], ["They", "stood", "at", "the", "bow", "of", "it"]],
    [[]],
]


def run(path, elmo, sentences):
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    (layers,) = session.run(None, encode(elmo, sentences))
    return layers


def check(elmo, path, batches=BATCHES):
    export_onnx(elmo, path)
    for sentences in batches:
        layers = run(path, elmo, sentences)
        assert layers.shape[:2] == (elmo.n_layers, len(sentences))
        for k, embedded in enumerate(elmo.embed_tokens(sentences)):
            n_tokens = len(embedded.tokens)
            np.testing.assert_allclose(layers[:, k, :n_tokens], embedded.layers, atol=1e-4)
            assert not layers[:, k, n_tokens:].any()


def test_layers_are_those_of_elmo_for_any_batch(elmo, tmp_path):
    check(elmo, tmp_path / "elmo.onnx")


@pytest.mark.filterwarnings("ignore:.*words are longer")
@settings(max_examples=8)
@given(drawn=options(), seed=st.integers(0, 2**32 - 1))
def test_every_kind_of_network_is_exported(tmp_path_factory, drawn, seed):
    elmo = Elmo(Model(build_bilm(drawn, random_weights(drawn, seed))))
    check(elmo, tmp_path_factory.mktemp("onnx") / "elmo.onnx")


@pytest.mark.parametrize("kinds", [{}, {"char_dim": 0}, {"word_dim": 0, "n_layers": 1}])
def test_models_with_lists_of_their_own_are_exported(tmp_path, kinds):
    check(Elmo.load(write_model(tmp_path / "theirs", **kinds)), tmp_path / "elmo.onnx")


def test_the_file_says_what_it_takes_and_what_it_is(elmo, tmp_path):
    export_onnx(elmo, tmp_path / "elmo.onnx")
    model = onnx.load(tmp_path / "elmo.onnx")
    onnx.checker.check_model(model, full_check=True)
    shapes = {
        value.name: [d.dim_param or d.dim_value for d in value.type.tensor_type.shape.dim]
        for value in model.graph.input
    }
    assert shapes == {"words": ["U", "C"], "places": ["B", "T"], "lengths": ["B"]}
    (kept,) = model.metadata_props
    assert json.loads(kept.value)["lstm"]["dim"] == elmo.bilm.config.lstm.dim


def test_the_verb_convert_writes_it(elmo, official, tmp_path):
    with pytest.raises(SystemExit) as left:
        main(["convert", str(official), str(tmp_path / "elmo.onnx")])
    assert not left.value.code
    layers = run(tmp_path / "elmo.onnx", elmo, [["bow"]])
    np.testing.assert_allclose(layers[:, 0], elmo.embed_tokens([["bow"]])[0].layers, atol=1e-4)


def test_a_text_is_not_taken_for_its_characters(elmo):
    with pytest.raises(DataError, match="expected a list of tokens"):
        encode(elmo, ["I took"])
