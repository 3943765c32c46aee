"""Options of released models: unusual values, unknown keys, and missing ones."""

import json
import shutil
from pathlib import Path

import numpy as np
import pytest
import torch

from elmo.api import Elmo
from elmo.errors import ElmoError
from elmo.models import formats
from elmo.models.formats import many_langs
from tests.models.formats.many_langs_models import write_model
from tests.models.formats.test_formats import assert_same_datasets
from tests.random_models import build_bilm, random_weights, write_files

TRAINED = Path(__file__).parent / "bilm-training"


def test_null_characters_mean_a_model_of_words(tmp_path):
    folder = shutil.copytree(TRAINED / "words", tmp_path / "words")
    options = json.loads((folder / "options.json").read_text())
    before = formats.read(folder / "weights.hdf5").bilm
    (folder / "options.json").write_text(json.dumps({**options, "char_cnn": None}))
    assert formats.read(folder / "weights.hdf5").bilm.config == before.config


@pytest.mark.parametrize(
    ("group", "key", "told"),
    [
        ("lstm", "projecton_dim", "unknown key 'projecton_dim' is ignored .did you mean 'proj"),
        ("char_cnn", "zzz", "unknown key 'zzz' is ignored .expected filters"),
    ],
)
def test_unknown_keys_are_reported_and_ignored(
    tmp_path, tiny_options, tiny_weights, group, key, told
):
    tiny_options[group][key] = 8
    path = write_files(tmp_path / "model", tiny_options, tiny_weights)
    with pytest.warns(UserWarning, match=told):
        assert formats.read(path).bilm.config.lstm.dim == 16


@pytest.mark.parametrize("n_layers", [1, 4, 8])
def test_any_number_of_layers_is_read_and_written(tmp_path, tiny_options, n_layers):
    tiny_options["lstm"]["n_layers"] = n_layers
    weights = random_weights(tiny_options)
    model = formats.read(write_files(tmp_path / "model", tiny_options, weights))
    assert model.bilm.config.lstm.n_layers == n_layers
    formats.write(tmp_path / "back.hdf5", model)
    assert_same_datasets(tmp_path / "back.hdf5", weights)


def test_cells_as_wide_as_their_output_have_no_projection(tmp_path, tiny_options, corpus):
    """TensorFlow's cell then has no projection, and does not clip its output."""
    tiny_options["lstm"] |= {"dim": 8, "projection_dim": 8, "proj_clip": 0.1}
    weights = random_weights(tiny_options)
    bare = {path: values for path, values in weights.items() if not path.endswith("W_P_0")}
    model = formats.read(write_files(tmp_path / "bare", tiny_options, bare))
    identity = {
        p: np.eye(8, dtype=np.float32) if p.endswith("W_P_0") else v for p, v in weights.items()
    }
    tiny_options["lstm"]["proj_clip"] = None
    expected = build_bilm(tiny_options, identity)
    assert model.bilm.config == expected.config
    for name, tensor in expected.state_dict().items():
        assert torch.equal(model.bilm.state_dict()[name], tensor), name
    formats.write(tmp_path / "back.hdf5", model)
    assert_same_datasets(tmp_path / "back.hdf5", bare)
    tiny_options["lstm"]["dim"] = 16
    wide = {k: v for k, v in random_weights(tiny_options).items() if not k.endswith("W_P_0")}
    path = write_files(tmp_path / "wide", tiny_options, wide)
    with pytest.raises(ElmoError, match="W_P_0 is missing"):
        formats.read(path)


def test_options_by_their_other_name_are_found(official):
    official.with_name("options.json").rename(official.with_name("options262.json"))
    assert formats.find(official).options.name == "options262.json"


def test_of_an_hdf5_and_a_checkpoint_the_hdf5_is_read_and_that_is_reported():
    source = formats.find(TRAINED / "characters")
    assert source.kind == "official"
    with pytest.warns(UserWarning, match=r"weights\.hdf5 is read; the checkpoint model\.ckpt-4"):
        formats.read(TRAINED / "characters")


def test_many_langs_sizes_may_be_in_its_config_itself(tmp_path):
    folder = write_model(tmp_path / "theirs")
    before = Elmo.load(folder).bilm.state_dict()
    sizes = json.loads((folder / "tiny.json").read_text())
    (folder / "tiny.json").unlink()
    config = {"config_path": "/home/them/tiny.json", **sizes}
    (folder / "config.json").write_text(json.dumps(config))
    after = Elmo.load(folder).bilm.state_dict()
    assert all(torch.equal(after[name], tensor) for name, tensor in before.items())


@pytest.mark.parametrize("name", many_langs.INSIDE_THEIR_PACKAGE)
@pytest.mark.parametrize("path", ["configs/{}", "/users4/them/configs/{}", "C:\\them\\{}", "{}"])
def test_many_langs_config_is_known_by_its_name_however_it_is_written(tmp_path, name, path):
    (tmp_path / "config.json").write_text(json.dumps({"config_path": path.format(name)}))
    groups, _ = many_langs._read_configuration(tmp_path, None)
    assert groups["encoder"]["dim"] == 4096
