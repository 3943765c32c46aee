import numpy as np
import pytest

from elmo.probes.features import embed_tokens


@pytest.mark.parametrize("state", ["fresh", "warm", "carry"])
def test_features_are_the_layers_of_all_tokens_in_their_order(elmo, corpus, state):
    sentences = [*corpus[:4], [], *corpus[4:6]]
    features = embed_tokens(elmo, sentences, state)
    expected = [embedded.layers for embedded in elmo.embed(sentences, state=state)]
    np.testing.assert_allclose(features, np.concatenate(expected, axis=1), atol=2e-3)
