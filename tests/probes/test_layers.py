import numpy as np
import pytest

from elmo.probes.layers import embed_tokens, normalize


@pytest.mark.parametrize("state", ["fresh", "warm", "carry"])
def test_features_are_the_layers_of_all_tokens_in_order(elmo, corpus, state):
    sentences = [*corpus[:4], [], *corpus[4:6]]
    features = embed_tokens(elmo, sentences, state)
    expected = [embedded.layers for embedded in elmo.embed_tokens(sentences, state=state)]
    np.testing.assert_allclose(features, np.concatenate(expected, axis=1), atol=2e-3)


def test_normalized_vectors_have_length_one_and_zeros_stay():
    vectors = np.array([[[3.0, 4.0], [0.0, 0.0]]])
    np.testing.assert_allclose(normalize(vectors), [[[0.6, 0.8], [0.0, 0.0]]])
    assert normalize(vectors, out=vectors) is vectors
