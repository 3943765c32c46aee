"""Models in the layouts of other projects, written by their own code, with their own numbers."""

from pathlib import Path

import numpy as np
import pytest

from elmo import Elmo

MADE = Path(__file__).parent / "made"


@pytest.mark.filterwarnings("ignore:.* words are longer")
@pytest.mark.parametrize(
    ("path", "mix"),
    [("allennlp-archive/model.tar.gz", "scalar_mix_0"), ("tf-hub", "aggregation")],
)
def test_the_learned_sum_of_a_tuned_model_is_that_of_the_project_that_wrote_it(path, mix):
    elmo = Elmo.load(MADE / path)
    folder = MADE / path.split("/")[0]
    sentences = (folder / "sentences.txt").read_text(encoding="utf-8").splitlines()
    with np.load(folder / "mixed.npz") as expected:
        assert len(expected.files) == len(sentences)
        for k, embedded in enumerate(elmo.embed_tokens([line.split() for line in sentences])):
            vectors = embedded.vectors(elmo.mixes[mix].layers)
            np.testing.assert_allclose(vectors, expected[f"s{k}"], atol=1e-5)
