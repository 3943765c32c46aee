"""The flair embeddings: token vectors, saving, and training a tagger."""

import numpy as np
import pytest

pytest.importorskip(
    "flair",
    reason="needs flair, in an environment of its own: see docs/adapters/flair.md",
)

from flair.data import Corpus, Sentence
from flair.datasets import FlairDatapointDataset
from flair.embeddings import StackedEmbeddings
from flair.embeddings.base import load_embeddings
from flair.models import SequenceTagger
from flair.trainers import ModelTrainer

from elmo.adapters.flair import ElmoEmbeddings
from elmo.api import Elmo


@pytest.fixture
def folder(elmo, tmp_path):
    elmo.save(tmp_path / "model")
    return tmp_path / "model"


def test_tokens_have_the_vectors_of_elmo(folder, elmo):
    embeddings = ElmoEmbeddings(folder, layers="top")
    sentences = [Sentence(["I", "took", "a", "bow"]), Sentence(["東京"])]
    embeddings.embed(sentences)
    words = [[token.text for token in sentence] for sentence in sentences]
    for sentence, embedded in zip(sentences, elmo.embed_tokens(words), strict=True):
        found = np.array([token.get_embedding().cpu().numpy() for token in sentence])
        np.testing.assert_allclose(found, embedded.vectors("top"), atol=1e-5)
    assert embeddings.embedding_length == elmo.output_dim


def test_vectors_of_models_with_the_same_name_are_not_confused(folder, bilm, elmo, tmp_path):
    for parameter in bilm.parameters():
        parameter.data.mul_(0.5)
    elmo.save(tmp_path / "other" / "model")
    sentence = Sentence(["a", "bow"])
    for model in (folder, tmp_path / "other" / "model"):
        ElmoEmbeddings(model).embed(sentence)
    assert len(sentence[1].get_embedding()) == 2 * elmo.output_dim


def test_the_english_model_is_opened_by_default():
    assert ElmoEmbeddings().embedding_length == Elmo.load().output_dim


def test_they_stack_with_others(folder):
    stacked = StackedEmbeddings([ElmoEmbeddings(folder, 0), ElmoEmbeddings(folder, "top")])
    sentence = Sentence("I took a bow.")
    stacked.embed(sentence)
    assert len(sentence[3].get_embedding()) == stacked.embedding_length == 32


def test_they_are_saved_by_path_and_settings(folder):
    embeddings = ElmoEmbeddings(folder, layers=[0.0, 0.5, 0.5])
    saved = embeddings.save_embeddings()
    assert not saved["state_dict"]
    loaded = load_embeddings(saved)
    assert (loaded.model, loaded.layers) == (embeddings.model, embeddings.layers)


def test_a_tagger_learns_on_them(folder, tmp_path):
    sentences = [Sentence(["She", "lives", "in", "Zürich"]), Sentence(["He", "left", "Tokyo"])]
    for sentence in sentences:
        for token in sentence:
            token.add_label("pos", "NAME" if token.text in ("Zürich", "Tokyo") else "OTHER")
    texts = FlairDatapointDataset(sentences)
    corpus = Corpus(train=texts, dev=texts, test=texts)
    tagger = SequenceTagger(
        embeddings=ElmoEmbeddings(folder),
        tag_dictionary=corpus.make_label_dictionary("pos", add_unk=False),
        tag_type="pos",
        use_rnn=False,
        use_crf=False,
    )
    ModelTrainer(tagger, corpus).train(
        tmp_path / "run", learning_rate=0.5, max_epochs=60, create_file_logs=False
    )
    loaded = SequenceTagger.load(tmp_path / "run" / "final-model.pt")
    sentence = Sentence(["She", "lives", "in", "Zürich"])
    loaded.predict(sentence)
    assert [token.get_label("pos").value for token in sentence] == ["OTHER"] * 3 + ["NAME"]
