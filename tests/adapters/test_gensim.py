"""gensim takes the vectors, from memory and from files."""

import numpy as np
import pytest

pytest.importorskip("gensim", reason="needs gensim: pip install 'elmo-torch[gensim]'")

from gensim.models import KeyedVectors

from elmo.adapters.gensim import to_keyed_vectors
from elmo.vectors.static import static_from_text, static_from_words


def test_keyed_vectors_hold_the_same_words_and_vectors(elmo, corpus):
    static = static_from_text(elmo, corpus)
    keyed = to_keyed_vectors(static)
    assert keyed.index_to_key == static.words
    np.testing.assert_array_equal(keyed.vectors, static.vectors)
    assert keyed.most_similar("bow", topn=3)
    assert keyed.similarity("bow", "bow") == pytest.approx(1, abs=1e-5)


@pytest.mark.parametrize("name", ["v.txt", "v.bin"])
def test_gensim_reads_the_files(elmo, tmp_path, name):
    static = static_from_words(elmo, ["bow", "東京", "🙂", "naïve"])
    static.write(tmp_path / name)
    keyed = KeyedVectors.load_word2vec_format(tmp_path / name, binary=name.endswith("bin"))
    assert keyed.index_to_key == static.words
    np.testing.assert_array_equal(keyed.vectors, static.vectors)
