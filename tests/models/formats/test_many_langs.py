"""ELMoForManyLangs' folders: layers equal to its package, and one-line errors for broken files."""

import json
import pickle
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch

from elmo.api import Elmo
from elmo.errors import CheckpointError, ConfigError, DataError, ElmoError
from elmo.models import formats
from elmo.models.formats import many_langs
from elmo.text.characters import Marker
from tests.models.formats.many_langs_models import write_dictionary, write_model

GOLDEN = Path(__file__).parents[2] / "parity" / "made" / "many-langs"
SENTENCES = [
    ["the", "bow", "."],
    ["東京", "naïve", "unlistedword", "ßééç", "京"],
    ["bow"],
    ["wider\u3000space", "🙂", "x", "<S>", "</S>"],
]


@pytest.fixture
def folder(tmp_path):
    return write_model(tmp_path / "theirs")


def test_all_layers_are_those_of_their_package():
    elmo = Elmo.load(GOLDEN)
    expected = np.load(GOLDEN / "layers.npz")
    lines = (GOLDEN / "sentences.txt").read_text(encoding="utf-8").splitlines()
    for k, embedded in enumerate(elmo.embed_tokens([line.split() for line in lines])):
        np.testing.assert_allclose(embedded.layers, expected[f"s{k}"], atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"seed": 1, "n_layers": 1, "n_highway": 0},
        {"seed": 2, "n_layers": 3, "activation": "tanh", "n_highway": 1},
        {"seed": 3, "char_dim": 0},
        {"seed": 4, "word_dim": 0},
        {"seed": 5, "clip": 0.5},
    ],
    ids=str,
)
def test_any_model_and_any_order_of_batches_gives_their_package_s_numbers(tmp_path, settings):
    theirs = pytest.importorskip(
        "elmoformanylangs", reason="pip install --no-deps elmoformanylangs overrides==3.1.0"
    )
    folder = write_model(tmp_path / "theirs", **settings)
    elmo, embedder = Elmo.load(folder), theirs.Embedder(str(folder), batch_size=64)
    # "<S>" is a listed word in their package; in ours, text never spells a marker.
    sentences = [[word for word in words if word != "<S>"] for words in SENTENCES]
    for words in sentences:
        embedder.model.encoder.reset_states()
        (expected,) = embedder.sents2elmo([words], output_layer=-2)
        np.testing.assert_allclose(elmo.embed_tokens([words])[0].layers, expected, atol=1e-5)
    # Their package carries its state from call to call; each call has one sentence.
    embedder.model.encoder.reset_states()
    expected = [embedder.sents2elmo([words], output_layer=-2)[0] for words in sentences]
    carried = elmo.embed_tokens(sentences, state="carry", batch_size=1)
    for embedded, layers in zip(carried, expected, strict=True):
        np.testing.assert_allclose(embedded.layers, layers, atol=1e-5)


def test_a_folder_of_ours_holds_the_same_model(folder, tmp_path):
    before = Elmo.load(folder)
    before.save(tmp_path / "ours")
    after = Elmo.load(tmp_path / "ours")
    for one, other in zip(
        before.embed_tokens(SENTENCES), after.embed_tokens(SENTENCES), strict=True
    ):
        np.testing.assert_array_equal(one.layers, other.layers)
    assert (tmp_path / "ours" / "characters.txt").read_text(encoding="utf-8").startswith("a\nb\n")
    after.save(tmp_path / "ours")  # over the folder it was loaded from


def test_the_order_of_the_dictionaries_does_not_matter(folder, tmp_path):
    before = Elmo.load(folder).embed_tokens(SENTENCES)
    tensors = torch.load(folder / "token_embedder.pkl", weights_only=True)
    for name, table in (("word", "word_emb_layer"), ("char", "char_emb_layer")):
        path = folder / f"{name}.dic"
        entries = [line.split("\t")[0] for line in path.read_text(encoding="utf-8").split("\n")]
        order = np.random.default_rng(0).permutation(len(entries) - 1)
        write_dictionary(path, [entries[k] for k in order])
        key = f"{table}.embedding.weight"
        tensors[key] = tensors[key][torch.from_numpy(order)]
    torch.save(tensors, folder / "token_embedder.pkl")
    for one, other in zip(before, Elmo.load(folder).embed_tokens(SENTENCES), strict=True):
        np.testing.assert_array_equal(one.layers, other.layers)


def test_words_differ_by_the_list_and_by_their_characters(folder):
    vectors = Elmo.load(folder).embed_tokens([["the", "hte", "then", "zz", "zzz"]])[0].layers[0]
    assert len(np.unique(vectors, axis=0)) == 5


def test_unlisted_characters_of_unlisted_words_are_alike(folder):
    vectors = Elmo.load(folder).embed_tokens([["xyz", "lll", "юля"]])[0].layers[0]
    np.testing.assert_array_equal(vectors[0], vectors[1])
    np.testing.assert_array_equal(vectors[0], vectors[2])


@pytest.mark.parametrize("text", ["<bos>", "<eos>", "<S>", "<pad>", "<oov>"])
def test_text_never_spells_a_marker(folder, text):
    encoder = Elmo.load(folder).bilm.word_encoder
    spelled, unknown, *markers = encoder.encode([text, "(" + text[1:], *Marker]).tolist()
    assert spelled == unknown  # "<" and "(" are both unlisted
    assert spelled not in markers


def test_a_long_word_is_cut_by_characters_and_reported(folder):
    elmo = Elmo.load(folder)
    with pytest.warns(UserWarning, match="1 words are longer than 18 characters"):
        cut = elmo.embed_tokens([["東京" * 12]])[0].layers
    np.testing.assert_allclose(cut, elmo.embed_tokens([["東京" * 9]])[0].layers, atol=1e-5)


def test_a_task_layer_takes_tokens_and_refuses_ids_of_bytes(folder):
    layer = Elmo.load(folder).layer(fine_tune=True, dropout=0.0)
    output = layer(SENTENCES)
    output.mixes[0].sum().backward()
    assert layer.bilm.word_table.weight.grad.abs().sum() > 0
    with pytest.raises(DataError, match="expected token lists"):
        layer(torch.ones(1, 2, 50, dtype=torch.int64))


def test_the_official_layout_has_no_place_for_it(folder, tmp_path):
    with pytest.raises(CheckpointError, match="save it as a model folder"):
        formats.write(tmp_path / "weights.hdf5", formats.read(folder))
    assert not list(tmp_path.glob("weights*"))


def test_a_zip_is_read_as_it_is(folder, tmp_path):
    archive = tmp_path / "144.zip"
    with zipfile.ZipFile(archive, "w") as file:
        for path in folder.iterdir():
            file.write(path, f"144/{path.name}")
    one, other = Elmo.load(folder).embed(["the bow"]), Elmo.load(archive).embed(["the bow"])
    np.testing.assert_array_equal(one[0].layers, other[0].layers)


def test_files_of_old_torch_are_read(folder):
    before = Elmo.load(folder).embed_tokens(SENTENCES)[1].layers
    for name in ("encoder.pkl", "token_embedder.pkl"):
        tensors = torch.load(folder / name, weights_only=True)
        torch.save(tensors, folder / name, _use_new_zipfile_serialization=False)
    np.testing.assert_array_equal(Elmo.load(folder).embed_tokens(SENTENCES)[1].layers, before)


def test_released_models_need_no_file_from_their_package(tmp_path):
    folder = tmp_path / "released"
    folder.mkdir()
    path = "/users4/them/configs/cnn_50_100_512_4096_sample.json"
    (folder / "config.json").write_text(json.dumps({"config_path": path}))
    groups, _ = many_langs._read_configuration(folder, None)
    assert groups["token_embedder"]["char_dim"] == 50
    assert groups["encoder"]["dim"] == 4096


class Hostile:
    def __reduce__(self):
        return (Path("hostile-was-here").touch, ())


def test_a_pickle_that_would_run_code_is_refused_and_not_run(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (folder / "encoder.pkl").write_bytes(pickle.dumps({"forward_layer_0": Hostile()}, protocol=2))
    with pytest.raises(CheckpointError, match=r"encoder.pkl: cannot be read with torch.load\("):
        Elmo.load(folder)
    assert not (tmp_path / "hostile-was-here").exists()


def _drop_tensor(folder):
    tensors = torch.load(folder / "encoder.pkl", weights_only=True)
    tensors.pop("backward_layer_1.state_projection.weight")
    torch.save(tensors, folder / "encoder.pkl")


def _add_tensor(folder):
    tensors = torch.load(folder / "encoder.pkl", weights_only=True)
    torch.save(tensors | {"forward_layer_2.x": torch.zeros(1)}, folder / "encoder.pkl")


def _shorten(name):
    return lambda folder: (folder / name).write_bytes((folder / name).read_bytes()[:-40])


def _change(group, **values):
    def change(folder):
        groups = json.loads((folder / "tiny.json").read_text())
        groups[group] |= values
        (folder / "tiny.json").write_text(json.dumps(groups))

    return change


@pytest.mark.parametrize(
    ("harm", "message"),
    [
        (_drop_tensor, "no tensor backward_layer_1.state_projection.weight, expected"),
        (_add_tensor, r"tensor forward_layer_2\.x, expected no such"),
        (_shorten("encoder.pkl"), "encoder.pkl: cannot be read"),
        (lambda folder: (folder / "encoder.pkl").write_bytes(b""), "encoder.pkl: cannot be read"),
        (lambda folder: (folder / "word.dic").unlink(), "word.dic: no such file"),
        (lambda folder: write_dictionary(folder / "word.dic", ["a"]), "no entry '<bos>'"),
        (
            lambda folder: write_dictionary(
                folder / "word.dic", ["<oov>", "<bos>", "<eos>", "<pad>", "a"]
            ),
            r"shape \(10, 5\), expected 5 rows",
        ),
        (
            lambda folder: (folder / "char.dic").write_text("a\tb\tc\n"),
            "char.dic:1: 'a.tb.tc', expected an entry",
        ),
        (
            lambda folder: (folder / "char.dic").write_text("<bos>\t7\n"),
            "char.dic: no entry '<eos>'",
        ),
        (lambda folder: (folder / "tiny.json").unlink(), "tiny.json: no such file"),
        (
            lambda folder: (folder / "tiny.json").write_text("[]"),
            "tiny.json: list, expected the config",
        ),
        (_change("encoder", name="lstm"), "expected 'cnn' and 'elmo'"),
        (_change("encoder", dim=None), "dim is None, expected int"),
        (_change("encoder", dim=9), r"input_weight has shape \(28, 6\), expected"),
        (_change("token_embedder", activation="gelu"), "activation is 'gelu'"),
    ],
)
def test_a_broken_folder_is_reported_in_one_line(folder, harm, message):
    harm(folder)
    with pytest.raises(ElmoError, match=message) as told:
        Elmo.load(folder)
    assert "\n" not in str(told.value)


def test_another_place_of_the_configuration_can_be_named(folder, tmp_path):
    (folder / "tiny.json").rename(tmp_path / "sizes.json")
    assert Elmo.load(folder, options=tmp_path / "sizes.json").output_dim == 12
    with pytest.raises(ElmoError, match="no group 'token_embedder'"):
        Elmo.load(folder, options=folder / "config.json")


def test_a_config_without_its_lists_is_no_model(folder, tmp_path):
    elmo = Elmo.load(folder)
    elmo.save(tmp_path / "ours")
    (tmp_path / "ours" / "characters.txt").write_text("a\nb\n")
    with pytest.raises(ConfigError, match="a lexicon with 2 characters, expected"):
        Elmo.load(tmp_path / "ours")
