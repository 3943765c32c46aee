"""TF-Hub modules: the official network under other names, sizes from shapes, a learned mix."""

import json

import numpy as np
import pytest

from elmo.api import Elmo
from elmo.cli.main import main
from elmo.errors import CheckpointError
from elmo.models import formats
from tests.models.formats.released_layouts import write_tf_hub
from tests.random_models import random_weights


@pytest.mark.parametrize("names", ["google", "deeppavlov"])
@pytest.mark.parametrize("n_layers", [1, 2, 4, 8])
def test_a_module_is_the_official_network(tmp_path, tiny_options, names, n_layers):
    from tests.random_models import build_bilm

    tiny_options["lstm"]["n_layers"] = n_layers
    weights = random_weights(tiny_options, seed=n_layers)
    mix = np.linspace(-1, 1, n_layers + 1).astype(np.float32)
    folder = write_tf_hub(tmp_path / "module", weights, mix=mix, names=names)
    model = formats.read(folder)
    expected = build_bilm(tiny_options, weights)
    assert model.bilm.config == expected.config
    for name, tensor in expected.state_dict().items():
        assert (model.bilm.state_dict()[name] == tensor).all(), name
    [found] = model.mixes
    assert (found.name, found.gamma) == ("aggregation", 1.5)
    np.testing.assert_array_equal(found.weights, mix)


def test_its_learned_sum_gives_the_module_s_vectors_and_survives_our_folder(
    tmp_path, tiny_weights, corpus
):
    elmo = Elmo.load(write_tf_hub(tmp_path / "module", tiny_weights, mix=(0.5, -1, 2), gamma=3.0))
    elmo.save(tmp_path / "ours")
    again = Elmo.load(tmp_path / "ours")
    assert again.mixes.keys() == {"aggregation"}
    embedded = again.embed_tokens([corpus[0]])[0]
    shares = np.exp([0.5, -1, 2]) / np.exp([0.5, -1, 2]).sum()
    expected = 3.0 * np.tensordot(shares, embedded.layers, axes=1)
    mix = again.mixes["aggregation"]
    np.testing.assert_allclose(embedded.vectors(mix.layers), expected, atol=1e-5)


@pytest.mark.parametrize("name", ["", "variables", "variables/variables.index"])
def test_a_module_is_found_by_its_folder_or_its_variables(tmp_path, tiny_weights, name):
    folder = write_tf_hub(tmp_path / "module", tiny_weights)
    assert formats.find(folder / name).kind == "tf-hub"
    assert formats.read(folder / name).bilm.config.lstm.dim == 16


def test_options_are_used_where_they_are_given(tmp_path, tiny_options, tiny_weights):
    folder = write_tf_hub(tmp_path / "module", tiny_weights)
    tiny_options["lstm"] |= {"cell_clip": None, "use_skip_connections": False}
    (tmp_path / "options.json").write_text(json.dumps(tiny_options))
    lstm = formats.read(folder, tmp_path / "options.json").bilm.config.lstm
    assert (lstm.cell_clip, lstm.has_skip_connections) == (None, False)


def test_info_says_what_was_assumed(tmp_path, tiny_weights, capsys):
    folder = write_tf_hub(tmp_path / "module", tiny_weights)
    with pytest.raises(SystemExit) as left:
        main(["info", str(folder), "--json"])
    assert not left.value.code
    found = json.loads(capsys.readouterr().out)
    assert found["kind"] == "tf-hub"
    assert found["lstm.cell_clip"] == 3.0
    assert "clips of 3, skip connections" in found["note"]
    assert found["mixes"] == ["aggregation"]


def test_a_module_of_something_else_is_reported(tmp_path, tiny_weights):
    weights = {path: values for path, values in tiny_weights.items() if "CNN" in path}
    folder = write_tf_hub(tmp_path / "module", weights)
    with pytest.raises(CheckpointError, match="expected those of an ELMo model"):
        formats.read(folder)
