"""Graph search, compared with exhaustive search."""

import sys
from collections import Counter

import numpy as np
import pytest

from elmo.api import Elmo
from elmo.errors import CheckpointError, ConfigError, MissingExtraError
from elmo.models.model_folder import Model
from elmo.search.build import build_index
from elmo.search.graph import WordGraph, write_graphs
from elmo.search.index import WordIndex
from tests.conftest import TINY_OPTIONS
from tests.random_models import build_bilm, random_weights

TEXT = "the a bow arrow ship strings she he they took drew stood at of and old cold . , ;"
WORDS = TEXT.split()


@pytest.fixture(scope="module")
def model():
    return Elmo(Model(build_bilm(TINY_OPTIONS, random_weights(TINY_OPTIONS, seed=1))))


@pytest.fixture(scope="module")
def sentences():
    """4,000 words, of which "the" is a sixth; some sentences come twice."""
    draw = np.random.default_rng(7)
    shares = np.array([4.0] + [1.0] * (len(WORDS) - 1))
    made = [draw.choice(WORDS, 10, p=shares / shares.sum()).tolist() for _ in range(400)]
    return [*made[:350], *made[:50]]


@pytest.fixture(scope="module")
def folder(model, sentences, tmp_path_factory):
    folder = tmp_path_factory.mktemp("graph") / "index"
    assert build_index(model, sentences, folder, graph_from=4000).has_graph
    return folder


@pytest.fixture(scope="module")
def exact(folder, model):
    return WordIndex(folder, model, max_compared=10**9)


@pytest.fixture(scope="module")
def by_graph(folder, model):
    return WordIndex(folder, model, max_compared=0)


def places(found):
    """Positions of the neighbors; the last bits of their cosines depend on the summation order."""
    return [(neighbor.occurrence.tokens, neighbor.occurrence.position) for neighbor in found]


def occurrences(model, sentences):
    """Layers (L+1, D), word and sentence of one word of each sentence."""
    for number, embedded in enumerate(model.embed_tokens(sentences)):
        place = number % len(embedded.tokens)
        yield embedded.layers[:, place], embedded.tokens[place], embedded.tokens


@pytest.mark.parametrize("of_one_word", [False, True])
def test_the_graph_finds_what_a_look_at_all_finds(model, sentences, exact, by_graph, of_one_word):
    n_found = n_expected = 0
    for layers, word, besides in occurrences(model, sentences[:60]):
        ask = {"k": 10, "word": word if of_one_word else None, "besides": besides}
        expected = places(exact.nearest(layers, **ask))
        n_found += sum(place in expected for place in places(by_graph.nearest(layers, **ask)))
        n_expected += len(expected)
    assert n_expected == 600
    assert n_found >= 0.98 * n_expected


def test_a_word_that_is_far_from_all_that_the_graph_finds_is_looked_for_everywhere(
    model, sentences, exact, by_graph
):
    for layers, _, _ in occurrences(model, sentences[:20]):
        for k in (1, 10, 1000):
            found, expected = (index.nearest(layers, k, word="bow") for index in (by_graph, exact))
            assert places(found) == places(expected)
            similarities = [neighbor.similarity for neighbor in expected]
            assert [n.similarity for n in found] == pytest.approx(similarities, abs=1e-5)


def test_a_word_that_the_text_lacks_is_not_found(model, sentences, by_graph):
    layers, _, _ = next(occurrences(model, sentences))
    assert by_graph.nearest(layers, 5, word="zither") == []


def test_any_word_is_searched_by_the_layers_that_are_linked(model, sentences, by_graph, exact):
    layers, word, _ = next(occurrences(model, sentences))
    with pytest.raises(ConfigError, match="the mix of the graph"):
        by_graph.nearest(layers, 5, mix="average")
    found = by_graph.nearest(layers, 5, mix="average", word=word)
    assert places(found) == places(exact.nearest(layers, 5, mix="average", word=word))
    twice_as_long = by_graph.nearest(layers, 5, mix=[0, 0, 2])
    assert places(twice_as_long) == places(by_graph.nearest(layers, 5, mix="top"))


def test_a_search_compares_more_numbers_with_more_rows_or_layers(sentences, exact, by_graph):
    rows = Counter(word for tokens in sentences for word in tokens)
    words = 8 * len(WORDS)  # their vectors without context
    assert exact.n_compared("zither", "top") == words
    assert exact.n_compared("Bow", "top") == 16 * rows["bow"] + words
    assert exact.n_compared(None, "top") == exact.n_compared(None, [0, 0, 0]) == 16 * 4000 + words
    assert exact.n_compared(None, "average") == 3 * 16 * 4000 + words
    assert by_graph.n_compared(None, "top") == 16 * 1024 + words
    # The graph was built from the top layer.
    assert by_graph.n_compared("bow", "average") == 3 * 16 * rows["bow"] + words


def test_a_graph_of_other_layers_finds_by_them(model, sentences, tmp_path):
    mix = [0.5, 0.2, 0.3]
    build_index(model, sentences, tmp_path, layers=mix, graph_from=0)
    by_graph = WordIndex(tmp_path, model, max_compared=0)
    exact = WordIndex(tmp_path, model)
    n_found = 0
    for layers, _, _ in occurrences(model, sentences[:20]):
        expected = places(exact.nearest(layers, 10, mix=mix))
        found = places(by_graph.nearest(layers, 10, mix=mix))
        n_found += sum(place in expected for place in found)
    assert n_found >= 0.98 * 200


@pytest.mark.parametrize("max_rows", [None, 300, 1])
def test_several_graphs_are_searched_as_one(tmp_path, max_rows):
    vectors = np.random.default_rng(3).normal(size=(1000, 16)).astype(np.float32)
    write_graphs(tmp_path, np.split(vectors, 10), max_rows)
    n_graphs = {None: 1, 300: 4, 1: 10}[max_rows]
    assert len(list(tmp_path.glob("graph-*.usearch"))) == n_graphs
    graph = WordGraph(tmp_path, np.array([0, 1]), 1000)
    unit = vectors / np.linalg.norm(vectors, axis=1, keepdims=True)
    n_found = 0
    for asked in unit[:20]:
        nearest = np.argsort(-(unit @ asked))[:10]
        found = graph.near(asked, 50)
        assert len(found) == len(set(found.tolist())) == 50
        n_found += len(np.intersect1d(nearest, found))
    assert n_found >= 0.98 * 200


@pytest.mark.parametrize("n_kept", [None, 0, 100, -10])
def test_half_a_graph_is_refused(model, sentences, tmp_path, n_kept):
    build_index(model, sentences, tmp_path, graph_from=0)
    path = tmp_path / "graph-0.usearch"
    content = path.read_bytes()
    path.unlink()
    if n_kept is not None:
        path.write_bytes(content[:n_kept])
    with pytest.raises(CheckpointError, match="not a complete index"):
        WordIndex(tmp_path, model)


def test_an_index_with_a_graph_is_replaced(model, sentences, tmp_path):
    build_index(model, sentences, tmp_path, graph_from=0)
    assert not build_index(model, sentences, tmp_path, graph_from=None).has_graph
    assert not list(tmp_path.glob("graph-*"))


def test_a_small_text_needs_no_library_and_a_large_one_says_which(
    model, sentences, tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, "usearch", None)
    assert not build_index(model, sentences, tmp_path / "small").has_graph
    with pytest.raises(MissingExtraError, match=r"elmo-torch\[index\]"):
        build_index(model, sentences, tmp_path / "large", graph_from=4000)
    assert [path.name for path in tmp_path.iterdir()] == ["small"]
