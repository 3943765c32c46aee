import numpy as np
import pytest

from elmo.probes.senses import (
    compare_nearest,
    count_same_sense,
    measure,
    words_of_several_senses,
)
from elmo.search.wordnet.sentences import SenseExample, read_written


def example(key, *tokens, word="bow"):
    return SenseExample(key, tokens.index(word), list(tokens))


EXAMPLES = [
    example("bow%1:10:00::", "I", "took", "a", "bow", "."),
    example("bow%1:10:00::", "We", "took", "a", "bow", "."),
    example("bow%1:06:01::", "with", "bow", "and", "arrow"),
    example("bow%1:06:01::", "of", "bow", "and", "arrow"),
    example("bow%1:06:02::", "at", "the", "bow"),  # the only example of its sense
    example("bow%1:06:01::", "a", "bow"),  # the same sentence for two senses
    example("bow%1:10:00::", "a", "bow"),
    example("play%1:04:00::", "a", "play", word="play"),
    example("play%1:04:00::", "the", "play", word="play"),  # a word of one sense only
]


def test_words_with_several_examples_of_several_senses_are_taken():
    assert words_of_several_senses(EXAMPLES) == [EXAMPLES[:4]]


def test_the_nearest_other_one_counts_and_equal_ones_count_in_part():
    same = np.array([[1, 1, 0, 0], [1, 1, 0, 0], [0, 0, 1, 1], [0, 0, 1, 1]], dtype=bool)
    near = np.array([[1, 0], [1, 0.1], [0, 1], [0.1, 1]])
    assert count_same_sense(near, same) == 4
    crossed = near[[0, 2, 1, 3]]
    assert count_same_sense(crossed, same) == 0
    assert count_same_sense(np.ones((4, 3)), same) == pytest.approx(4 / 3)
    assert count_same_sense(np.zeros((4, 3)), same) == pytest.approx(4 / 3)


def cosine(one, other):
    return one @ other / np.linalg.norm(one) / np.linalg.norm(other)


@pytest.mark.parametrize("state", ["fresh", "warm"])
def test_layer_0_is_chance_and_the_others_are_as_counted_one_by_one(elmo, state):
    group = EXAMPLES[:4]
    share = compare_nearest(elmo, [group], state)
    assert share.n_occurrences == 4
    assert share.chance == pytest.approx(100 / 3)
    assert share.by_layer[0] == pytest.approx(share.chance, abs=1e-3)
    embedded = elmo.embed_tokens([one.tokens for one in group], state=state)
    for layer in (1, 2):
        vectors = [e.layers[layer, g.position] for e, g in zip(embedded, group, strict=True)]
        n_same = 0
        for k, one in enumerate(group):
            others = [j for j in range(4) if j != k]
            nearest = max(others, key=lambda j, k=k: cosine(vectors[j], vectors[k]))
            n_same += group[nearest].key == one.key
        assert share.by_layer[layer] == pytest.approx(25 * n_same)


def test_all_words_of_ours_and_those_of_wordnet_are_measured(elmo):
    result = measure(elmo)
    assert list(result.columns) == ["WordNet's examples", "bow", "play", "bank", "spring", "fair"]
    assert result.settings["occurrences of our own"] == len(read_written())
    assert result.rows["layer 0"] == pytest.approx(result.rows["chance"], abs=0.1)
    assert result.settings["words"] > 500
