"""Very long sentences: read in chunks with equal results, into any array, in little memory."""

import subprocess
import sys

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo.errors import ConfigError, DataError
from elmo.inference.embedder import BATCH_TOKENS
from elmo.inference.long_sentences import run_in_chunks
from elmo.network.config import BiLMConfig
from tests.conftest import ROOT, TINY_OPTIONS
from tests.random_models import build_bilm, encode_batch, random_weights

UNCHANGED = build_bilm(TINY_OPTIONS, random_weights(TINY_OPTIONS))


def random_tokens(n_tokens, n_words=300, seed=0):
    rng = np.random.default_rng(seed)
    return [f"w{k}" for k in rng.zipf(1.3, n_tokens) % n_words]


def in_chunks(bilm, tokens, n_chunk_tokens, weights):
    batch = encode_batch([tokens], 50, bilm.char_cnn.widest_filter)
    n_places = batch.word_index.shape[1]
    width = bilm.config.output_dim
    out = np.full((len(weights), n_places, width), np.nan, np.float32)
    n_written = 0

    def write(places, columns, values):
        nonlocal n_written
        assert np.isnan(out[:, places, columns]).all(), "each place once"
        out[:, places, columns] = values
        n_written += values[0].size

    with torch.no_grad():
        vectors = bilm.token_vectors(batch.char_ids)
        run_in_chunks(bilm, vectors, batch.word_index[0], weights, write, n_chunk_tokens)
        at_once = bilm(batch).layers[:, 0].numpy()
    assert n_written == n_places * width
    return out, np.tensordot(weights.numpy(), at_once, axes=1)


@given(st.integers(0, 60), st.integers(1, 70), st.integers(1, 3))
def test_chunks_of_any_size_equal_the_whole(n_tokens, n_chunk_tokens, n_sums):
    bilm = UNCHANGED
    weights = torch.randn(n_sums, 3, generator=torch.Generator().manual_seed(n_tokens))
    found, expected = in_chunks(
        bilm, random_tokens(n_tokens, seed=n_tokens), n_chunk_tokens, weights
    )
    np.testing.assert_allclose(found, expected, atol=1e-5)


@pytest.mark.parametrize("directions", [("forward",), ("backward",)])
def test_one_direction_in_chunks_equals_the_whole(bilm, directions):
    from elmo.network.bilm import BiLM

    torch.manual_seed(0)
    config = BiLMConfig(char_cnn=bilm.config.char_cnn, lstm=bilm.config.lstm, directions=directions)
    found, expected = in_chunks(BiLM(config).eval(), random_tokens(30), 7, torch.eye(3))
    np.testing.assert_allclose(found, expected, atol=1e-5)


def test_a_text_longer_than_a_batch_starts_warm_too(elmo):
    tokens = random_tokens(BATCH_TOKENS + 1)
    [warm] = elmo.embed_tokens([tokens], state="warm")
    carried = elmo.embed_tokens([[], tokens], state="carry", batch_size=1)[1]
    np.testing.assert_allclose(warm.layers, carried.layers, atol=1e-5)
    assert np.abs(warm.layers - elmo.embed_tokens([tokens])[0].layers).max() > 1e-3


def test_a_text_longer_than_a_batch_is_embedded_as_if_at_once(elmo):
    """The text is so long that `embed_tokens` itself reads it in several chunks."""
    tokens = random_tokens(BATCH_TOKENS + 900)
    short = ["a", "bow"]
    [first, long, last] = elmo.embed_tokens([short, tokens, short])
    batch = encode_batch([tokens], 50, elmo.bilm.char_cnn.widest_filter)
    with torch.no_grad():
        expected = elmo.bilm(batch).layers[:, 0, 1:-1].numpy()
    np.testing.assert_allclose(long.layers, expected, atol=1e-5)
    np.testing.assert_allclose(first.layers, last.layers, atol=1e-6)


@pytest.mark.parametrize("layers", ["average", "top", 0, [0.2, -1.0, 3.0]])
def test_one_layer_or_mix_is_written_into_an_array(elmo, layers):
    tokens = random_tokens(3000)
    out = np.full((3000, 16), np.nan, np.float32)
    elmo.embed_into(tokens, out, layers=layers)
    np.testing.assert_allclose(out, elmo.embed_tokens([tokens])[0].vectors(layers), atol=1e-5)


@pytest.mark.parametrize(("layers", "kept"), [("all", [0, 1, 2]), ("0,2", [0, 2]), ("top", [2])])
def test_several_layers_are_written_into_an_array(elmo, corpus, layers, kept):
    tokens = corpus[1]
    out = np.full((len(kept), len(tokens), 16), np.nan, np.float32)
    elmo.embed_into(tokens, out, layers=layers)
    np.testing.assert_allclose(out, elmo.embed_tokens([tokens])[0].layers[kept], atol=1e-5)


def test_a_memory_map_and_an_hdf5_dataset_are_written(elmo, tmp_path):
    tokens = random_tokens(2500)
    expected = elmo.embed_tokens([tokens])[0]
    mapped = np.lib.format.open_memmap(
        tmp_path / "top.npy", mode="w+", dtype=np.float32, shape=(2500, 16)
    )
    elmo.embed_into(tokens, mapped, layers="top")
    mapped.flush()
    np.testing.assert_allclose(np.load(tmp_path / "top.npy"), expected.vectors("top"), atol=1e-5)
    with h5py.File(tmp_path / "vectors.h5", "w") as file:
        whole = file.create_dataset("all", (3, 2500, 16), dtype=np.float16, chunks=True)
        elmo.embed_into(tokens, whole, layers="all")
        np.testing.assert_allclose(whole[()], expected.layers, atol=2e-3)


def test_no_tokens_write_nothing(elmo):
    out = np.full((1, 16), 7, np.float32)
    elmo.embed_into([], out[:0])
    assert (out == 7).all()


@pytest.mark.parametrize("shape", [(3, 16), (2, 15), (2, 2, 16), (32,)])
def test_an_array_of_the_wrong_shape_is_reported(elmo, shape):
    with pytest.raises(ConfigError, match=r"out has shape .* expected \(1, 2, 16\)"):
        elmo.embed_into(["a", "bow"], np.empty(shape, np.float32))


def test_a_text_that_nobody_split_is_reported(elmo):
    with pytest.raises(DataError, match="expected a list of tokens"):
        elmo.embed_into("a bow", np.empty((5, 16), np.float32))


def test_long_words_are_counted_here_too(elmo):
    with pytest.warns(UserWarning, match="2 words are longer than 48 bytes"):
        elmo.embed_into(["x" * 60, "y", "z" * 49], np.empty((3, 16), np.float32))


MEMORY_SCRIPT = """
import resource, sys
import numpy as np, torch
from elmo.network.bilm import BiLM
from elmo.models.model_folder import Model
from elmo.network.config import small
from elmo.api import Elmo

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024

torch.manual_seed(0)
elmo = Elmo(Model(BiLM(small()).eval()))
n_tokens = int(sys.argv[1])
words = np.random.default_rng(0).zipf(1.2, n_tokens) % 30_000
tokens = [f"word{k}" for k in words]
elmo.embed_tokens([tokens[:50]])
out = np.ones((n_tokens, elmo.output_dim), np.float32)
token_vectors = 2 * len(set(tokens)) * elmo.output_dim // 2 * 4  # remembered, and those of the text
before = peak()
elmo.embed_into(tokens, out, layers="top")
print(len(set(tokens)), peak() - before - token_vectors)
"""


@pytest.mark.slow
def test_200_000_tokens_stay_under_one_gigabyte_of_working_memory():
    command = [sys.executable, "-c", MEMORY_SCRIPT, "200000"]
    run = subprocess.run(command, check=True, capture_output=True, text=True, cwd=ROOT)
    n_words, n_bytes = map(int, run.stdout.split())
    assert n_words > 10_000
    assert n_bytes < 2**30
