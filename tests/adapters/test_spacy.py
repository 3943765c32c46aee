"""The spaCy component: pipelines, vectors, serialization, training."""

import numpy as np
import pytest

pytest.importorskip("spacy", reason="needs spaCy: pip install 'elmo-torch[spacy]'")

import spacy
from spacy.tokens import Doc
from spacy.training import Example

from elmo.adapters.spacy import build_tok2vec, set_hooks
from elmo.api import Elmo
from elmo.errors import CheckpointError

TEXT = "I took a bow. He was wielding a bow\n\nand an arrow."


@pytest.fixture
def folder(elmo, tmp_path):
    elmo.save(tmp_path / "model")
    return tmp_path / "model"


@pytest.fixture
def nlp(folder):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model": str(folder), "layers": "top"})
    return nlp


def test_tokens_have_the_vectors_of_their_words(nlp, elmo):
    doc = nlp(TEXT)
    words = [token for token in doc if not token.is_space]
    expected = elmo.embed_tokens([[token.text for token in words]])[0].vectors("top")
    assert doc.tensor.shape == (len(doc), elmo.output_dim)
    np.testing.assert_allclose([token.vector for token in words], expected, atol=1e-5)
    assert not any(token.vector.any() for token in doc if token.is_space)
    assert all(token.has_vector for token in doc)


def test_sentences_are_read_alone_where_there_are_sentences(nlp, elmo):
    nlp.add_pipe("sentencizer", before="elmo")
    doc = nlp(TEXT)
    first = next(doc.sents)
    assert len(list(doc.sents)) == 2
    expected = elmo.embed_tokens([[token.text for token in first]])[0].vectors("top")
    np.testing.assert_allclose([token.vector for token in first], expected, atol=1e-5)


def test_pieces_are_alike_by_their_vectors(nlp):
    doc = nlp(TEXT)
    np.testing.assert_allclose(doc.vector, doc.tensor.mean(0), atol=1e-6)
    np.testing.assert_allclose(doc[1:4].vector, doc.tensor[1:4].mean(0), atol=1e-6)
    one, other = doc[3], doc[9]
    cosine = one.vector @ other.vector / np.sqrt((one.vector**2).sum() * (other.vector**2).sum())
    assert one.similarity(other) == pytest.approx(cosine, abs=1e-5)
    assert doc.similarity(nlp(TEXT)) == pytest.approx(1, abs=1e-5)
    for piece in (doc, doc[0:2], doc[3]):
        assert piece.vector_norm == pytest.approx(np.linalg.norm(piece.vector), rel=1e-5)
    assert doc[0:2].similarity(doc[0:2]) == pytest.approx(1, abs=1e-5)


def test_a_stored_doc_has_its_vectors_again_once_its_hooks_are_set(nlp):
    doc = nlp(TEXT)
    copy = set_hooks(Doc(nlp.vocab).from_bytes(doc.to_bytes()))
    similarity = copy[3].similarity(copy[9])
    assert similarity < 0.999  # spaCy's own is 1 for equal words
    assert similarity == pytest.approx(doc[3].similarity(doc[9]), abs=1e-5)
    np.testing.assert_array_equal(copy[3].vector, doc[3].vector)
    np.testing.assert_array_equal(copy[1:4].vector, doc[1:4].vector)
    np.testing.assert_array_equal(copy.vector, doc.vector)


def test_batches_give_what_single_docs_give(nlp):
    texts = [TEXT, "", "bow", "   ", "The violinist drew her bow."]
    for doc, text in zip(nlp.pipe(texts, batch_size=2), texts, strict=True):
        assert doc.text == text
        np.testing.assert_allclose(doc.tensor, nlp(text).tensor, atol=1e-5)


@pytest.mark.parametrize("bundles_model", [True, False])
def test_a_pipeline_is_saved_and_loaded(nlp, folder, tmp_path, bundles_model):
    nlp.get_pipe("elmo").bundles_model = bundles_model
    before = nlp(TEXT).tensor
    nlp.to_disk(tmp_path / "pipeline")
    if bundles_model:
        folder.rename(tmp_path / "gone")
        (tmp_path / "pipeline").rename(tmp_path / "moved")
    loaded = spacy.load(tmp_path / ("moved" if bundles_model else "pipeline"))
    np.testing.assert_allclose(loaded(TEXT).tensor, before, atol=1e-6)
    assert loaded.get_pipe("elmo").layers == "top"
    loaded.to_disk(tmp_path / "again")
    np.testing.assert_allclose(spacy.load(tmp_path / "again")(TEXT).tensor, before, atol=1e-6)


def test_bytes_and_config_carry_the_settings(nlp):
    before = nlp(TEXT).tensor
    copy = spacy.blank("en").from_config(nlp.config)
    np.testing.assert_allclose(copy(TEXT).tensor, before, atol=1e-6)
    copy.get_pipe("elmo").layers = 0
    copy.from_bytes(nlp.to_bytes())
    np.testing.assert_allclose(copy(TEXT).tensor, before, atol=1e-6)


def test_the_english_model_is_opened_by_default(tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"bundles_model": False})
    english = Elmo.load("english")
    expected = english.embed_tokens(["a", "bow"]).vectors()
    np.testing.assert_allclose(nlp("a bow").tensor, expected, atol=1e-5)
    nlp.to_disk(tmp_path / "pipeline")
    np.testing.assert_allclose(spacy.load(tmp_path / "pipeline")("a bow").tensor, expected, 1e-5)
    width = build_tok2vec(width=8).initialize([nlp("a bow")]).predict([nlp("a bow")])[0].shape
    assert width == (2, 8)


def test_a_wrong_path_is_reported_at_the_first_doc(tmp_path):
    nlp = spacy.blank("en")
    nlp.add_pipe("elmo", config={"model": str(tmp_path / "absent")})
    with pytest.raises(CheckpointError, match="no such file or folder"):
        nlp("I took a bow.")


def test_an_entity_recognizer_learns_on_its_vectors(folder, tmp_path):
    nlp = spacy.blank("en")
    tok2vec = {"@architectures": "elmo.Tok2Vec.v1", "model": str(folder), "width": 16}
    settings = {"model": {"tok2vec": tok2vec, "hidden_width": 16}}
    recognizer = nlp.add_pipe("ner", config=settings)
    recognizer.add_label("PLACE")
    sentences = [
        (["She", "lives", "in", "Zürich", "."], ["O", "O", "O", "B-PLACE", "O"]),
        (["He", "left", "Tokyo", "today"], ["O", "O", "B-PLACE", "O"]),
        (["I", "took", "a", "bow"], ["O", "O", "O", "O"]),
    ]
    examples = [
        Example(Doc(nlp.vocab, words), Doc(nlp.vocab, words, ents=tags))
        for words, tags in sentences
    ]
    spacy.util.fix_random_seed(1)
    optimizer = nlp.initialize(lambda: examples)
    optimizer.learn_rate = 0.01
    losses = [nlp.update(examples, sgd=optimizer)["ner"] for _ in range(60)]
    assert losses[-1] < losses[0] / 5
    doc = nlp(Doc(nlp.vocab, sentences[0][0]))
    assert [(entity.text, entity.label_) for entity in doc.ents] == [("Zürich", "PLACE")]
    nlp.to_disk(tmp_path / "pipeline")
    loaded = spacy.load(tmp_path / "pipeline")
    assert [e.text for e in loaded(Doc(loaded.vocab, sentences[1][0])).ents] == ["Tokyo"]
