"""The scikit-learn transformers: pipelines, clones, grid search, persistence."""

import json
import pickle

import numpy as np
import pytest

pytest.importorskip("sklearn", reason="needs scikit-learn: pip install 'elmo-torch[sklearn]'")

from sklearn.base import clone
from sklearn.linear_model import LogisticRegression
from sklearn.model_selection import GridSearchCV
from sklearn.pipeline import FeatureUnion, make_pipeline

from elmo.adapters.sklearn import SentenceVectorizer, TokenFeatures, occurrences
from elmo.api import Elmo
from elmo.errors import CheckpointError, ConfigError, DataError

TEXTS = [
    "I took a bow.",
    "He was wielding a bow and arrow.",
    "They stood at the bow.",
    "naïve 東京",
]


@pytest.fixture
def folder(elmo, tmp_path):
    elmo.save(tmp_path / "model")
    return tmp_path / "model"


@pytest.mark.parametrize("pooling", ["mean", "max"])
@pytest.mark.parametrize("layers", ["top", 0, [0.2, 0.3, 0.5]])
def test_a_text_s_vector_is_what_elmo_pools(folder, elmo, pooling, layers):
    vectors = SentenceVectorizer(folder, layers=layers, pooling=pooling).fit_transform(TEXTS)
    expected = [embedded.pooled(pooling, layers) for embedded in elmo.embed(TEXTS)]
    np.testing.assert_allclose(vectors, expected, atol=1e-6)


def test_token_lists_and_empty_input_are_taken(folder):
    vectorizer = SentenceVectorizer(folder)
    tokens = SentenceVectorizer(folder, is_tokenized=True)
    assert tokens.transform([["already", "tokens"], []]).shape == (2, 16)
    assert not tokens.transform([[]]).any()
    assert vectorizer.transform([]).shape == (0, 16)
    assert vectorizer.transform(["bow", "arrow"]).shape == (2, 16)
    assert vectorizer.transform(np.array(TEXTS, dtype=object)).shape == (4, 16)


def test_a_single_text_is_refused(folder):
    with pytest.raises(DataError, match="expected a list of texts"):
        SentenceVectorizer(folder).transform("I took a bow.")


def test_tokens_have_their_vectors_in_context(folder, elmo, corpus):
    vectors = TokenFeatures(folder, layers="top").fit_transform(list(occurrences(corpus)))
    expected = np.concatenate([embedded.vectors("top") for embedded in elmo.embed_tokens(corpus)])
    np.testing.assert_allclose(vectors, expected, atol=1e-5)
    chosen = [(corpus[0], 3), (corpus[1], 4), (corpus[0], 0)]
    some = TokenFeatures(folder, layers="top").transform(chosen)
    places = [3, len(corpus[0]) + 4, 0]
    np.testing.assert_allclose(some, expected[places], atol=1e-5)


def test_a_text_is_not_taken_for_the_characters_of_its_words(folder):
    with pytest.raises(DataError, match="a sentence is the text 'I took', expected a list of tok"):
        TokenFeatures(folder).transform([("I took", 1)])


@pytest.mark.parametrize("place", [-1, 5])
def test_a_place_outside_its_sentence_is_reported(folder, place):
    with pytest.raises(DataError, match=f"position {place} in the sentence 'I took a bow .'"):
        TokenFeatures(folder).transform([(["I", "took", "a", "bow", "."], place)])


def test_a_pipeline_learns_predicts_and_is_searched(folder):
    pipeline = make_pipeline(SentenceVectorizer(folder), LogisticRegression(C=1e6, max_iter=2000))
    labels = [0, 1, 0, 1]
    search = GridSearchCV(
        pipeline, {"sentencevectorizer__layers": ["top", "average"]}, cv=2, error_score="raise"
    )
    search.fit(TEXTS, labels)
    assert (pipeline.fit(TEXTS, labels).predict(TEXTS) == labels).all()


def test_feature_names_are_those_of_scikit_learn(folder):
    vectorizer = SentenceVectorizer(folder).fit(TEXTS)
    names = vectorizer.get_feature_names_out()
    assert names[0] == "sentencevectorizer0"
    assert len(names) == vectorizer.transform(TEXTS).shape[1]
    both = FeatureUnion(
        [("top", SentenceVectorizer(folder, layers="top")), ("max", SentenceVectorizer(folder))]
    ).fit(TEXTS)
    assert len(set(both.get_feature_names_out())) == both.transform(TEXTS).shape[1] == 32


def test_clones_and_pickles_are_settings_without_weights(folder):
    vectorizer = SentenceVectorizer(folder, layers="top").fit(TEXTS)
    pickled = pickle.dumps(vectorizer)
    assert len(pickled) < 1000
    for copy in (clone(vectorizer), pickle.loads(pickled)):
        assert copy.get_params() == vectorizer.get_params()
        np.testing.assert_array_equal(copy.transform(TEXTS), vectorizer.transform(TEXTS))


def test_settings_are_saved_without_pickle(folder, tmp_path):
    path = tmp_path / "vectorizer.json"
    SentenceVectorizer(folder, layers=[0.0, 0.5, 0.5], pooling="max").save(path)
    assert json.loads(path.read_text())["pooling"] == "max"
    loaded = SentenceVectorizer.load(path)
    assert loaded.get_params() == {
        "model": str(folder),
        "layers": [0.0, 0.5, 0.5],
        "pooling": "max",
        "is_tokenized": False,
    }
    with pytest.raises(ConfigError, match="no settings of a TokenFeatures"):
        TokenFeatures.load(path)
    with pytest.raises(ConfigError, match="expected what its `save` wrote"):
        SentenceVectorizer.load(tmp_path / "absent.json")


def test_layers_may_be_an_array(folder, tmp_path):
    vectorizer = SentenceVectorizer(folder, layers=np.array([0.0, 0.5, 0.5]))
    vectorizer.save(tmp_path / "vectorizer.json")
    loaded = SentenceVectorizer.load(tmp_path / "vectorizer.json")
    np.testing.assert_array_equal(loaded.transform(TEXTS), vectorizer.transform(TEXTS))


@pytest.mark.parametrize("settings", [{}, {"model": "english"}])
def test_a_model_is_opened_by_its_name(settings, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    expected = Elmo.load().embed(TEXTS[0]).pooled()
    vectors = SentenceVectorizer(**settings).fit_transform(TEXTS)
    np.testing.assert_allclose(vectors[0], expected, atol=1e-5)
    assert TokenFeatures(**settings).transform([(["bow"], 0)]).shape == (1, len(expected))
    with pytest.raises(CheckpointError, match="englisch: no such file or folder"):
        SentenceVectorizer("englisch").fit(TEXTS)


def test_a_wrong_path_is_reported_when_fitting(tmp_path):
    with pytest.raises(CheckpointError, match="no such file or folder"):
        SentenceVectorizer(tmp_path / "absent").fit(TEXTS)


@pytest.mark.parametrize("in_place", [False, True])
def test_a_model_that_was_replaced_is_opened_anew(folder, bilm, elmo, tmp_path, in_place):
    vectorizer = SentenceVectorizer(folder)
    before = vectorizer.transform(TEXTS)
    for parameter in bilm.parameters():
        parameter.data.mul_(0.5)
    elmo.save(tmp_path / "other" if in_place else folder)
    if in_place:  # the time of the folder stays the same
        weights = (tmp_path / "other" / "model.safetensors").read_bytes()
        (folder / "model.safetensors").write_bytes(weights)
    assert not np.allclose(vectorizer.transform(TEXTS), before)
