"""The token vector cache: exact, bounded, cleared when the weights change, and thread-safe."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo.inference.embedder import Embedder
from elmo.inference.token_vector_cache import TokenVectorCache
from elmo.text.characters import Marker, encode_words
from tests.conftest import TINY_OPTIONS
from tests.random_models import WORDS, build_bilm, random_weights


class Encoder:
    """Returns a vector that identifies each word, and records the words of each call."""

    def __init__(self):
        self.asked = []
        self.weight = 1.0

    def __call__(self, words):
        self.asked.append(list(words))
        return torch.tensor([[hash(word) % 1000, self.weight] for word in words]).reshape(-1, 2)

    def version(self):
        return self.weight


@pytest.fixture
def encoder():
    return Encoder()


@given(
    st.lists(st.lists(WORDS, unique=True, min_size=1, max_size=6), max_size=12),
    st.integers(0, 10),
)
def test_what_is_remembered_is_what_would_be_read_and_never_more_than_allowed(requests, n_words):
    encoder = Encoder()
    memory = TokenVectorCache(n_words, encoder, encoder.version)
    for words in requests:
        assert torch.equal(memory.vectors(words), encoder(words))
        assert len(memory) <= n_words


def test_a_word_is_read_once(encoder):
    memory = TokenVectorCache(10, encoder, encoder.version)
    memory.vectors(["a", "b"])
    memory.vectors(["b", "c", "a"])
    memory.vectors(["c"])
    assert encoder.asked == [["a", "b"], ["c"]]


def test_a_full_memory_starts_again(encoder):
    memory = TokenVectorCache(3, encoder, encoder.version)
    memory.vectors(["a", "b"])
    memory.vectors(["c", "d"])
    assert len(memory) == 2
    memory.vectors(["a"])
    assert encoder.asked == [["a", "b"], ["c", "d"], ["a"]]


def test_more_words_at_once_than_it_holds_are_read_and_not_kept(encoder):
    memory = TokenVectorCache(2, encoder, encoder.version)
    assert len(memory.vectors(["a", "b", "c"])) == 3
    assert len(memory) == 0


def test_no_words_have_no_vectors(encoder):
    memory = TokenVectorCache(2, encoder, encoder.version)
    assert len(memory.vectors([])) == 0
    memory.vectors(["a"])
    assert len(memory.vectors([])) == 0


def test_a_marker_and_its_spelling_are_two_words(encoder):
    memory = TokenVectorCache(5, encoder, encoder.version)
    memory.vectors([Marker.BEGIN_SENTENCE, "<S>", "BEGIN_SENTENCE"])
    assert len(memory) == 3


def test_another_version_forgets_everything(encoder):
    memory = TokenVectorCache(5, encoder, encoder.version)
    memory.vectors(["a", "b"])
    encoder.weight = 2.0
    assert torch.equal(memory.vectors(["a"]), encoder(["a"]))
    assert len(memory) == 1


# With a network.


def train_with(optimizer):
    def change(bilm):
        steps = optimizer(bilm.parameters())
        bilm.token_vectors(encode_words(["bow", "arrow"], 50, 3)).square().sum().backward()
        steps.step()

    return change


def load_others(bilm, **settings):
    state = build_bilm(TINY_OPTIONS, random_weights(TINY_OPTIONS, seed=9)).state_dict()
    bilm.load_state_dict(state, **settings)


def write_behind_its_back(bilm):
    bilm.char_cnn.projection.weight.data.mul_(2)


CHANGES = {
    "sgd": train_with(lambda p: torch.optim.SGD(p, lr=0.1)),
    "adam": train_with(lambda p: torch.optim.Adam(p, lr=0.1)),
    "fused adam": train_with(lambda p: torch.optim.Adam(p, lr=0.1, fused=True)),
    "fused adagrad": train_with(lambda p: torch.optim.Adagrad(p, lr=0.1, fused=True)),
    "load_state_dict": load_others,
    "load_state_dict assign": lambda bilm: load_others(bilm, assign=True),
    "to half and back": lambda bilm: bilm.to(torch.bfloat16).to(torch.float32),
    "to double": lambda bilm: bilm.to(torch.float64),
    ".data": write_behind_its_back,
}


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES.keys())
def test_changed_weights_are_noticed(bilm, change):
    embedder = Embedder(bilm, n_cached_words=100)
    [before] = embedder.embed([["a", "bow"]])
    change(bilm)
    [found] = embedder.embed([["a", "bow"]])
    [expected] = Embedder(bilm, n_cached_words=100).embed([["a", "bow"]])
    np.testing.assert_array_equal(found, expected)
    assert not np.array_equal(found, before)


def test_unchanged_weights_are_remembered_from_call_to_call(bilm):
    n_read = []
    bilm.char_cnn.register_forward_hook(lambda _, inputs, output: n_read.append(len(output)))
    embedder = Embedder(bilm, n_cached_words=100)
    embedder.embed([["a", "bow"]])
    embedder.embed([["a", "bow", "arrow"]])
    embedder.embed([["arrow"]])
    assert n_read == [4, 1], "two words and two markers, then the one that is new"


def test_a_network_made_without_versions_is_embedded_with(tiny_weights):
    with torch.inference_mode():
        bilm = build_bilm(TINY_OPTIONS, tiny_weights)
        bilm.load_state_dict({k: v.clone() for k, v in bilm.state_dict().items()}, assign=True)
    [layers] = Embedder(bilm, n_cached_words=100).embed([["a", "bow"]])
    assert layers.shape == (3, 2, 16)


@pytest.mark.parametrize("n_cached_words", [0, 5, 1000])
def test_the_size_of_the_memory_changes_no_vector(bilm, corpus, n_cached_words):
    expected = Embedder(bilm, 10_000).embed(corpus)
    embedder = Embedder(bilm, n_cached_words)
    for _ in range(2):
        for found, wanted in zip(embedder.embed(corpus, batch_size=2), expected, strict=True):
            np.testing.assert_allclose(found, wanted, atol=1e-6)
    assert len(embedder.cache) <= n_cached_words


def test_many_new_words_are_read_in_pieces_with_the_same_vectors(bilm):
    words = [f"word{'x' * (k % 40)}{k}" for k in range(1500)]
    embedder = Embedder(bilm, n_cached_words=10_000)
    with torch.inference_mode():
        found = embedder.cache.vectors(words)
        expected = bilm.token_vectors(encode_words(words, 50, 50))
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=0)


def test_eight_threads_get_what_one_gets(bilm, corpus):
    expected = Embedder(bilm, 10_000).embed(corpus)
    embedder = Embedder(bilm, n_cached_words=20)  # cleared again and again

    def embed(k):
        order = list(np.random.default_rng(k).permutation(len(corpus)))
        found = embedder.embed([corpus[i] for i in order], batch_size=1 + k % 3)
        return order, found

    with ThreadPoolExecutor(8) as threads:
        for order, found in threads.map(embed, range(24)):
            for i, layers in zip(order, found, strict=True):
                np.testing.assert_allclose(layers, expected[i], atol=1e-5)
