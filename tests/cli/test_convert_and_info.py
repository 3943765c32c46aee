import hashlib
import json

import h5py
import numpy as np
import pytest
import torch

from elmo import Elmo
from elmo.network import kernels


def datasets(path):
    found = {}
    with h5py.File(path) as file:
        file.visititems(
            lambda name, item: (
                found.update({name: item[...]}) if isinstance(item, h5py.Dataset) else None
            )
        )
    return found


def test_official_weights_come_back_bit_for_bit(run, official, tmp_path):
    assert run("convert", official, tmp_path / "ours").code == 0
    assert run("convert", tmp_path / "ours", tmp_path / "back.hdf5").code == 0
    before, after = datasets(official), datasets(tmp_path / "back.hdf5")
    assert before.keys() == after.keys()
    for name, array in before.items():
        np.testing.assert_array_equal(array, after[name])
    assert json.loads((tmp_path / "options.json").read_text())["lstm"]["projection_dim"] == 8


def test_a_folder_in_half_the_room_has_nearly_the_same_vectors(run, refused, official, tmp_path):
    assert run("convert", official, tmp_path / "whole").code == 0
    assert run("convert", official, tmp_path / "half", "--half").code == 0
    sizes = [(tmp_path / n / "model.safetensors").stat().st_size for n in ("whole", "half")]
    assert sizes[1] < 0.6 * sizes[0]
    whole, half = (Elmo.load(tmp_path / n).embed("I took a bow.") for n in ("whole", "half"))
    np.testing.assert_allclose(half.layers, whole.layers, atol=0.01)
    assert "--half is for a model folder" in refused(
        "convert", official, tmp_path / "half.hdf5", "--half"
    )


def test_a_folder_whose_name_has_a_version_is_no_file(run, official, tmp_path):
    assert run("convert", official, tmp_path / "model-0.5", "--half").code == 0
    assert (tmp_path / "model-0.5" / "model.safetensors").is_file()


def test_a_model_that_is_absent_is_refused_and_nothing_is_written(refused, tmp_path):
    assert "absent" in refused("convert", tmp_path / "absent", tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_folder_of_other_things_is_not_replaced(refused, official, tmp_path):
    (tmp_path / "holiday").mkdir()
    (tmp_path / "holiday" / "photo.jpg").write_text("me")
    refused("convert", official, tmp_path / "holiday")
    assert [path.name for path in (tmp_path / "holiday").iterdir()] == ["photo.jpg"]


def test_a_place_that_cannot_be_written_is_refused(refused, official, tmp_path):
    (tmp_path / "file").write_text("")
    refused("convert", official, tmp_path / "file" / "model")
    refused("convert", official, tmp_path / "file" / "weights.hdf5")
    refused("convert", official, tmp_path / "absent" / "weights.hdf5")


def test_info_as_json_describes_a_model(run, official, bilm):
    told = json.loads(run("info", official, "--json").out)
    assert told["kind"] == "official"
    assert told["sha256"] == hashlib.sha256(official.read_bytes()).hexdigest()
    assert told["n_parameters"] == bilm.n_parameters
    assert (told["n_layers"], told["output_dim"]) == (3, 16)
    assert told["lstm.dim"] == 16
    assert told["kernels"] == kernels.describe()


def test_info_prints_one_fact_per_line(run, official, tmp_path):
    run("convert", official, tmp_path / "ours")
    lines = run("info", tmp_path / "ours").out.splitlines()
    told = dict(line.split(maxsplit=1) for line in lines)
    assert told["kind"] == "folder"
    assert told["lstm.has_skip_connections"] == "True"
    assert told["n_output_words"] == "none"


def test_info_refuses_what_is_no_model(refused, tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    assert "notes.txt" in refused("info", tmp_path / "notes.txt")
    assert str(tmp_path) in refused("info", tmp_path)
    (tmp_path / "weights.hdf5").write_bytes(b"no hdf5")
    (tmp_path / "options.json").write_text("{}")
    refused("info", tmp_path / "weights.hdf5")


def test_alignment_matrices_are_read_and_kept(run, refused, official, tmp_path):
    text, file = tmp_path / "text.txt", tmp_path / "best_mapping.pth"
    text.write_text("I took a bow.\n")
    torch.save(torch.eye(16) * 2, file)
    option = ("--alignment", f"1={file}")
    assert run("convert", official, tmp_path / "model", *option).code == 0
    assert run("embed", text, "-o", tmp_path / "a.npz", "-m", official, *option).code == 0
    assert run("embed", text, "-o", tmp_path / "b.npz", "-m", tmp_path / "model").code == 0
    expected = Elmo.load(official).embed("I took a bow.").vectors([1 / 3, 2 / 3, 1 / 3])
    for name in ("a.npz", "b.npz"):
        np.testing.assert_allclose(np.load(tmp_path / name)["0"], expected, atol=1e-5)
    told = refused("convert", official, tmp_path / "weights.hdf5", *option)
    assert "(official format): alignment matrices are not supported, but layer 1 has one" in told


@pytest.mark.parametrize("wrong", ["best_mapping.pth", "x=best_mapping.pth", "1="])
def test_a_wrong_alignment_option_is_reported(refused, official, tmp_path, wrong):
    told = refused("convert", official, tmp_path / "model", "--alignment", wrong)
    assert "expected LAYER=FILE" in told


def test_a_softmax_is_written_beside_official_weights_and_read_again(run, scoring_model, tmp_path):
    out = tmp_path / "out"
    out.mkdir()
    assert run("convert", scoring_model, out / "weights.hdf5").code == 0
    names = ["options.json", "softmax.hdf5", "vocab.txt", "weights.hdf5"]
    assert sorted(path.name for path in out.iterdir()) == names
    (tmp_path / "text.txt").write_text("I took a bow .\n")
    ask = "score", tmp_path / "text.txt", "--lines", "tokens", "-m"
    beside = "--softmax", out / "softmax.hdf5", "--vocabulary", out / "vocab.txt"
    assert run(*ask, out / "weights.hdf5", *beside).out == run(*ask, scoring_model).out


def test_a_readme_alone_is_not_replaced_by_a_model(refused, official, tmp_path):
    (tmp_path / "notes").mkdir()
    (tmp_path / "notes" / "README.md").write_text("mine")
    assert "contains 'README.md'" in refused("convert", official, tmp_path / "notes")
    assert (tmp_path / "notes" / "README.md").read_text() == "mine"
