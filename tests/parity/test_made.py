"""Our own random models: every layer of every sentence equals AllenNLP's."""

from pathlib import Path

import numpy as np
import pytest

from elmo import Elmo

MADE = Path(__file__).parent / "made"
MODELS = ["relu-1layer", "relu-2layers", "tanh-3layers"]


@pytest.mark.filterwarnings("ignore:.* words are longer")
@pytest.mark.parametrize("batch_size", [None, 1, 4])
@pytest.mark.parametrize("name", MODELS)
def test_every_layer_equals_allennlp_s(name, batch_size):
    folder = MADE / name
    text = (folder / "sentences.txt").read_text(encoding="utf-8")
    sentences = [line.split() for line in text.splitlines()]
    found = Elmo.load(folder).embed_tokens(sentences, batch_size=batch_size)
    with np.load(folder / "layers.npz") as expected:
        assert len(expected.files) == len(sentences)
        for k, embedded in enumerate(found):
            np.testing.assert_allclose(embedded.layers, expected[f"s{k}"], atol=1e-5)
