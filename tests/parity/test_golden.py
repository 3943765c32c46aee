"""The golden vectors of both originals: state carried from batch to batch, and the token layer.

Compared at 1e-6. The AllenNLP set itself differs from float64 by up to 1.14e-6 (ours: 0.81e-6 in
float32), due to rounding of values up to 4.6; hence a relative 1e-6 in addition to the absolute.
"""

import h5py
import numpy as np
import pytest
import torch

from elmo import Elmo
from elmo.adapters import allennlp
from elmo.text.characters import encode_words
from tests.parity.golden import SENTENCES, read_golden

CLOSE = {"atol": 1e-6, "rtol": 1e-6}


@pytest.fixture(params=SENTENCES)
def folder(shared, request):
    return shared / "golden" / request.param


def test_carried_state_gives_the_originals_numbers(folder):
    """Ten batches of three sentences, one of each list, in order."""
    tokens, expected = read_golden(folder)
    elmo = Elmo.load(folder / "lm_weights.hdf5")
    batches = list(zip(*tokens, strict=True))
    assert (len(batches), len(batches[0])) == (10, 3)
    texts = [sentence for batch in batches for sentence in batch]
    found = elmo.embed_tokens(texts, state="carry", batch_size=3)
    wanted = [top for batch in zip(*expected, strict=True) for top in batch]
    for embedded, top in zip(found, wanted, strict=True):
        np.testing.assert_allclose(embedded.vectors("top"), top, **CLOSE)


def test_the_old_names_give_the_originals_numbers(folder):
    tokens, expected = read_golden(folder)
    files = str(folder / "options.json"), str(folder / "lm_weights.hdf5")
    embedder = allennlp.ElmoEmbedder(*files)
    top_only = [-9e10, -9e10, 1]
    module = allennlp.Elmo(*files, 1, dropout=0, scalar_mix_parameters=top_only)
    for k, batch in enumerate(zip(*tokens, strict=True)):
        by_embedder = embedder.embed_batch(batch)
        [by_module] = module(allennlp.batch_to_ids(batch))["elmo_representations"]
        for i, sentence in enumerate(batch):
            np.testing.assert_allclose(by_embedder[i][2], expected[i][k], **CLOSE)
            np.testing.assert_allclose(
                by_module[i, : len(sentence)].detach(), expected[i][k], **CLOSE
            )


def test_the_first_batch_needs_no_carried_state(folder):
    tokens, expected = read_golden(folder)
    elmo = Elmo.load(folder / "lm_weights.hdf5")
    for sentences, tops in zip(tokens, expected, strict=True):
        np.testing.assert_allclose(
            elmo.embed_tokens([sentences[0]])[0].vectors("top"), tops[0], **CLOSE
        )


def test_the_token_layer_gives_allennlp_s_token_vectors(shared):
    folder = shared / "golden" / "allennlp"
    lines = (folder / "vocab_test.txt").read_text(encoding="utf-8").splitlines()
    bilm = Elmo.load(folder / "lm_weights.hdf5").bilm
    with h5py.File(folder / "elmo_token_embeddings.hdf5", "r") as file:
        expected = file["embedding"][...]
    # The file's first lines are the markers, spelled as in AllenNLP.
    words = [allennlp.MARKERS.get(line, line) for line in lines]
    with torch.no_grad():
        found = bilm.token_vectors(encode_words(words, 50, bilm.char_cnn.widest_filter))
    assert found.shape == (458, 16)
    np.testing.assert_allclose(found, expected, **CLOSE)
