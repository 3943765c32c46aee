"""Token caches: static vectors by a list of words, as bilm and AllenNLP dump them."""

import h5py
import numpy as np
import pytest

from elmo.api import Elmo
from elmo.errors import CheckpointError
from elmo.models import formats
from elmo.text.vocabulary import RESERVED
from elmo.vectors.static import static_from_words

WORDS = ["bow", "the", "東京"]


def write_cache(folder, words, table):
    folder.mkdir(exist_ok=True)
    with h5py.File(folder / "tokens.hdf5", "w") as file:
        file["embedding"] = table
    (folder / "vocab.txt").write_text("".join(f"{word}\n" for word in words), encoding="utf-8")
    return folder / "tokens.hdf5"


@pytest.fixture
def table():
    return np.random.default_rng(0).normal(size=(len(WORDS), 4)).astype(np.float32)


def test_words_have_their_rows_and_others_zero(tmp_path, table):
    elmo = Elmo.load(write_cache(tmp_path / "cache", WORDS, table))
    layers = elmo.embed_tokens([["東京", "bow", "unlisted"], []])[0].layers
    assert layers.shape == (1, 3, 4)
    np.testing.assert_array_equal(layers[0], [table[2], table[0], np.zeros(4)])


def test_the_unknown_word_of_a_vocabulary_is_used(tmp_path, table):
    whole = np.concatenate([np.arange(12, dtype=np.float32).reshape(3, 4), table])
    elmo = Elmo.load(write_cache(tmp_path / "cache", [*RESERVED, *WORDS], whole))
    layers = elmo.embed_tokens([["unlisted", "<S>", "the"]])[0].layers
    np.testing.assert_array_equal(layers[0], [whole[2], whole[2], whole[4]])


def test_a_cache_is_a_model_like_others(tmp_path, table):
    path = write_cache(tmp_path / "cache", WORDS, table)
    assert formats.find(path).kind == "token-cache"
    elmo = Elmo.load(path)
    elmo.save(tmp_path / "ours")
    np.testing.assert_array_equal(
        static_from_words(Elmo.load(tmp_path / "ours"), WORDS).vectors, table
    )
    long_text = ["bow", "the"] * 5000
    assert elmo.embed_tokens([long_text])[0].layers.shape == (1, 10000, 4)
    assert elmo.embed_tokens([WORDS, ["bow"]], state="carry")[1].layers.shape == (1, 1, 4)


def test_the_golden_cache_has_the_vectors_of_its_model(shared):
    golden = shared / "golden" / "allennlp"
    cache = Elmo.load(golden / "elmo_token_embeddings.hdf5", vocabulary=golden / "vocab_test.txt")
    lines = (golden / "vocab_test.txt").read_text(encoding="utf-8").split("\n")[:-1]
    words = [word for word in lines if word not in RESERVED]
    model = Elmo.load(golden / "lm_weights.hdf5")
    found, expected = static_from_words(cache, words), static_from_words(model, words)
    np.testing.assert_allclose(found.vectors, expected.vectors, atol=1e-6)


def test_a_cache_without_its_vocabulary_is_reported(tmp_path, table):
    path = write_cache(tmp_path / "cache", WORDS[:2], table)
    with pytest.raises(CheckpointError, match=r"vocab\.txt: 3 rows, expected 2"):
        Elmo.load(path)
    path.with_name("vocab.txt").unlink()
    with pytest.raises(CheckpointError, match="expected the vocabulary of its rows"):
        Elmo.load(path)
