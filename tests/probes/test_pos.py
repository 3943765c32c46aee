"""Parts of speech, with tags that depend only on spelling, and tags that depend only on context."""

import numpy as np
import pytest

from elmo.errors import DataError
from elmo.probes.pos import classify, measure

WORDS = ["bow", "arrow", "ship", "string"]


def conllu(sentences):
    return "\n".join(
        "".join(
            f"{k}\t{word}\t_\t_\t{tag}\t_\t_\t_\t_\t_\n" for k, (word, tag) in enumerate(words, 1)
        )
        for words in sentences
    )


@pytest.fixture
def by_context(tmp_path):
    """A word's tag is the word after it, which only the backward direction knows."""
    pairs = [(one, other) for one in WORDS for other in WORDS]
    text = conllu([[(one, other), (other, "LAST")] for one, other in pairs] * 60)
    (tmp_path / "context.conllu").write_text(text)
    return tmp_path / "context.conllu"


@pytest.fixture
def by_spelling(tmp_path):
    """A word's tag is its own letters."""
    text = conllu([[(one, one), (other, other)] for one in WORDS for other in WORDS] * 60)
    (tmp_path / "spelling.conllu").write_text(text)
    return tmp_path / "spelling.conllu"


def accuracies(result):
    return {name: numbers[0] for name, numbers in result.rows.items()}


def test_what_depends_on_spelling_is_in_every_layer(elmo, by_spelling):
    found = accuracies(measure(elmo, by_spelling, by_spelling))
    assert found == {
        "most frequent tag": 100,
        "layer 0": 100,
        "layer 1": 100,
        "layer 2": 100,
    }


def test_what_depends_on_context_is_only_in_layers_above_the_first(elmo, by_context, tmp_path):
    (tmp_path / "glove.txt").write_text("bow 1 0\narrow 0 1\nship -1 0\n")  # not string
    result = measure(elmo, by_context, by_context, glove_path=tmp_path / "glove.txt")
    found = accuracies(result)
    # Half of the tags are LAST, so by spelling alone it is best to always predict LAST.
    assert found["layer 0"] == found["static vectors"] == 50
    assert found["layer 1"] > 90
    assert found["layer 2"] > 90
    assert result.settings["different tags"] == 5


def test_a_tag_that_was_not_learned_is_never_right(elmo, by_spelling, tmp_path):
    (tmp_path / "test.conllu").write_text(conllu([[("bow", "bow"), ("bow", "OTHER")]]))
    found = accuracies(measure(elmo, by_spelling, tmp_path / "test.conllu"))
    assert set(found.values()) == {50}


@pytest.mark.parametrize("dtype", [np.float16, np.float32])
def test_columns_of_any_scale_and_constant_ones_are_learned_from(dtype):
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 3, size=600)
    vectors = np.stack([classes * 100 + 50, rng.normal(size=600), np.full(600, 7.0)], axis=1)
    vectors = (vectors + 10 * rng.normal(size=vectors.shape) * [1, 0, 0]).astype(dtype)
    before = vectors.copy()
    predicted = classify(vectors[:500], [f"c{k}" for k in classes[:500]], vectors[500:])
    assert np.mean([f"c{k}" for k in classes[500:]] == np.array(predicted)) > 0.95
    np.testing.assert_array_equal(vectors, before)


def test_a_treebank_without_the_tags_is_refused(elmo, by_spelling):
    with pytest.raises(DataError, match="1 different tags in column upos, expected at least 2"):
        measure(elmo, by_spelling, by_spelling, tags="upos")
