"""Checkpoints of bilm's trainer: bit for bit what its own dump writes, and its softmax."""

import json
import shutil
from dataclasses import replace
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch

from elmo.api import Elmo
from elmo.cli.main import main
from elmo.errors import CheckpointError, ConfigError, ElmoError
from elmo.models import formats
from elmo.models.formats import bilm_hdf5
from elmo.models.formats.tensor_bundle import TensorBundle
from tests.models.formats.many_langs_models import write_model

TRAINED = Path(__file__).parent / "bilm-training"
KINDS = ["characters", "words", "forward"]
SENTENCES = [["the", "violinist", "took", "a", "bow"], ["unseen", "<S>"], []]


@pytest.fixture
def folder(tmp_path):
    shutil.copytree(TRAINED / "characters", tmp_path / "run")
    (tmp_path / "run" / "weights.hdf5").unlink()
    return tmp_path / "run"


@pytest.mark.parametrize("kind", KINDS)
def test_weights_are_those_of_bilm_s_own_dump(kind):
    folder = TRAINED / kind
    trained = formats.read(folder / "model.ckpt-4").bilm
    dumped = bilm_hdf5.read(
        folder / "weights.hdf5",
        folder / "options.json",
        folder / "vocab.txt" if kind == "words" else None,
    ).bilm
    assert trained.config == dumped.config
    expected = dumped.state_dict()
    assert trained.state_dict().keys() == expected.keys()
    for name, tensor in trained.state_dict().items():
        assert torch.equal(tensor, expected[name]), name


@pytest.mark.parametrize("kind", KINDS)
def test_every_kind_embeds_predicts_and_survives_our_folder(kind, tmp_path):
    elmo = Elmo.load(TRAINED / kind / "model.ckpt-4")
    elmo.save(tmp_path / "ours")
    saved = Elmo.load(tmp_path / "ours")
    for one, other in zip(elmo.embed_tokens(SENTENCES), saved.embed_tokens(SENTENCES), strict=True):
        assert np.isfinite(one.layers).all()
        np.testing.assert_array_equal(one.layers, other.layers)
    texts = [words for words in SENTENCES if words]
    one, other = (model.score_tokens(texts)[0].perplexity("forward") for model in (elmo, saved))
    assert one == other


def test_the_softmax_has_the_numbers_of_the_checkpoint():
    model = formats.read(TRAINED / "characters" / "model.ckpt-4")
    bundle = TensorBundle(TRAINED / "characters" / "model.ckpt-4")
    np.testing.assert_array_equal(model.head.weight.detach(), bundle.read("lm/softmax/W"))
    np.testing.assert_array_equal(model.head.bias.detach(), bundle.read("lm/softmax/b"))
    assert model.vocabulary.words[:4] == ("<S>", "</S>", "<UNK>", ".")


def test_words_outside_the_list_are_one_unknown_word():
    elmo = Elmo.load(TRAINED / "words" / "model.ckpt-4")
    vectors = elmo.embed_tokens([["strings", "nowhere", "bow", "</S>"]])[0].layers[0]
    np.testing.assert_array_equal(vectors[0], vectors[1])
    np.testing.assert_array_equal(vectors[0], vectors[3])
    assert not np.allclose(vectors[0], vectors[2])


@pytest.mark.parametrize("kind", KINDS)
def test_there_and_back_through_the_official_layout(kind, tmp_path):
    model = formats.read(TRAINED / kind / "model.ckpt-4")
    formats.write(tmp_path / "weights.hdf5", model)
    again = formats.read(tmp_path / "weights.hdf5")
    assert again.bilm.config == model.bilm.config
    for name, tensor in again.bilm.state_dict().items():
        assert torch.equal(tensor, model.bilm.state_dict()[name]), name


@pytest.mark.parametrize(
    "name", ["", "model.ckpt-4", "model.ckpt-4.index", "model.ckpt-4.data-00000-of-00001"]
)
def test_a_checkpoint_is_found_by_its_folder_its_prefix_or_a_file(folder, name):
    source = formats.find(folder / name)
    assert source.kind == "tf-checkpoint"
    assert source.weights.name == "model.ckpt-4.data-00000-of-00001"
    assert source.vocabulary == folder / "vocab.txt"
    assert Elmo.load(folder / name).model.vocabulary is not None


def test_the_last_checkpoint_is_taken_whatever_the_path_of_the_machine_that_wrote_it(folder):
    (folder / "checkpoint").write_text('model_checkpoint_path: "/home/them/run/model.ckpt-4"\n')
    for ending in ("index", "data-00000-of-00001"):
        shutil.copy(folder / f"model.ckpt-4.{ending}", folder / f"model.ckpt-2.{ending}")
    assert formats.find(folder).weights.name.startswith("model.ckpt-4")
    (folder / "checkpoint").unlink()
    with pytest.raises(CheckpointError, match="2 checkpoints and no file 'checkpoint'"):
        Elmo.load(folder)


def test_without_a_vocabulary_the_softmax_is_left_out_and_that_is_reported(folder, tmp_path):
    (folder / "vocab.txt").rename(tmp_path / "words.txt")
    with pytest.warns(UserWarning, match="its softmax is not read"):
        assert Elmo.load(folder).model.head is None
    assert Elmo.load(folder, vocabulary=tmp_path / "words.txt").model.head is not None


def test_a_model_of_words_needs_its_vocabulary(tmp_path):
    shutil.copytree(TRAINED / "words", tmp_path / "run")
    (tmp_path / "run" / "vocab.txt").unlink()
    with pytest.raises(ConfigError, match="expected a vocabulary"):
        Elmo.load(tmp_path / "run" / "model.ckpt-4")
    with pytest.raises(ConfigError, match="expected a vocabulary"):
        Elmo.load(tmp_path / "run" / "weights.hdf5")


def test_a_vocabulary_that_has_no_use_is_refused(official, folder):
    with pytest.raises(ConfigError, match="this format has no separate vocabulary file"):
        Elmo.load(official, vocabulary=folder / "vocab.txt")


def test_a_variable_of_another_type_is_reported(folder):
    bundle = TensorBundle(folder / "model.ckpt-4")
    name, entry = next(iter(bundle.entries.items()))
    bundle.entries[name] = replace(entry, dtype=99)
    with pytest.raises(CheckpointError, match="type number 99, expected float16"):
        bundle.read(name)
    bundle.entries[name] = replace(entry, n_bytes=entry.n_bytes + 4)
    with pytest.raises(CheckpointError, match="but the index gives it"):
        bundle.read(name)


def _cut(name, n_bytes):
    def harm(folder):
        content = (folder / name).read_bytes()
        (folder / name).write_bytes(content[:n_bytes])

    return harm


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (_cut("model.ckpt-4.index", 100), "not a complete index of a TensorFlow checkpoint"),
        (_cut("model.ckpt-4.index", 0), "not a complete index of a TensorFlow checkpoint"),
        (_cut("model.ckpt-4.data-00000-of-00001", 2000), "copy the checkpoint again"),
        (lambda f: (f / "model.ckpt-4.data-00000-of-00001").unlink(), "copy the checkpoint again"),
        (lambda f: (f / "options.json").unlink(), "no options.json beside it"),
        (
            lambda f: (f / "vocab.txt").write_text("<S>\n</S>\n<UNK>\n"),
            "softmax/W: 20 rows, expected 3",
        ),
        (
            lambda f: (f / "options.json").write_text(
                (f / "options.json").read_text().replace('"dim": 8', '"dim": 9')
            ),
            r"W_0 has shape \(8, 32\), expected \(8, 36\)",
        ),
    ],
)
def test_a_broken_checkpoint_is_reported_in_one_line(folder, harm, message):
    harm(folder)
    with pytest.raises(ElmoError, match=message) as told:
        Elmo.load(folder / "model.ckpt-4")
    assert "\n" not in str(told.value)


def test_info_and_convert_take_every_format(folder, tmp_path, capsys):
    cache = tmp_path / "tokens.hdf5"
    with h5py.File(cache, "w") as file:
        file["embedding"] = np.zeros((20, 4), np.float32)
    (folder / "vocab.txt").rename(tmp_path / "words.txt")
    theirs = write_model(tmp_path / "theirs")
    for path, kind in [(folder, "tf-checkpoint"), (theirs, "many-langs"), (cache, "token-cache")]:
        words = [] if path == theirs else ["--vocabulary", str(tmp_path / "words.txt")]
        run("info", str(path), "--json", *words)
        assert json.loads(capsys.readouterr().out)["kind"] == kind
        run("convert", str(path), str(tmp_path / kind), *words)
        assert Elmo.load(tmp_path / kind).embed_tokens([["bow"]])[0].layers.shape[1] == 1
        capsys.readouterr()


def run(*arguments):
    with pytest.raises(SystemExit) as left:
        main(arguments)
    assert not left.value.code
