"""Foreign files: bit-identical round trips, archives, and errors for invalid files."""

import io
import json
import shutil
import subprocess
import sys
import zipfile

import h5py
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.errors import CheckpointError, ConfigError, ElmoError, WriteError
from elmo.models import formats, model_folder
from elmo.models.formats import bilm_hdf5, bilm_options
from elmo.models.model_folder import Model
from elmo.network.config import BiLMConfig, preset
from elmo.network.softmax import build_head
from elmo.text.vocabulary import Vocabulary
from tests.random_models import build_bilm, hdf5_bytes, options, random_weights, write_files

CELL = "RNN_0/RNN/MultiRNNCell/Cell0/LSTMCell"


def datasets_of(path):
    found = {}
    with h5py.File(path, "r") as file:
        file.visititems(
            lambda name, item: (
                found.update({name: item[()]}) if isinstance(item, h5py.Dataset) else None
            )
        )
    return found


def assert_same_datasets(path, weights):
    found = datasets_of(path)
    assert found.keys() == weights.keys()
    for name, values in weights.items():
        assert found[name].dtype == np.float32
        assert found[name].tobytes() == values.tobytes(), name


def refused(path, *, kind=CheckpointError, options=None):
    """The one-line error of opening a model."""
    with pytest.raises(kind) as caught:
        formats.read(path, options)
    message = str(caught.value)
    assert "\n" not in message
    assert "expected" in message or "did you mean" in message
    return message


@given(options(), st.integers(0, 99))
def test_official_files_come_back_from_a_folder_bit_for_bit(tmp_path_factory, drawn, seed):
    weights = random_weights(drawn, seed)
    place = tmp_path_factory.mktemp("there-and-back")
    given_path = write_files(place / "given", drawn, weights)
    model_folder.save(place / "folder", formats.read(given_path))
    (place / "back").mkdir()
    formats.write_official(place / "back" / "weights.hdf5", formats.read(place / "folder"))
    assert_same_datasets(place / "back" / "weights.hdf5", weights)
    read = bilm_options.read_options
    back = (place / "back" / "options.json").read_text()
    assert read(json.loads(back), "back") == read(drawn, "given")


@pytest.mark.parametrize("name", ["bilm-tf", "allennlp"])
def test_other_projects_files_come_back_bit_for_bit(shared, tmp_path, name):
    given_path = shared / "golden" / name / "lm_weights.hdf5"
    formats.write_official(tmp_path / "weights.hdf5", formats.read(given_path))
    assert_same_datasets(tmp_path / "weights.hdf5", datasets_of(given_path))


def test_a_folder_of_the_two_files_is_a_model(official, corpus):
    from elmo.api import Elmo

    by_file, by_folder = Elmo.load(official), Elmo.load(official.parent)
    np.testing.assert_array_equal(
        by_file.embed_tokens([corpus[0]])[0].layers, by_folder.embed_tokens([corpus[0]])[0].layers
    )


@pytest.mark.parametrize("inside", ["", "elmo/", "a/b/"])
@pytest.mark.parametrize("weights_name", ["weights.hdf5", "model.h5"])
def test_a_zip_of_the_two_files_is_a_model(official, tmp_path, tiny_weights, inside, weights_name):
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(official, inside + weights_name)
        archive.write(official.with_name("options.json"), inside + "options.json")
        archive.writestr(inside + "vocab.txt", "<S>\n</S>\n<UNK>\n")
        archive.writestr("__MACOSX/._options.json", "a Mac's own")
    formats.write_official(tmp_path / "back.hdf5", formats.read(path))
    assert_same_datasets(tmp_path / "back.hdf5", tiny_weights)


def test_options_are_found_beside_the_weights_by_their_name_first(official, tiny_options):
    """Folders with several models have options named like their weights."""
    folder = official.parent
    wrong = {**tiny_options, "lstm": {**tiny_options["lstm"], "dim": 99}}
    shutil.copy(official, folder / "elmo_2x16_weights.hdf5")
    shutil.copy(folder / "options.json", folder / "elmo_2x16_options.json")
    (folder / "options.json").write_text(json.dumps(wrong))
    assert formats.read(folder / "elmo_2x16_weights.hdf5").bilm.config.lstm.dim == 16
    (folder / "elmo_2x16_options.json").rename(folder / "other_options.json")
    given_options = folder / "other_options.json"
    assert formats.read(folder / "elmo_2x16_weights.hdf5", given_options).bilm.config.lstm.dim == 16
    (folder / "options.json").unlink()
    assert formats.read(folder / "elmo_2x16_weights.hdf5").bilm.config.lstm.dim == 16
    shutil.copy(given_options, folder / "third_options.json")
    message = refused(folder / "elmo_2x16_weights.hdf5")
    assert "other_options.json, third_options.json" in message


def test_given_options_are_used_for_a_zip_and_refused_for_a_folder_of_ours(official, tmp_path):
    with zipfile.ZipFile(tmp_path / "model.zip", "w") as archive:
        archive.write(official, "weights.hdf5")
    given_options = official.with_name("options.json")
    model = formats.read(tmp_path / "model.zip", given_options)
    model_folder.save(tmp_path / "folder", model)
    assert "expected no options" in refused(tmp_path / "folder", options=given_options)


def test_a_file_without_the_usual_ending_is_known_by_its_content(official):
    path = official.rename(official.with_name("elmo.bin"))
    assert formats.read(path).bilm.config.lstm.dim == 16


@pytest.mark.parametrize(
    ("change", "expected"),
    [
        ({"lstm": {"dim": 16, "projection_dim": 8}}, (1, None, None, False)),
        ({"lstm": {"cell_clip": 0, "proj_clip": 0, "n_layers": 3}}, (3, None, None, False)),
        ({"lstm": {"cell_clip": 5, "use_skip_connections": True}}, (1, 5.0, None, True)),
        ({"n_epochs": 10, "all_clip_norm_val": 10.0, "lstm": {}}, (1, None, None, False)),
    ],
)
def test_options_left_out_mean_what_they_mean_to_the_original(tiny_options, change, expected):
    lstm = bilm_options.read_options({**tiny_options, **change}, "x").lstm
    found = (lstm.n_layers, lstm.cell_clip, lstm.projection_clip, lstm.has_skip_connections)
    assert found == expected


@pytest.mark.parametrize("n_characters", [261, 262])
def test_nobody_needs_to_count_characters(tiny_options, n_characters):
    tiny_options["char_cnn"]["n_characters"] = n_characters
    config = bilm_options.read_options(tiny_options, "x")
    assert json.loads(bilm_options.write_options(config))["char_cnn"]["n_characters"] == 262


@pytest.mark.parametrize("size", ["original", "medium", "small", "tiny"])
def test_presets_survive_options_json(size):
    config = preset(size)
    assert bilm_options.read_options(json.loads(bilm_options.write_options(config)), "x") == config


def test_max_characters_of_the_options_is_honored(tiny_options, tiny_weights):
    tiny_options["char_cnn"]["max_characters_per_token"] = 6
    from elmo.api import Elmo

    elmo = Elmo(Model(build_bilm(tiny_options, tiny_weights)))
    with pytest.warns(UserWarning, match="2 words are longer than 4 bytes"):
        [one, other] = elmo.embed_tokens([["abcdX"], ["abcdYZ"]])
    np.testing.assert_array_equal(one.layers, other.layers)


def test_opening_a_model_does_not_load_torch_s_compiler(bilm, tmp_path):
    """Loading it takes seconds; random initialization on the meta device would load it."""
    words = Vocabulary.of_words(["bow"])
    model_folder.save(tmp_path / "model", Model(bilm, build_head("full", len(words), 8), words))
    script = (
        "import sys; from elmo import Elmo; Elmo.load(sys.argv[1]); "
        "assert 'torch._dynamo' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", script, str(tmp_path / "model")], check=True)


# What is refused.


def test_a_missing_file_is_reported(tmp_path):
    assert "weights.hdf5: no such file" in refused(tmp_path / "weights.hdf5")


def test_missing_options_are_reported(official):
    official.with_name("options.json").unlink()
    assert "no options.json beside it" in refused(official)
    given_options = official.with_name("mine.json")
    assert "mine.json: no such file" in refused(official, options=given_options)


@pytest.mark.parametrize("n_bytes", [0, 100, 5_000, 40_000])
def test_a_truncated_file_is_reported(official, n_bytes):
    official.write_bytes(official.read_bytes()[:n_bytes])
    assert "weights.hdf5: not a complete HDF5 file" in refused(official)


@given(st.data())
def test_no_damage_to_a_file_gives_anything_but_weights_or_one_line(tiny_weights, data):
    content = bytearray(hdf5_bytes(tiny_weights).getvalue())
    places = st.integers(0, len(content) - 1)
    for place in data.draw(st.lists(places | st.integers(0, 3000), max_size=20)):
        content[place] = data.draw(st.integers(0, 255))
    content = content[: data.draw(st.just(len(content)) | places)]
    config = bilm_options.read_options(tiny_options_of(tiny_weights), "options.json")
    message = "weights.hdf5: "
    try:
        bilm_hdf5.read_weights(io.BytesIO(content), config, "weights.hdf5")
    except ElmoError as error:
        message = str(error)
    assert message.startswith("weights.hdf5: ")
    assert "\n" not in message


def tiny_options_of(weights):
    from tests.conftest import TINY_OPTIONS

    assert weights["char_embed"].shape == (261, TINY_OPTIONS["char_cnn"]["embedding"]["dim"])
    return TINY_OPTIONS


def test_a_wrong_shape_is_reported_with_its_tensor_what_is_there_and_what_should_be(
    tmp_path, tiny_options, tiny_weights
):
    weights = {**tiny_weights, "CNN_proj/W_proj": np.zeros((20, 7), np.float32)}
    message = refused(write_files(tmp_path / "model", tiny_options, weights))
    assert "CNN_proj/W_proj has shape (20, 7), expected (20, 8)" in message


def test_a_missing_tensor_is_reported_with_its_shape(tmp_path, tiny_options, tiny_weights):
    weights = {k: v for k, v in tiny_weights.items() if k != f"{CELL}/B"}
    message = refused(write_files(tmp_path / "model", tiny_options, weights))
    assert f"{CELL}/B is missing, expected shape (64,)" in message


def test_a_tensor_of_no_model_is_reported_but_a_softmax_or_a_cache_is_ignored(
    tmp_path, tiny_options, tiny_weights
):
    extra = np.zeros((2, 3), np.float32)
    allowed = {**tiny_weights, "softmax/W": extra, "embedding": extra}
    formats.read(write_files(tmp_path / "allowed", tiny_options, allowed))
    message = refused(
        write_files(tmp_path / "model", tiny_options, {**tiny_weights, "CNN/W_cnn_3": extra})
    )
    assert "CNN/W_cnn_3 has shape (2, 3), expected no such tensor" in message


@pytest.mark.parametrize(
    ("group", "key", "value", "told"),
    [
        ("lstm", "dim", 32, f"{CELL}/W_0 has shape (16, 64), expected (16, 128)"),
        ("lstm", "n_layers", 1, "Cell1"),
        ("lstm", "n_layers", 3, "Cell2"),
        ("char_cnn", "n_highway", 2, "CNN_high_1/W_carry is missing"),
        ("char_cnn", "n_highway", 0, "CNN_high_0/W_carry has shape (20, 20), expected no such"),
        ("char_cnn", "filters", [[1, 4], [2, 8]], "W_carry has shape (20, 20), expected (12, 12)"),
        ("char_cnn", "embedding", {"dim": 5}, "char_embed has shape (261, 4), expected (261, 5)"),
    ],
)
def test_options_that_contradict_the_weights_are_reported(
    tmp_path, tiny_options, tiny_weights, group, key, value, told
):
    tiny_options[group][key] = value
    message = refused(write_files(tmp_path / "model", tiny_options, tiny_weights))
    assert told in message
    assert "options.json of these weights" in message


@pytest.mark.parametrize(
    ("group", "change", "told"),
    [
        ("char_cnn", {"activation": "gelu"}, "activation is 'gelu', expected relu or tanh"),
        ("char_cnn", {"embedding": 16}, "embedding is 16, expected {'dim': N}"),
        (
            "char_cnn",
            {"filters": [[60, 4]]},
            "filter width is 60, expected at most max_characters 50",
        ),
        ("lstm", {"dim": "4096"}, "dim is '4096', expected int"),
        ("lstm", {"dim": -1}, "dim is -1, expected int > 0"),
    ],
)
def test_wrong_options_are_reported_by_key(official, tiny_options, group, change, told):
    tiny_options[group].update(change)
    official.with_name("options.json").write_text(json.dumps(tiny_options))
    message = refused(official, kind=ConfigError)
    assert told in message
    assert "options.json" in message


@pytest.mark.parametrize("text", ["", "{", "[]", "3", '{"lstm": {}}', '{"char_cnn": {}}', "\xff"])
def test_options_that_are_none_are_reported(official, text):
    official.with_name("options.json").write_bytes(text.encode("latin-1"))
    assert "options.json" in refused(official, kind=ElmoError)


@pytest.mark.parametrize("name", ["../weights.hdf5", "a/../../b", "/etc/passwd"])
def test_a_zip_that_points_out_of_itself_is_refused(official, tmp_path, name):
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.write(official, "weights.hdf5")
        archive.write(official.with_name("options.json"), "options.json")
        archive.writestr(name, "elsewhere")
    before = sorted(tmp_path.rglob("*"))
    assert f"member {name!r} points out of the archive" in refused(path)
    assert sorted(tmp_path.rglob("*")) == before


@pytest.mark.parametrize(
    ("members", "told"),
    [
        ([], "0 models inside"),
        (["weights.hdf5"], "no options.json beside it"),
        (["options.json"], "0 models inside"),
        (["a/weights.hdf5", "b/weights.hdf5", "options.json"], "2 models inside"),
    ],
)
def test_a_zip_without_one_model_is_reported(official, tmp_path, members, told):
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("README", "")
        for name in members:
            archive.write(official.with_name(name.split("/")[-1]), name)
    assert told in refused(path)


@pytest.mark.parametrize("place", [0.02, 0.3, 0.6])
def test_a_damaged_zip_is_reported(official, tmp_path, place):
    path = tmp_path / "model.zip"
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.write(official, "weights.hdf5")
        archive.write(official.with_name("options.json"), "options.json")
    content = bytearray(path.read_bytes())
    start = int(place * len(content))
    content[start : start + 40] = bytes(40)
    path.write_bytes(content)
    assert "model.zip: a broken archive" in refused(path)
    path.write_bytes(content[: len(content) // 2])
    assert "model.zip: not a model" in refused(path)


def test_a_folder_that_is_no_model_is_reported(tmp_path):
    (tmp_path / "notes.txt").write_text("hello")
    assert "not a model folder" in refused(tmp_path)
    with h5py.File(tmp_path / "vectors.h5", "w") as file:
        file["0"] = np.zeros((3, 4))
    with h5py.File(tmp_path / "more.h5", "w") as file:
        file["0"] = np.zeros((3, 4))
    assert "0 of its HDF5 files hold a network" in refused(tmp_path)


def test_a_folder_with_a_cache_of_vectors_beside_the_weights_is_a_model(official):
    with h5py.File(official.with_name("elmo_token_embeddings.hdf5"), "w") as file:
        file["embedding"] = np.zeros((3, 8))
    assert formats.read(official.parent).bilm.config.lstm.dim == 16


def test_a_file_that_is_no_model_is_reported(tmp_path):
    (tmp_path / "model.txt").write_text("hello")
    assert "model.txt: not a model" in refused(tmp_path / "model.txt")


# Writing.


def test_weights_that_cannot_be_written_leave_nothing(bilm, tmp_path):
    (tmp_path / "file").write_text("a file, not a folder")
    for path in (tmp_path / "file" / "weights.hdf5", tmp_path / "absent" / "weights.hdf5"):
        with pytest.raises(WriteError, match="cannot be written"):
            formats.write_official(path, Model(bilm))
    assert [path.name for path in tmp_path.rglob("*")] == ["file"]


def test_options_of_another_model_are_not_overwritten(bilm, official, tmp_path):
    official.with_name("options.json").write_text("of another model")
    path = official.with_name("new.hdf5")
    with pytest.raises(CheckpointError, match=r"options\.json: belongs to another model"):
        formats.write_official(path, Model(bilm))
    names = sorted(p.name for p in official.parent.iterdir())
    assert names == ["options.json", "weights.hdf5"]
    formats.write_official(official, Model(bilm))  # options of replaced weights may be replaced
    assert formats.read(official).bilm.config == bilm.config


def test_a_softmax_of_the_model_before_is_not_left_beside_new_weights(scoring_model, tmp_path):
    scoring = formats.read(scoring_model)
    formats.write_official(tmp_path / "weights.hdf5", scoring)
    before = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    with pytest.raises(CheckpointError, match=r"(vocab\.txt|softmax\.hdf5): belongs to another"):
        formats.write_official(tmp_path / "weights.hdf5", Model(scoring.bilm))
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == before
    formats.write_official(tmp_path / "weights.hdf5", scoring)  # the same files may be rewritten


def test_the_backward_direction_alone_has_no_official_file(bilm, tmp_path):
    from elmo.network.bilm import BiLM

    config = BiLMConfig(
        char_cnn=bilm.config.char_cnn, lstm=bilm.config.lstm, directions=("backward",)
    )
    with pytest.raises(CheckpointError, match="save it as a model folder"):
        formats.write_official(tmp_path / "weights.hdf5", Model(BiLM(config)))
    assert not list(tmp_path.iterdir())
