"""AllenNLP's models: the biLM inside them and its learned mixes; code in their files is not run."""

import json
import pickle
from pathlib import Path

import numpy as np
import pytest
import torch

from elmo.api import Elmo
from elmo.errors import CheckpointError, ElmoError
from elmo.models import formats
from tests.models.formats.released_layouts import allennlp_state, pack, write_allennlp
from tests.random_models import build_bilm, random_weights

MIXES = (((0.5, -0.25, 1.0), 1.5), ((0.0, 2.0, 0.0), 0.5))


@pytest.mark.parametrize("n_layers", [1, 2, 4])
def test_the_network_is_the_official_one(tmp_path, tiny_options, n_layers, corpus):
    tiny_options["lstm"]["n_layers"] = n_layers
    weights = random_weights(tiny_options, seed=n_layers)
    mixes = ((tuple(range(n_layers + 1)), 1.5),)
    folder = write_allennlp(tmp_path / "theirs", weights, mixes=mixes)
    model, expected = formats.read(folder), build_bilm(tiny_options, weights)
    assert model.bilm.config == expected.config
    for name, tensor in expected.state_dict().items():
        # The forget bias was added and subtracted, which rounds.
        torch.testing.assert_close(model.bilm.state_dict()[name], tensor, atol=1e-6, rtol=0)


def test_learned_sums_come_back_by_name(tmp_path, tiny_weights, corpus):
    elmo = Elmo.load(write_allennlp(tmp_path / "theirs", tiny_weights, mixes=MIXES))
    assert list(elmo.mixes) == ["scalar_mix_0", "scalar_mix_1"]
    mix = elmo.mixes["scalar_mix_1"]
    shares = np.exp([0, 2, 0]) / np.exp([0, 2, 0]).sum()
    np.testing.assert_allclose(mix.layers, 0.5 * shares, atol=1e-6)
    layer = elmo.layer(initial_weights=mix.weights, initial_gamma=mix.gamma, dropout=0.0)
    embedded = elmo.embed_tokens([corpus[0]])[0]
    np.testing.assert_allclose(
        layer([corpus[0]]).mixes[0][0].detach(), embedded.vectors(mix.layers), atol=1e-5
    )


@pytest.mark.parametrize("around", ["", "_elmo.", "model.text_field_embedder.x._elmo."])
def test_whatever_is_around_the_bilm(tmp_path, tiny_weights, around):
    folder = write_allennlp(tmp_path / "theirs", tiny_weights, around=around)
    model = formats.read(folder / "weights.th")
    assert formats.find(folder / "weights.th").kind == "allennlp"
    assert [mix.name for mix in model.mixes] == ["scalar_mix_0"]


def test_a_state_of_the_bilm_alone_is_read(tmp_path, tiny_weights):
    state = allennlp_state(tiny_weights)
    torch.save({k.removeprefix("_elmo_lstm."): v for k, v in state.items()}, tmp_path / "elmo.pt")
    assert formats.read(tmp_path / "elmo.pt").bilm.config.lstm.dim == 16


@pytest.mark.parametrize("part", ["state_linearity.bias", "_highways._layers.0.bias"])
@pytest.mark.parametrize("shape", [(), (1,), (3,)])
def test_a_tensor_of_a_wrong_shape_is_reported_by_its_file(tmp_path, tiny_weights, part, shape):
    state = allennlp_state(tiny_weights)
    (name, *_) = (name for name in state if name.endswith(part))
    torch.save({**state, name: torch.zeros(shape)}, tmp_path / "weights.th")
    with pytest.raises(CheckpointError, match=r"weights\.th: .*expected"):
        formats.read(tmp_path / "weights.th")


def test_options_of_the_archive_are_used(tmp_path, tiny_options, tiny_weights):
    folder = write_allennlp(tmp_path / "theirs", tiny_weights)
    tiny_options["lstm"] |= {"cell_clip": 5, "proj_clip": 4}
    name = "model.text_field_embedder.token_embedders.elmo.options_file"
    (folder / "fta").mkdir()
    (folder / "fta" / name).write_text(json.dumps(tiny_options))
    path = pack(folder, tmp_path / "model.tar.gz")
    assert formats.read(path).bilm.config.lstm.cell_clip == 5.0
    assert formats.find(path).note is None
    assert "without options" in formats.find(folder).note


def test_old_files_of_torch_are_read(tmp_path, tiny_weights):
    folder = write_allennlp(tmp_path / "theirs", tiny_weights)
    before = formats.read(folder).bilm.state_dict()
    state = torch.load(folder / "weights.th", weights_only=True)
    torch.save(state, folder / "weights.th", _use_new_zipfile_serialization=False)
    after = formats.read(folder).bilm.state_dict()
    assert all((after[name] == tensor).all() for name, tensor in before.items())


class Hostile:
    def __reduce__(self):
        return (Path("hostile-was-here").touch, ())


def test_a_pickle_that_would_run_code_is_refused_and_not_run(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("weights.th").write_bytes(pickle.dumps({"x": Hostile()}, protocol=2))
    with pytest.raises(CheckpointError, match=r"weights\.th: cannot be read with torch.load\("):
        formats.read(Path("weights.th"))
    assert not Path("hostile-was-here").exists()


def _two(state):
    return state | {f"elmo_fr.{name}": tensor for name, tensor in state.items()}


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda state: {"x": torch.ones(2)}, "no biLM, expected one"),
        (_two, "2 biLMs"),
        (
            lambda s: {k: v for k, v in s.items() if "backward_layer_1.state_linearity.b" not in k},
            "no tensor .*backward_layer_1.state_linearity.bias",
        ),
        (
            lambda s: s | {k: v[:-1] for k, v in s.items() if k.endswith("_weights")},
            r"shape \(261, 4\), expected 262 rows",
        ),
        (
            lambda s: s | {k: v.expand(9, 9, 9) for k, v in s.items() if k.endswith("mix_0.gamma")},
            "expected floats and a storage that holds all values",
        ),
        (lambda s: s | {k: v.long() for k, v in s.items() if "conv_0" in k}, "expected floats"),
        (lambda s: s | {k: v[0] for k, v in s.items() if k.endswith("conv_0.weight")}, "shapes"),
        (lambda s: s | {k: v * torch.nan for k, v in s.items() if "conv_0" in k}, "NaN or Inf"),
        (lambda s: [1, 2], "no biLM"),
    ],
)
def test_a_wrong_file_is_reported_in_one_line(tmp_path, tiny_weights, change, message):
    torch.save(change(allennlp_state(tiny_weights, MIXES)), tmp_path / "weights.th")
    with pytest.raises(ElmoError, match=message) as told:
        formats.read(tmp_path / "weights.th")
    assert "\n" not in str(told.value)


def test_a_folder_with_only_the_best_epoch_is_read(tmp_path, tiny_weights):
    folder = write_allennlp(tmp_path / "run", tiny_weights)
    (folder / "weights.th").rename(folder / "best.th")
    assert formats.find(folder).weights.name == "best.th"


def test_one_of_several_bilms_is_chosen_by_name(tmp_path, tiny_options, tiny_weights):
    other = random_weights(tiny_options, seed=7)
    state = {
        f"_text.token_embedder_{name}._elmo.{key}": tensor
        for name, weights in (("elmo", tiny_weights), ("second", other))
        for key, tensor in allennlp_state(weights).items()
    }
    folder = write_allennlp(tmp_path / "theirs", tiny_weights)
    torch.save(state, folder / "weights.th")
    archive = pack(folder, tmp_path / "model.tar.gz")
    with pytest.raises(CheckpointError, match="2 biLMs, expected one of _text"):
        formats.read(archive)
    expected = build_bilm(tiny_options, other).state_dict()["char_cnn.projection.weight"]
    for path in (archive, folder, folder / "weights.th"):
        for name in ("token_embedder_second", "_text.token_embedder_second"):
            elmo = Elmo.load(f"{path}#{name}")
            torch.testing.assert_close(elmo.bilm.char_cnn.projection.weight.data, expected)
    with pytest.raises(CheckpointError, match="no biLM 'third', expected one of"):
        Elmo.load(f"{archive}#third")


def test_a_name_after_the_path_of_another_format_is_refused(scoring_model):
    with pytest.raises(CheckpointError, match="is not AllenNLP's model"):
        Elmo.load(f"{scoring_model}#elmo")
