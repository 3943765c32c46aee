import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from elmo.errors import DataError
from elmo.probes.linear import train_linear


@pytest.fixture(scope="module")
def drawn():
    """Vectors of four overlapping classes, in columns of quite different sizes."""
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 4, size=3000)
    centres = rng.normal(size=(4, 6))
    vectors = centres[classes] + rng.normal(size=(3000, 6))
    scaled = vectors * [1, 100, 0.01, 1, 1, 1] + [0, 50, 0, 3, 0, 0]
    return np.hstack([scaled, np.full((3000, 1), 7.0)]).astype(np.float32), classes


def test_it_is_as_good_as_a_solver_that_goes_to_the_optimum(drawn):
    vectors, classes = drawn
    learned, tested = slice(2000), slice(2000, None)
    probe = train_linear(vectors[learned], classes[learned], 4)
    solver = LogisticRegression(max_iter=2000).fit(
        probe.standardised(vectors[learned]).numpy(), classes[learned]
    )
    expected = solver.score(probe.standardised(vectors[tested]).numpy(), classes[tested])
    assert 0.5 < expected < 0.95
    assert probe.accuracy(vectors[tested], classes[tested]) == pytest.approx(expected, abs=0.02)


def test_the_same_vectors_give_the_same_classifier(drawn):
    vectors, classes = drawn
    one, other = (train_linear(vectors[:500], classes[:500], 4) for _ in range(2))
    assert (one.classifier.weight == other.classifier.weight).all()
    half = train_linear(vectors[:500].astype(np.float16), classes[:500], 4)
    assert (half.predict(vectors) == one.predict(vectors)).mean() > 0.97


def test_classes_that_the_vectors_do_not_tell_are_not_learned(drawn):
    vectors, classes = drawn
    shuffled = np.random.default_rng(1).permutation(classes)
    probe = train_linear(vectors[:2000], shuffled[:2000], 4)
    assert probe.accuracy(vectors[2000:], shuffled[2000:]) < 0.33


def test_no_vectors_have_no_classes(drawn):
    vectors, classes = drawn
    assert len(train_linear(vectors[:50], classes[:50], 4).predict(vectors[:0])) == 0


def test_too_few_vectors_are_refused(drawn):
    vectors, classes = drawn
    with pytest.raises(DataError, match="4 words to learn from, expected enough"):
        train_linear(vectors[:4], classes[:4], 4)
