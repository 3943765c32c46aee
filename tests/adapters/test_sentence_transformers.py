"""The sentence-transformers module: encoding, saving, loading, training."""

import numpy as np
import pytest
import torch

pytest.importorskip(
    "sentence_transformers",
    reason="needs sentence-transformers: pip install 'elmo-torch[sentence-transformers]'",
)

from sentence_transformers import MultiVectorEncoder, SentenceTransformer
from sentence_transformers.multi_vector_encoder.modules import MultiVectorMask
from sentence_transformers.sentence_transformer.modules import Pooling

from elmo.adapters.sentence_transformers import ElmoModule, build_multi_vector_encoder

TEXTS = ["I took a bow. He drew a bow.", "naïve 東京 🙂", "", "The violinist drew her bow."]


def build(elmo, **settings):
    module = ElmoModule(elmo, **settings)
    return SentenceTransformer(modules=[module, Pooling(module.get_embedding_dimension())])


@pytest.fixture
def model(elmo):
    return build(elmo)


def test_texts_are_encoded_as_elmo_pools_them(model, elmo):
    expected = [embedded.pooled("mean", "average") for embedded in elmo.embed(TEXTS)]
    np.testing.assert_allclose(model.encode(TEXTS), expected, atol=1e-5)
    np.testing.assert_allclose(model.encode(TEXTS, batch_size=1), expected, atol=1e-5)
    np.testing.assert_allclose(model.encode(TEXTS[0]), expected[0], atol=1e-5)


def test_tokens_have_their_vectors(model, elmo):
    vectors = model.encode(TEXTS[:2], output_value="token_embeddings")
    for found, embedded in zip(vectors, elmo.embed(TEXTS[:2]), strict=True):
        np.testing.assert_allclose(found, embedded.vectors("average"), atol=1e-5)


def test_a_saved_model_is_loaded_with_its_mix(model, tmp_path):
    with torch.no_grad():
        model[0].layer.mixes[0].weights += torch.tensor([1.0, -2.0, 0.5])
    before = model.encode(TEXTS)
    model.save(str(tmp_path / "saved"))
    # The module's class is not part of sentence-transformers, which therefore requires trust.
    loaded = SentenceTransformer(
        str(tmp_path / "saved"), trust_remote_code=True, local_files_only=True
    )
    np.testing.assert_allclose(loaded.encode(TEXTS), before, atol=1e-6)


@pytest.mark.parametrize("fine_tune", [False, True])
def test_what_is_asked_to_learn_learns(elmo, fine_tune):
    model = build(elmo, fine_tune=fine_tune)
    features = model.preprocess(TEXTS[:2])
    model(features)["sentence_embedding"].sum().backward()
    module = model[0]
    assert module.layer.mixes[0].weights.grad is not None
    has_gradients = [weight.grad is not None for weight in module.layer.bilm.parameters()]
    assert any(has_gradients) == fine_tune


def max_sim(query, document):
    """The sum over the query's words of the cosine of the most similar word."""
    query, document = (x / np.linalg.norm(x, axis=1, keepdims=True) for x in (query, document))
    return (query @ document.T).max(1).sum()


def test_texts_are_compared_word_by_word(elmo, tmp_path):
    encoder = build_multi_vector_encoder(elmo)
    queries, documents = encoder.encode_query(TEXTS[:2]), encoder.encode_document(TEXTS[-1:])
    assert [len(tokens) for tokens in queries] == [len(elmo.embed(text)) for text in TEXTS[:2]]
    expected = [
        max_sim(elmo.embed(text).vectors(), elmo.embed(TEXTS[-1]).vectors()) for text in TEXTS[:2]
    ]
    similarity = encoder.similarity(queries, documents)
    np.testing.assert_allclose(similarity[:, 0], expected, atol=1e-4)
    encoder.save(str(tmp_path / "saved"))
    loaded = MultiVectorEncoder(
        str(tmp_path / "saved"), trust_remote_code=True, local_files_only=True
    )
    again = loaded.similarity(loaded.encode_query(TEXTS[:2]), loaded.encode_document(TEXTS[-1:]))
    np.testing.assert_allclose(again, similarity, atol=1e-5)


def test_its_words_can_be_masked_as_those_of_other_models(elmo):
    encoder = MultiVectorEncoder(modules=[ElmoModule(elmo), MultiVectorMask()])
    [tokens] = encoder.encode_document(["naïve 東京"])
    np.testing.assert_allclose(tokens, elmo.embed("naïve 東京").vectors(), atol=1e-5)
