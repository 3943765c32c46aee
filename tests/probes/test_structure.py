import itertools
from dataclasses import replace

import numpy as np
import pytest

from elmo.api import Elmo
from elmo.errors import DataError
from elmo.models.model_folder import Model
from elmo.network.bilm import BiLM
from elmo.probes.structure import (
    Tree,
    measure,
    minimum_spanning_tree,
    predict,
    random_model,
    read_trees,
    score,
    train_probe,
    tree_distances,
)

# the(1) old(2) dog(3) ran(4) .(5): dog -> the, old; ran -> dog, .
HEADS = [3, 3, 4, 0, 4]


def conllu(words, heads):
    return "".join(
        f"{k}\t{word}\t_\t{'PUNCT' if word == '.' else 'X'}\t_\t_\t{head}\t_\t_\t_\n"
        for k, (word, head) in enumerate(zip(words, heads, strict=True), start=1)
    )


SENTENCE = conllu(["the", "old", "dog", "ran", "."], HEADS)


@pytest.fixture
def path(tmp_path):
    (tmp_path / "trees.conllu").write_text("\n".join([SENTENCE] * 12))
    return tmp_path / "trees.conllu"


def test_distances_count_edges():
    assert tree_distances(HEADS).tolist() == [
        [0, 2, 1, 2, 3],
        [2, 0, 1, 2, 3],
        [1, 1, 0, 1, 2],
        [2, 2, 1, 0, 1],
        [3, 3, 2, 1, 0],
    ]


def test_edges_are_without_punctuation(path):
    assert read_trees(path)[0].edges == {(0, 2), (1, 2), (2, 3)}


def test_true_distances_score_a_hundred_and_neighbors_their_part(path):
    trees = read_trees(path)
    assert score(trees, [tree.distances for tree in trees]) == pytest.approx([100, 100])
    result = score(trees, [np.abs(np.subtract.outer(range(5), range(5))) for _ in trees])
    assert result[0] == pytest.approx(200 / 3)  # old - dog and dog - ran
    assert 0 < result[1] < 100


def test_the_spanning_tree_is_the_best_of_all():
    rng = np.random.default_rng(1)
    pairs = list(itertools.combinations(range(5), 2))
    for _ in range(5):
        distances = rng.random((5, 5))
        distances = distances + distances.T

        def cost(edges, distances=distances):
            return sum(distances[edge] for edge in edges)

        trees = [edges for edges in itertools.combinations(pairs, 4) if spans(edges)]
        assert minimum_spanning_tree(distances) == set(min(trees, key=cost))
    assert minimum_spanning_tree(np.zeros((1, 1))) == set()


def spans(edges):
    reached = {0}
    for _ in edges:
        reached |= {k for edge in edges if reached & set(edge) for k in edge}
    return len(reached) == 5


def test_a_probe_finds_trees_that_vectors_encode():
    # Squared distances of these vectors are the distances in the tree: one column for each edge.
    columns = {0: [0], 1: [1], 2: [], 3: [2], 4: [2, 3]}
    vectors = np.zeros((5, 6), dtype=np.float32)
    for word, edges in columns.items():
        vectors[word, edges] = 1
    noise = np.random.default_rng(0).normal(size=(5, 6)).astype(np.float32) * [0, 0, 0, 0, 1, 1]
    words = ["the", "old", "dog", "ran", "."]
    tree = Tree(tuple(words), np.array([True] * 4 + [False]), tree_distances(HEADS))
    trees, features = [tree] * 200, np.tile(vectors + noise, (200, 1)).astype(np.float32)
    probe = train_probe(features, trees, rank=6, n_epochs=100)
    found = predict(probe, features, trees)
    assert np.abs(found[0] - tree.distances).mean() < 0.2
    assert score(trees, found)[0] == 100


def test_every_layer_is_compared_with_baselines(elmo, path):
    result = measure(elmo, path, path, rank=4, n_epochs=1)
    layers = ["layer 0", "layer 1", "layer 2"]
    assert list(result.rows) == ["neighboring words", "random biLM, layer 1", *layers]
    assert result.rows["neighboring words"][0] == pytest.approx(200 / 3)
    assert result.settings["training sentences"] == 12
    again = measure(elmo, path, path, rank=4, n_epochs=1)
    assert again.rows == result.rows


def test_without_sentences_of_the_paper_s_lengths_there_is_no_correlation(path):
    tree = read_trees(path)[0]
    short = Tree(tree.tokens[:2], tree.is_word[:2], tree_distances([2, 0]))
    assert score([short], [short.distances]) == [100, None]


def test_a_model_without_lstm_layers_has_a_random_model_too(bilm, path):
    shape = bilm.config
    static = BiLM(replace(shape, lstm=replace(shape.lstm, n_layers=0)))
    result = measure(Elmo(Model(static)), path, path, rank=4, n_epochs=1)
    assert list(result.rows) == ["neighboring words", "random biLM, layer 0", "layer 0"]


def test_a_random_model_has_other_layers_of_the_same_size(elmo):
    before = elmo.embed_tokens([["bow"]])[0].layers
    other = random_model(elmo).embed_tokens([["bow"]])[0].layers
    assert other.shape == before.shape
    assert not np.allclose(other, before)
    np.testing.assert_array_equal(elmo.embed_tokens([["bow"]])[0].layers, before)


@pytest.mark.parametrize(
    ("heads", "message"),
    [
        ([3, 3, 4, 0, "_"], ":5: the head '_'"),
        ([3, 3, 4, 0, 9], ":5: the head '9'"),
        ([2, 1, 4, 0, 4], ":1: the heads are not a tree"),
        ([2, 3, 1, 3, 3], ":1: the heads are not a tree"),
    ],
)
def test_broken_trees_are_named(tmp_path, heads, message):
    (tmp_path / "a.conllu").write_text(conllu(["the", "old", "dog", "ran", "."], heads))
    with pytest.raises(DataError, match=message):
        read_trees(tmp_path / "a.conllu")
