"""The AllenNLP-compatible API: ids, shapes, carried state and, if it is installed, its vectors."""

import inspect
import io
import json
import os
import subprocess
from pathlib import Path

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo import Elmo as OurElmo
from elmo.adapters.allennlp import Elmo, ElmoEmbedder, batch_to_ids
from elmo.errors import CheckpointError, ConfigError
from tests.random_models import WORDS
from tests.reference import marker_characters, sentence_layers, word_characters

PEER = Path.home() / ".cache" / "elmo-peers" / "allennlp" / "bin" / "python"


@pytest.fixture
def files(official):
    return str(official.with_name("options.json")), str(official)


def expected_ids(word):
    if word in ("<S>", "</S>"):
        return np.array(marker_characters("begin" if word == "<S>" else "end", 50)) + 1
    return np.array(word_characters(word.encode("utf-8", "ignore").decode(), 50)) + 1


@given(st.lists(st.lists(WORDS | st.sampled_from(["<S>", "</S>"]), max_size=5), max_size=4))
def test_ids_are_allennlp_s(batch):
    char_ids = batch_to_ids(batch)
    assert char_ids.dtype == torch.int64
    assert char_ids.shape == (len(batch), max(map(len, batch), default=0), 50)
    for row, words in zip(char_ids.numpy(), batch, strict=True):
        for ids, word in zip(row, words, strict=False):
            np.testing.assert_array_equal(ids, expected_ids(word))
        assert not row[len(words) :].any()


def test_ids_of_a_known_sentence():
    [[a, bow], [long, nothing]] = batch_to_ids([["a", "<S>"], ["ü" * 30]]).tolist()
    assert a == [259, 98, 260, *[261] * 47]
    assert bow == [259, 257, 260, *[261] * 47]
    assert long == [259, *[196, 189] * 24, 260]
    assert nothing == [0] * 50


def test_the_arguments_are_allennlp_s():
    assert list(inspect.signature(Elmo).parameters) == [
        "options_file",
        "weight_file",
        "num_output_representations",
        "requires_grad",
        "do_layer_norm",
        "dropout",
        "vocab_to_cache",
        "keep_sentence_boundaries",
        "scalar_mix_parameters",
    ]
    assert list(inspect.signature(Elmo.forward).parameters) == ["self", "inputs", "word_inputs"]
    assert list(inspect.signature(ElmoEmbedder.embed_file).parameters)[1:] == [
        "input_file",
        "output_file_path",
        "output_format",
        "batch_size",
        "forget_sentences",
        "use_sentence_keys",
    ]


def test_representations_and_mask_have_the_old_shapes(files, corpus):
    elmo = Elmo(*files, 2, dropout=0)
    output = elmo(batch_to_ids(corpus[:3]))
    longest = max(map(len, corpus[:3]))
    assert [tuple(x.shape) for x in output["elmo_representations"]] == [(3, longest, 16)] * 2
    assert output["mask"].shape == (3, longest)
    assert output["mask"].sum(1).tolist() == [len(words) for words in corpus[:3]]
    assert not output["elmo_representations"][0][~output["mask"]].any()
    assert elmo.get_output_dim() == 16


def test_the_first_call_gives_the_mean_of_our_layers(files, corpus):
    [mixed] = Elmo(*files, 1, dropout=0)(batch_to_ids(corpus[:3]))["elmo_representations"]
    for k, embedded in enumerate(OurElmo.load(files[1]).embed_tokens(corpus[:3])):
        np.testing.assert_allclose(
            mixed[k, : len(corpus[k])].detach(), embedded.vectors(), atol=1e-5
        )


def test_state_is_carried_from_call_to_call_as_there(files, corpus, tiny_options, tiny_weights):
    """Compare with the plain reference, which keeps one state per batch position."""
    module, embedder = Elmo(*files, 1, dropout=0), ElmoEmbedder(*files)
    states = {}
    for batch in (corpus[:2], corpus[2:5], corpus[5:6], corpus[:2]):
        [mixed] = module(batch_to_ids(batch))["elmo_representations"]
        arrays = embedder.embed_batch(batch)
        for place, tokens in enumerate(batch):
            layers, states[place] = sentence_layers(
                tiny_weights, tiny_options, tokens, states.get(place)
            )
            expected = layers[:, 1:-1]
            np.testing.assert_allclose(arrays[place], expected, atol=1e-5)
            np.testing.assert_allclose(
                mixed[place, : len(tokens)].detach(), expected.mean(0), atol=1e-5
            )


def test_sentence_boundaries_are_kept_on_request(files, corpus):
    char_ids = batch_to_ids(corpus[:3])
    kept = Elmo(*files, 1, dropout=0, keep_sentence_boundaries=True)(char_ids)
    removed = Elmo(*files, 1, dropout=0)(char_ids)
    assert kept["mask"].sum(1).tolist() == [len(words) + 2 for words in corpus[:3]]
    inner = kept["elmo_representations"][0][:, 1:-1] * removed["mask"][..., None]
    torch.testing.assert_close(inner, removed["elmo_representations"][0])


@pytest.mark.parametrize("keep_sentence_boundaries", [False, True])
def test_ids_of_four_dimensions_come_back_in_their_shape(files, corpus, keep_sentence_boundaries):
    char_ids = batch_to_ids(corpus[:4])
    settings = {"dropout": 0, "keep_sentence_boundaries": keep_sentence_boundaries}
    flat = Elmo(*files, 1, **settings)(char_ids)
    shaped = Elmo(*files, 1, **settings)(char_ids.reshape(2, 2, -1, 50))
    n_places = char_ids.shape[1] + 2 * keep_sentence_boundaries
    assert shaped["elmo_representations"][0].shape == (2, 2, n_places, 16)
    assert shaped["mask"].shape == (2, 2, n_places)
    torch.testing.assert_close(
        shaped["elmo_representations"][0].flatten(0, 1), flat["elmo_representations"][0]
    )


def test_no_tokens_pass(files):
    output = Elmo(*files, 1)(batch_to_ids([[], []]))
    assert output["elmo_representations"][0].shape == (2, 0, 16)
    assert ElmoEmbedder(*files).embed_sentence([]).shape == (3, 0, 16)
    assert ElmoEmbedder(*files).embed_batch([]) == []


def test_cached_words_are_read_by_their_number(files):
    words = ["@@PADDING@@", "@@UNKNOWN@@", "a", "bow", "arrow"]
    word_ids = torch.tensor([[2, 3, 0], [4, 2, 3]])
    cached = Elmo(*files, 1, dropout=0, vocab_to_cache=words)
    char_ids = batch_to_ids([["a", "bow"], ["arrow", "a", "bow"]])
    found = cached(char_ids, word_inputs=word_ids)
    expected = Elmo(*files, 1, dropout=0)(char_ids)
    assert torch.equal(found["mask"], expected["mask"])
    torch.testing.assert_close(found["elmo_representations"], expected["elmo_representations"])
    unknown = torch.full_like(word_ids, 99)
    again = Elmo(*files, 1, dropout=0, vocab_to_cache=words)(char_ids, word_inputs=unknown)
    torch.testing.assert_close(again["elmo_representations"], expected["elmo_representations"])


def test_gradients_reach_the_network_on_request_only(files, corpus):
    for requires_grad in (False, True):
        elmo = Elmo(*files, 1, dropout=0, requires_grad=requires_grad)
        for _ in range(2):  # the second call starts from a carried state
            elmo(batch_to_ids(corpus[:2]))["elmo_representations"][0].sum().backward()
        has_gradient = [p.grad is not None for p in elmo._elmo_lstm.parameters()]
        assert all(has_gradient) if requires_grad else not any(has_gradient)


def test_chosen_mix_parameters_are_frozen_as_there(files):
    elmo = Elmo(*files, 1, scalar_mix_parameters=[1.0, 2.0, 3.0])
    assert not any(parameter.requires_grad for parameter in elmo.parameters())


def test_dropout_is_for_training_only(files, corpus):
    elmo = Elmo(*files, 1).eval()
    [kept] = elmo(batch_to_ids(corpus[:2]))["elmo_representations"]
    assert kept[0, 0].abs().min() > 0
    [dropped] = elmo.train()(batch_to_ids(corpus[:2]))["elmo_representations"]
    assert (dropped[0, 0] == 0).any()


def test_a_batch_gives_layers_second_and_a_mask(files, corpus):
    layers, mask = ElmoEmbedder(*files).batch_to_embeddings(corpus[:3])
    longest = max(map(len, corpus[:3]))
    assert layers.shape == (3, 3, longest, 16)
    assert mask.shape == (3, longest)
    assert not layers.transpose(1, 2)[~mask].any()


def test_sentences_stream_in_batches(files, corpus):
    one, other = ElmoEmbedder(*files), ElmoEmbedder(*files)
    streamed = one.embed_sentences(iter(corpus[:5]), batch_size=2)
    batched = [*other.embed_batch(corpus[:2]), *other.embed_batch(corpus[2:4])]
    batched += other.embed_batch(corpus[4:5])
    for found, expected in zip(streamed, batched, strict=True):
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize("output_format", ["all", "top", "average"])
def test_a_file_has_the_old_keys(files, tmp_path, output_format):
    lines = ["A bow .", "An arrow", "A bow ."]
    path = str(tmp_path / "vectors.h5")
    ElmoEmbedder(*files).embed_file(io.StringIO("\n".join(lines) + "\n"), path, output_format)
    expected = list(ElmoEmbedder(*files).embed_sentences(line.split() for line in lines))
    reduce = {"all": lambda x: x, "top": lambda x: x[2], "average": lambda x: x.mean(0)}
    with h5py.File(path, "r") as file:
        assert set(file) == {"0", "1", "2", "sentence_to_index"}
        numbers = json.loads(file["sentence_to_index"][0])
        for k, layers in enumerate(expected):
            np.testing.assert_allclose(file[str(k)], reduce[output_format](layers), atol=1e-6)
    assert numbers == {"A bow .": "2", "An arrow": "1"}


def test_a_file_can_have_sentences_as_keys_and_forget_them(files, tmp_path):
    path = str(tmp_path / "vectors.h5")
    lines = io.StringIO("A bow .\nAn arrow\n")
    ElmoEmbedder(*files).embed_file(lines, path, use_sentence_keys=True, forget_sentences=True)
    with h5py.File(path, "r") as file:
        assert set(file) == {"A bow .", "An arrow"}
        assert file["A bow ."].shape == (3, 3, 16)


@pytest.mark.parametrize(
    ("text", "settings", "told"),
    [
        ("a\na\n", {"use_sentence_keys": True}, "duplicate sentence"),
        ("a\n", {"output_format": "0,1"}, "expected all, top or average"),
    ],
)
def test_what_cannot_be_written_is_reported_and_leaves_nothing(
    files, tmp_path, text, settings, told
):
    folder = tmp_path / "out"
    folder.mkdir()
    with pytest.raises(ConfigError, match=told):
        ElmoEmbedder(*files).embed_file(io.StringIO(text), str(folder / "x.h5"), **settings)
    assert not list(folder.iterdir())


def test_a_missing_file_is_reported(files):
    with pytest.raises(CheckpointError, match="no such file"):
        Elmo(files[0], "nowhere.hdf5", 1)


PEER_SCRIPT = """
import json, sys, warnings
warnings.filterwarnings("ignore")
import numpy as np, torch
from allennlp.modules.elmo import Elmo, batch_to_ids
options, weights, batches, out = sys.argv[1:]
found = {}
batches = json.load(open(batches))
for norm in (False, True):
    for keep in (False, True):
        torch.manual_seed(0)
        settings = {"do_layer_norm": norm, "keep_sentence_boundaries": keep, "dropout": 0}
        elmo = Elmo(options, weights, 2, **settings)
        with torch.no_grad():
            elmo.scalar_mix_1.scalar_parameters[0].fill_(2)
            elmo.scalar_mix_1.gamma.fill_(0.5)
            for k, batch in enumerate(batches):
                ids = batch_to_ids(batch)
                output = elmo(ids)
                found[f"ids-{k}"] = ids.numpy()
                for j, mix in enumerate(output["elmo_representations"]):
                    found[f"{int(norm)}{int(keep)}-{k}-{j}"] = mix.numpy()
                found[f"{int(norm)}{int(keep)}-{k}-mask"] = output["mask"].numpy()
np.savez(out, **found)
"""


@pytest.mark.slow
@pytest.mark.skipif(not PEER.exists(), reason=f"AllenNLP is not installed at {PEER}")
def test_the_real_allennlp_gives_the_same(files, corpus, tmp_path):
    batches = [corpus[:3], corpus[3:8], corpus[8:10], corpus[:4]]
    (tmp_path / "batches.json").write_text(json.dumps(batches))
    out = tmp_path / "found.npz"
    subprocess.run(
        [PEER, "-c", PEER_SCRIPT, *files, tmp_path / "batches.json", out],
        check=True,
        env={**os.environ, "PYTHONPATH": ""},
    )
    expected = np.load(out)
    for norm in (False, True):
        for keep in (False, True):
            elmo = Elmo(*files, 2, do_layer_norm=norm, keep_sentence_boundaries=keep, dropout=0)
            with torch.no_grad():
                elmo._mixes[1].weights[0] = 2
                elmo._mixes[1].gamma.fill_(0.5)
            for k, batch in enumerate(batches):
                ids = batch_to_ids(batch)
                np.testing.assert_array_equal(ids, expected[f"ids-{k}"])
                output = elmo(ids)
                name = f"{int(norm)}{int(keep)}-{k}"
                mask = output["mask"].numpy()
                np.testing.assert_array_equal(mask, expected[f"{name}-mask"])
                for j, mix in enumerate(output["elmo_representations"]):
                    np.testing.assert_allclose(
                        mix.detach().numpy()[mask], expected[f"{name}-{j}"][mask], atol=1e-5
                    )
