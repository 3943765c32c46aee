"""Search in the package's own sentences finds what an index of all of them would find."""

import numpy as np
import pytest

from elmo.errors import ConfigError
from elmo.inference.occurrence import Occurrence
from elmo.search.build import temporary_index
from elmo.search.examples import MOST_SENTENCES_WITH_A_WORD, ExampleIndex, default_sentences
from elmo.search.neighbors import find_neighbors, open_index


def shown(neighbors):
    return [
        (list(found.occurrence.tokens), found.occurrence.position, round(found.similarity, 2))
        for found in neighbors.in_context
    ]


@pytest.mark.parametrize("layers", ["top", "average", 0, [0.5, 0, 0.5]])
@pytest.mark.parametrize("any_word", [False, True])
def test_it_finds_what_an_index_of_all_sentences_finds(elmo, corpus, layers, any_word):
    occurrence = Occurrence(["They", "drew", "a", "Bow", "."], 3)
    ask = {"layers": layers, "any_word": any_word}
    found = find_neighbors(elmo, ExampleIndex(elmo, corpus), occurrence, 5, **ask)
    expected = find_neighbors(elmo, temporary_index(elmo, corpus), occurrence, 5, **ask)
    # Equal up to rounding: an index stores float16.
    similarities = [neighbor.similarity for neighbor in found.in_context]
    assert similarities == pytest.approx(
        [neighbor.similarity for neighbor in expected.in_context], abs=2e-3
    )
    if not any_word and layers != 0:
        assert [tokens for tokens, _, _ in shown(found)] == [
            tokens for tokens, _, _ in shown(expected)
        ]


def test_its_similar_words_are_the_nearest_by_layer_0(elmo, corpus):
    index = ExampleIndex(elmo, corpus)
    vector = elmo.embed_tokens([["bows"]])[0].layers[0, 0, : index.projection_dim]
    words = sorted({token.casefold() for tokens in corpus for token in tokens} - {"bow"})
    vectors = elmo.embed_tokens([words])[0].layers[0, :, : index.projection_dim]
    cosines = vectors @ vector / np.linalg.norm(vectors, axis=1) / np.linalg.norm(vector)
    found = index.similar_words(vector, 4, besides="Bow")
    assert [word.similarity for word in found] == pytest.approx(sorted(cosines)[:-5:-1], abs=1e-5)
    assert found[0].word == words[int(cosines.argmax())]
    assert len(index.similar_words(vector, 10_000)) == len(words) + 1


def test_the_sentence_itself_and_a_word_of_no_sentence_have_no_neighbors(elmo, corpus):
    index = ExampleIndex(elmo, corpus)
    itself = find_neighbors(elmo, index, Occurrence(corpus[3], 0), 10)
    assert corpus[3] not in [tokens for tokens, _, _ in shown(itself)]
    assert len(itself.in_context) == 4
    nothing = find_neighbors(elmo, index, Occurrence(["unheard-of"], 0), 3)
    assert nothing.in_context == []
    assert len(nothing.without_context) == 3


def test_of_a_word_in_very_many_sentences_some_of_all_parts_are_looked_at(elmo):
    n_sentences = 2 * MOST_SENTENCES_WITH_A_WORD
    index = ExampleIndex(elmo, [["bow", str(number)] for number in range(n_sentences)])
    found = find_neighbors(elmo, index, Occurrence(["bow"], 0), n_sentences)
    numbers = sorted(int(tokens[1]) for tokens, _, _ in shown(found))
    assert numbers == list(range(0, n_sentences, 2))


@pytest.mark.parametrize("k", [0, -1])
def test_fewer_neighbors_than_one_are_refused(elmo, corpus, k):
    index = ExampleIndex(elmo, corpus)
    with pytest.raises(ConfigError, match=f"k is {k}, expected at least 1"):
        index.nearest(elmo.embed_tokens([["bow"]])[0].layers[:, 0], k)
    with pytest.raises(ConfigError, match=f"k is {k}, expected at least 1"):
        index.similar_words(np.ones(index.projection_dim), k)


def test_several_layers_are_refused(elmo, corpus):
    layers = elmo.embed_tokens([["bow"]])[0].layers[:, 0]
    with pytest.raises(ConfigError, match="selects several layers"):
        ExampleIndex(elmo, corpus).nearest(layers, 3, mix="all")


def test_without_a_text_the_sentences_of_the_package_are_looked_through(elmo):
    index = open_index(elmo)
    found = find_neighbors(elmo, index, Occurrence.marked("They took another *bow*."), 100)
    tokens = [tokens for tokens, _, _ in shown(found)]
    assert ["I", "took", "a", "bow", "."] in tokens
    assert [
        "he",
        "pointed",
        "the",
        "bow",
        "of",
        "the",
        "boat",
        "toward",
        "the",
        "finish",
        "line",
    ] in tokens
    sentences = default_sentences()
    assert len({tuple(tokens) for tokens in sentences}) == len(sentences)
    assert len(index) == sum(map(len, sentences))
