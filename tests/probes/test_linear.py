import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression

from elmo.probes.linear import train_linear


@pytest.fixture(scope="module")
def drawn():
    """Vectors of four overlapping classes, in columns of quite different sizes."""
    rng = np.random.default_rng(0)
    classes = rng.integers(0, 4, size=1000)
    centers = rng.normal(size=(4, 6))
    vectors = centers[classes] + rng.normal(size=(1000, 6))
    scaled = vectors * [1, 100, 0.01, 1, 1, 1] + [0, 50, 0, 3, 0, 0]
    return np.hstack([scaled, np.full((1000, 1), 7.0)]).astype(np.float32), classes


def test_its_weights_are_those_of_another_solver(drawn):
    vectors, classes = drawn
    probe = train_linear(vectors, classes, 4)
    standardised = probe.standardised(vectors).numpy()
    solver = LogisticRegression(C=1.0, max_iter=2000, tol=1e-8).fit(standardised, classes)
    found = probe.classifier.weight.detach().numpy()
    np.testing.assert_allclose(found, solver.coef_, atol=0.02)
    assert (probe.predict(vectors) == solver.predict(standardised)).mean() > 0.995
    assert 0.5 < probe.accuracy(vectors, classes) < 0.99


def test_vectors_in_several_parts_are_learned_as_at_once(drawn):
    vectors, classes = drawn
    once = train_linear(vectors, classes, 4)
    often = train_linear(np.tile(vectors, (20, 1)), np.tile(classes, 20), 4)
    assert (once.predict(vectors) == often.predict(vectors)).mean() > 0.98


def test_the_same_vectors_give_the_same_classifier(drawn):
    vectors, classes = drawn
    one, other = (train_linear(vectors, classes, 4) for _ in range(2))
    assert (one.classifier.weight == other.classifier.weight).all()
    half = train_linear(vectors.astype(np.float16), classes, 4)
    assert (half.predict(vectors) == one.predict(vectors)).mean() > 0.97


def test_classes_that_the_vectors_do_not_tell_are_not_learned(drawn):
    vectors, classes = drawn
    shuffled = np.random.default_rng(1).permutation(classes)
    probe = train_linear(vectors[:500], shuffled[:500], 4)
    assert probe.accuracy(vectors[500:], shuffled[500:]) < 0.35


def test_no_vectors_have_no_classes(drawn):
    vectors, classes = drawn
    assert len(train_linear(vectors[:50], classes[:50], 4).predict(vectors[:0])) == 0
