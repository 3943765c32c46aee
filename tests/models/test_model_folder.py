"""The model folder: round trips, atomic writes, and errors for invalid folders."""

import json
import os
import stat
import subprocess
import sys

import pytest
import torch
from hypothesis import given
from safetensors.torch import load_file, save_file

from elmo.errors import CheckpointError, ConfigError, DataError, WriteError
from elmo.models import model_folder
from elmo.models.identity import file_hash
from elmo.models.model_folder import CARD, CONFIG, VOCABULARY, WEIGHTS, Model
from elmo.network.bilm import BiLM
from elmo.network.config import BiLMConfig
from elmo.network.softmax import build_head
from elmo.text.vocabulary import Vocabulary
from tests.random_models import build_bilm, options, random_weights

WORDS = Vocabulary.of_words(["a", "bow", "took", "I", "."])


@pytest.fixture
def model(bilm):
    torch.manual_seed(0)
    head = build_head("full", len(WORDS), bilm.config.lstm.projection_dim)
    return Model(bilm, head, WORDS)


@pytest.fixture
def folder(tmp_path, model):
    model_folder.save(tmp_path / "model", model)
    return tmp_path / "model"


def assert_same_state(one, other):
    one, other = one.state_dict(), other.state_dict()
    assert one.keys() == other.keys()
    assert all(torch.equal(one[name], other[name]) for name in one)


def refused(folder, kind=CheckpointError):
    with pytest.raises(kind) as caught:
        model_folder.load(folder)
    message = str(caught.value)
    assert "\n" not in message
    assert str(folder) in message
    return message


@given(options())
def test_any_network_comes_back_bit_for_bit(tmp_path_factory, drawn):
    bilm = build_bilm(drawn, random_weights(drawn))
    folder = tmp_path_factory.mktemp("model")
    model_folder.save(folder, Model(bilm))
    loaded = model_folder.load(folder)
    assert loaded.bilm.config == bilm.config
    assert loaded.head is None
    assert_same_state(loaded.bilm, bilm)


@pytest.mark.parametrize("direction", ["forward", "backward"])
def test_one_direction_comes_back(tmp_path, bilm, direction):
    config = BiLMConfig(
        char_cnn=bilm.config.char_cnn, lstm=bilm.config.lstm, directions=(direction,)
    )
    model_folder.save(tmp_path / "model", Model(BiLM(config)))
    assert model_folder.load(tmp_path / "model").bilm.config.directions == (direction,)


@pytest.mark.parametrize("kind", ["full", "sampled", "adaptive"])
def test_a_head_comes_back_with_its_words(tmp_path, bilm, kind):
    head = build_head(kind, len(WORDS), bilm.config.lstm.projection_dim)
    model_folder.save(tmp_path / "model", Model(bilm, head, WORDS))
    loaded = model_folder.load(tmp_path / "model")
    assert loaded.vocabulary == WORDS
    assert loaded.head.kind == kind
    assert_same_state(loaded.head, head)


def test_a_folder_holds_four_files_that_say_what_it_is(folder, model):
    assert {path.name for path in folder.iterdir()} == {CONFIG, WEIGHTS, VOCABULARY, CARD}
    settings = json.loads((folder / CONFIG).read_text())
    assert settings["format_version"] == 1
    assert settings["head"] == {"kind": "full", "n_words": len(WORDS)}
    card = (folder / CARD).read_text()
    assert f"{model.bilm.n_parameters:,} parameters" in card
    assert f"{len(WORDS)} output words" in card


def test_a_given_card_is_written_as_it_is(tmp_path, model):
    model_folder.save(tmp_path / "model", model, card="# Mine\n")
    assert (tmp_path / "model" / CARD).read_text() == "# Mine\n"


def test_half_the_bytes_are_float32_again_in_memory(tmp_path, model):
    model_folder.save(tmp_path / "model", model, dtype=torch.float16)
    assert {t.dtype for t in load_file(tmp_path / "model" / WEIGHTS).values()} == {torch.float16}
    loaded = model_folder.load(tmp_path / "model").bilm
    for name, tensor in model.bilm.state_dict().items():
        assert torch.equal(loaded.state_dict()[name], tensor.half().float())


def test_a_loaded_model_is_ready_to_embed_and_to_train(folder):
    bilm = model_folder.load(folder).bilm
    assert not bilm.training
    assert all(parameter.requires_grad for parameter in bilm.parameters())
    with torch.no_grad():
        for parameter in bilm.parameters():
            parameter.add_(1)  # its own memory, not the file's
    again = model_folder.load(folder).bilm.state_dict()
    assert not any(torch.equal(again[name], each) for name, each in bilm.state_dict().items())


def test_the_hash_is_that_of_the_file(folder, tmp_path, model):
    model_folder.save(tmp_path / "again", model)
    assert file_hash(folder / WEIGHTS) == file_hash(tmp_path / "again" / WEIGHTS)
    with torch.no_grad():
        next(model.bilm.parameters()).add_(1)
    model_folder.save(tmp_path / "again", model)
    assert file_hash(folder / WEIGHTS) != file_hash(tmp_path / "again" / WEIGHTS)


def test_permissions_follow_the_umask(tmp_path, model):
    before = os.umask(0o027)
    try:
        model_folder.save(tmp_path / "model", model)
    finally:
        os.umask(before)
    modes = {stat.S_IMODE(path.stat().st_mode) for path in (tmp_path / "model").iterdir()}
    assert modes == {0o640}


SAVE_AGAIN_AND_AGAIN = """
import sys
from pathlib import Path
from elmo.models import model_folder
model = model_folder.load(Path(sys.argv[1]))
for _ in range(30):
    model_folder.save(Path(sys.argv[2]), model)
"""


def test_two_processes_may_save_the_same_folder(folder, model, tmp_path):
    out = tmp_path / "out"
    command = [sys.executable, "-c", SAVE_AGAIN_AND_AGAIN, str(folder), str(out)]
    started = [subprocess.Popen(command) for _ in range(2)]
    assert [process.wait() for process in started] == [0, 0]
    assert_same_state(model_folder.load(out).bilm, model.bilm)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["model", "out"]


def test_an_older_model_is_replaced_as_a_whole(folder, bilm):
    model_folder.save(folder, Model(bilm))
    assert {path.name for path in folder.iterdir()} == {CONFIG, WEIGHTS, CARD}
    assert model_folder.load(folder).vocabulary is None
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


def test_a_model_is_saved_over_the_files_it_was_read_from(folder):
    loaded = model_folder.load(folder)
    with torch.no_grad():
        next(loaded.bilm.parameters()).add_(1)
    model_folder.save(folder, loaded)
    assert_same_state(model_folder.load(folder).bilm, loaded.bilm)


def test_the_folder_one_stands_in_can_be_saved_to(tmp_path, model, monkeypatch):
    (tmp_path / "empty").mkdir()
    monkeypatch.chdir(tmp_path / "empty")
    model_folder.save(type(tmp_path)("."), model)
    assert model_folder.is_model_folder(tmp_path / "empty")


# What is refused.


@pytest.mark.parametrize("name", ["notes.txt", "log"])
def test_a_folder_that_is_not_a_model_s_is_left_as_it_is(tmp_path, model, name):
    place = tmp_path / "mine"
    place.mkdir()
    (place / name).write_text("precious")
    with pytest.raises(CheckpointError, match=f"contains '{name}'; expected a new folder"):
        model_folder.save(place, model)
    assert [path.name for path in tmp_path.rglob("*")] == ["mine", name]


def test_a_model_folder_with_something_else_in_it_is_left_as_it_is(folder, model):
    (folder / "notes.txt").write_text("precious")
    with pytest.raises(CheckpointError, match=r"contains 'notes\.txt'"):
        model_folder.save(folder, model)
    assert (folder / "notes.txt").read_text() == "precious"


def test_a_model_of_another_package_is_left_as_it_is(folder, model):
    (folder / CONFIG).write_text('{"model_type": "bert"}')
    before = file_hash(folder / WEIGHTS)
    with pytest.raises(CheckpointError, match=r"contains 'config\.json'"):
        model_folder.save(folder, model)
    assert file_hash(folder / WEIGHTS) == before
    assert "no format_version, expected the config.json of an ELMo model" in refused(folder)


def test_a_file_in_the_folder_s_place_is_left_as_it_is(tmp_path, model):
    (tmp_path / "model").write_text("precious")
    with pytest.raises(CheckpointError, match="model: "):
        model_folder.save(tmp_path / "model", model)
    assert (tmp_path / "model").read_text() == "precious"


def test_a_place_below_a_file_cannot_be_written(tmp_path, model):
    (tmp_path / "file").write_text("")
    with pytest.raises(WriteError, match=r"model: cannot be written"):
        model_folder.save(tmp_path / "file" / "model", model)


@pytest.mark.skipif(
    not hasattr(os, "geteuid") or os.geteuid() == 0, reason="root may write everywhere"
)
def test_a_read_only_place_cannot_be_written(tmp_path, model):
    tmp_path.chmod(0o500)
    with pytest.raises(WriteError, match="cannot be written"):
        model_folder.save(tmp_path / "model", model)
    tmp_path.chmod(0o700)
    assert not list(tmp_path.iterdir())


def test_a_save_that_fails_leaves_the_older_model_and_nothing_else(folder, bilm):
    class Unwritable(Vocabulary):
        def write(self, path):
            raise OSError("no space left")

    words = Unwritable(WORDS.words)
    broken = Model(bilm, build_head("full", len(words), 8), words)
    before = file_hash(folder / WEIGHTS)
    with pytest.raises(WriteError, match="no space left"):
        model_folder.save(folder, broken)
    assert file_hash(folder / WEIGHTS) == before
    assert [path.name for path in folder.parent.iterdir()] == [folder.name]


@pytest.mark.parametrize("version", [2, 0, "1", None, True])
def test_another_format_version_is_refused(folder, version):
    settings = json.loads((folder / CONFIG).read_text())
    settings["format_version"] = version
    (folder / CONFIG).write_text(json.dumps(settings))
    assert f"format_version is {version!r}, expected 1;" in refused(folder)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"bilmm": {}}, "unknown key 'bilmm' (did you mean 'bilm'?)"),
        ({"bilm": {"lstm": {"dims": 3}}}, "unknown key 'bilm.lstm.dims' (did you mean 'dim'?)"),
        ({"bilm": 3}, "bilm is 3, expected a group"),
        ({"head": {"kind": "big", "n_words": 8}}, "head.kind is 'big', expected sampled or full"),
        ({"head": {"kind": "full"}}, "key 'head.n_words' is missing"),
        ({"head": 3}, "head is 3, expected a group"),
    ],
)
def test_a_wrong_config_is_reported_by_key(folder, change, told):
    settings = json.loads((folder / CONFIG).read_text()) | change
    (folder / CONFIG).write_text(json.dumps(settings))
    assert told in refused(folder, ConfigError)


def test_a_config_without_its_network_is_reported(folder):
    (folder / CONFIG).write_text('{"format_version": 1}')
    assert "key 'bilm' is missing" in refused(folder, ConfigError)


@pytest.mark.parametrize("text", [b"", b"{", b"[]", b"null", b"\xff\xfe"])
def test_a_config_that_is_none_is_reported(folder, text):
    (folder / CONFIG).write_bytes(text)
    assert "config.json: " in refused(folder)


@pytest.mark.parametrize("n_bytes", [0, 7, 100, 3000])
def test_broken_weights_are_reported(folder, n_bytes):
    (folder / WEIGHTS).write_bytes((folder / WEIGHTS).read_bytes()[:n_bytes])
    assert "model.safetensors: not a complete safetensors file" in refused(folder)


def test_missing_weights_are_reported(folder):
    (folder / WEIGHTS).unlink()
    assert "model.safetensors: " in refused(folder)


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"bilm.char_cnn.projection.bias": torch.zeros(9)}, "has shape (9,), expected (8,)"),
        ({"bilm.char_cnn.projection.bias": None}, "has shape none (missing), expected (8,)"),
        ({"bilm.more": torch.zeros(2)}, "tensor more has shape (2,), expected no such tensor"),
        ({"head.bias": torch.zeros(2)}, "tensor bias has shape (2,), expected (8,)"),
        ({"foreign.bias": torch.zeros(2)}, "tensor foreign.bias"),
    ],
)
def test_weights_that_do_not_fit_are_reported(folder, change, told):
    tensors = {**load_file(folder / WEIGHTS), **change}
    save_file({k: v for k, v in tensors.items() if v is not None}, folder / WEIGHTS)
    assert told in refused(folder)


def test_a_head_s_weights_without_its_settings_are_reported(folder):
    settings = json.loads((folder / CONFIG).read_text()) | {"head": None}
    (folder / CONFIG).write_text(json.dumps(settings))
    assert "tensor head." in refused(folder)


def test_a_missing_or_wrong_vocabulary_is_reported(folder):
    (folder / VOCABULARY).write_text("\n".join([*WORDS.words, "more"]) + "\n")
    assert "vocab.txt: 9 words, expected 8" in refused(folder)
    (folder / VOCABULARY).unlink()
    assert "vocab.txt: no such file" in refused(folder, DataError)
