"""The index of words in context, compared with cosines computed one by one."""

import dataclasses
import multiprocessing
import os
import signal

import numpy as np
import pytest

from elmo.api import Elmo
from elmo.errors import CheckpointError, ConfigError, DataError
from elmo.inference.occurrence import Occurrence
from elmo.models.model_folder import Model
from elmo.network.bilm import BiLM
from elmo.network.config import LstmConfig, tiny
from elmo.search.build import build_index, temporary_index
from elmo.search.index import WordIndex
from elmo.search.neighbors import find_neighbors, open_index
from tests.conftest import CORPUS, TINY_OPTIONS
from tests.random_models import build_bilm, random_weights

SENTENCES = [line.split() for line in CORPUS.splitlines() if "Donau" not in line]
ASKED = Occurrence(["She", "drew", "a", "bow", "."], 3)


@pytest.fixture(scope="module")
def model():
    return Elmo(Model(build_bilm(TINY_OPTIONS, random_weights(TINY_OPTIONS, seed=1))))


@pytest.fixture(scope="module")
def index(model):
    return temporary_index(model, SENTENCES)


def cosine(one, two):
    return one @ two / np.linalg.norm(one) / np.linalg.norm(two)


def by_hand(model, weights, word=None):
    """(similarity, sentence, position) of all occurrences, best first."""
    wanted = model.embed_tokens([ASKED.tokens])[0].vectors(weights)[ASKED.position]
    found = []
    for number, embedded in enumerate(model.embed_tokens(SENTENCES)):
        for position, vector in enumerate(embedded.vectors(weights)):
            if word is None or embedded.tokens[position].casefold() == word:
                found.append((cosine(wanted, vector), number, position))
    return sorted(found, reverse=True)


@pytest.mark.parametrize("weights", [[0, 1, 0], [0, 0, 1], [0.2, 0.5, -0.3], [1, 0, 0]])
@pytest.mark.parametrize("word", [None, "bow"])
def test_the_nearest_occurrences_are_those_of_a_full_search(model, index, weights, word):
    vectors = model.embed_tokens([ASKED.tokens])[0].layers[:, ASKED.position]
    found = index.nearest(vectors, 100, word=word, mix=weights)
    expected = by_hand(model, weights, word)
    best_of_sentence = {}
    for similarity, number, _ in expected:
        best_of_sentence.setdefault(number, similarity)
    # float16 on disk moves a cosine a little, so near ties may change places.
    assert [n.similarity for n in found] == pytest.approx(list(best_of_sentence.values()), abs=2e-3)
    for neighbor in found:
        number = SENTENCES.index(neighbor.occurrence.tokens)
        assert any(
            (number, neighbor.occurrence.position) == place[1:]
            and neighbor.similarity == pytest.approx(place[0], abs=2e-3)
            for place in expected
        )


def test_words_without_context_are_compared_by_layer_0_alone(model, index):
    vector = model.embed_tokens([["bow"]])[0].layers[0, 0, : index.projection_dim]
    found = index.similar_words(vector, 5, besides="bow")
    every_word = sorted({word for tokens in SENTENCES for word in tokens} - {"bow"})
    table = model.embed_tokens([[word] for word in every_word])
    expected = sorted(
        ((cosine(vector, e.layers[0, 0, : len(vector)]), e.tokens[0]) for e in table), reverse=True
    )
    assert [w.similarity for w in found] == pytest.approx([s for s, _ in expected[:5]], abs=2e-3)


def test_the_sentence_itself_and_doubles_are_left_out(model):
    index = temporary_index(model, [*SENTENCES, *SENTENCES, list(ASKED.tokens)])
    found = find_neighbors(model, index, ASKED, 100)
    sentences = [tuple(neighbor.occurrence.tokens) for neighbor in found.in_context]
    assert len(sentences) == len(set(sentences)) == 5
    assert tuple(ASKED.tokens) not in sentences


def test_capital_letters_do_not_make_another_word(model):
    index = temporary_index(model, [["Bow", "down"], ["a", "BOW"], ["bowl"]])
    found = find_neighbors(model, index, ASKED, 10)
    assert sorted(n.occurrence.word for n in found.in_context) == ["BOW", "Bow"]
    assert "Bow" not in [word.word for word in found.without_context]


def test_a_word_that_the_text_lacks_has_no_occurrences_but_similar_words(model, index):
    found = find_neighbors(model, index, Occurrence(["zither"], 0), 3)
    assert found.in_context == []
    assert len(found.without_context) == 3
    assert len(find_neighbors(model, index, Occurrence(["zither"], 0), 3, any_word=True).in_context)


def test_an_index_in_a_folder_answers_as_the_one_in_memory(model, index, tmp_path):
    built = build_index(model, SENTENCES, tmp_path / "index")
    opened = WordIndex(tmp_path / "index", model)
    for any_word in (False, True):
        expected = find_neighbors(model, index, ASKED, 5, any_word=any_word)
        assert find_neighbors(model, built, ASKED, 5, any_word=any_word) == expected
        assert find_neighbors(model, opened, ASKED, 5, any_word=any_word) == expected


def test_an_index_of_another_model_is_refused(model, tmp_path):
    build_index(model, SENTENCES, tmp_path)
    other = Elmo(Model(build_bilm(TINY_OPTIONS, random_weights(TINY_OPTIONS, seed=2))))
    with pytest.raises(CheckpointError, match="another model"):
        WordIndex(tmp_path, other)


def test_an_index_of_a_model_with_the_same_weights_and_other_clips_is_refused(model, tmp_path):
    build_index(model, SENTENCES, tmp_path)
    unclipped = {**TINY_OPTIONS, "lstm": {**TINY_OPTIONS["lstm"], "cell_clip": None}}
    other = Elmo(Model(build_bilm(unclipped, random_weights(TINY_OPTIONS, seed=1))))
    with pytest.raises(CheckpointError, match="another model"):
        WordIndex(tmp_path, other)


FILES = ["index.json", "sentences.jsonl", "sentences.starts", "first_tokens.bin", "layer-1.bin"]
FILES += ["layer-2.bin", "products.bin", "word_of.bin", "words.jsonl", "words.starts", "words.bin"]
FILES += ["word_lengths.bin", "rows.bin", "first_rows.bin"]


@pytest.mark.parametrize("missing", FILES)
def test_half_an_index_is_refused(model, tmp_path, missing):
    build_index(model, SENTENCES, tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == sorted(FILES)
    (tmp_path / missing).unlink()
    with pytest.raises(CheckpointError, match="not a complete index"):
        WordIndex(tmp_path, model)


@pytest.mark.parametrize("cut", FILES)
def test_an_index_with_a_file_that_ends_early_is_refused(model, tmp_path, cut):
    build_index(model, SENTENCES, tmp_path)
    content = (tmp_path / cut).read_bytes()
    (tmp_path / cut).write_bytes(content[: len(content) // 2])
    with pytest.raises(CheckpointError, match="not a complete index"):
        WordIndex(tmp_path, model)


def test_a_build_that_fails_leaves_nothing_and_what_stood_there_stands_still(model, tmp_path):
    def breaking():
        yield from SENTENCES
        raise DataError("the text ends in the middle")

    for folder in (tmp_path / "new", tmp_path / "old"):
        if folder.name == "old":
            build_index(model, SENTENCES[:2], folder)
        with pytest.raises(DataError, match="in the middle"):
            build_index(model, breaking(), folder)
    assert [path.name for path in tmp_path.iterdir()] == ["old"]
    assert list(WordIndex(tmp_path / "old", model).sentences) == SENTENCES[:2]


def build_and_be_killed(folder):
    def text():
        yield from SENTENCES
        os.kill(os.getpid(), signal.SIGKILL)

    bilm = build_bilm(TINY_OPTIONS, random_weights(TINY_OPTIONS, seed=1))
    build_index(Elmo(Model(bilm)), text(), folder)


def test_a_build_that_is_killed_leaves_nothing_that_looks_complete(model, tmp_path):
    folder = tmp_path / "index"
    process = multiprocessing.get_context("spawn").Process(
        target=build_and_be_killed, args=(folder,)
    )
    process.start()
    process.join()
    assert process.exitcode == -signal.SIGKILL
    (left,) = tmp_path.glob("*.tmp")
    for path in (left, folder):
        with pytest.raises(CheckpointError, match="not a complete index"):
            WordIndex(path, model)
    assert len(build_index(model, SENTENCES, folder)) == sum(map(len, SENTENCES))
    assert list(tmp_path.iterdir()) == [folder]


def test_a_folder_that_holds_something_else_is_not_overwritten(model, tmp_path):
    (tmp_path / "letters.txt").write_text("Dear")
    with pytest.raises(DataError, match=r"contains 'letters\.txt'; expected a new folder"):
        build_index(model, SENTENCES, tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["letters.txt"]


def test_a_folder_with_an_index_json_of_something_else_is_not_overwritten(model, tmp_path):
    (tmp_path / "index.json").write_text("{}")
    with pytest.raises(DataError, match=r"contains 'index\.json'; expected a new folder"):
        build_index(model, SENTENCES, tmp_path)
    assert (tmp_path / "index.json").read_text() == "{}"


@pytest.mark.parametrize("name", ["letters.txt", "layer-9.bin/"])
def test_an_index_with_something_else_in_it_is_not_overwritten(model, tmp_path, name):
    build_index(model, SENTENCES[:2], tmp_path)
    path = tmp_path / name
    path.mkdir() if name.endswith("/") else path.write_text("Dear")
    with pytest.raises(DataError, match=f"contains '{path.name}'"):
        build_index(model, SENTENCES, tmp_path)
    assert path.exists()
    assert list(WordIndex(tmp_path, model).sentences) == SENTENCES[:2]


def test_the_first_words_are_written_before_the_last_are_read(model, tmp_path):
    """The text is longer than what `Elmo.stream` holds at a time."""
    waiting = []

    def text():
        for n_read in range(24):
            written = next(tmp_path.glob(".*/word_of.bin")).stat().st_size // 8
            waiting.append(n_read * 20_000 - written)
            yield ["bow"] * 20_000

    index = build_index(model, text(), tmp_path / "index", graph_from=None)
    assert len(index) == 24 * 20_000
    assert max(waiting) < 0.9 * 24 * 20_000


def test_a_text_file_is_split_into_sentences(model, tmp_path):
    (tmp_path / "text.txt").write_text("I took a bow. It was cold!\n\nThe bow of the ship.\n")
    index = open_index(model, tmp_path / "text.txt")
    assert [tokens[-1] for tokens in index.sentences] == [".", "!", "."]
    assert len(index) == 15


def test_a_temporary_index_leaves_no_folder(model, monkeypatch, tmp_path):
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    index = temporary_index(model, SENTENCES)
    assert len(list(tmp_path.iterdir())) == 1
    del index
    assert list(tmp_path.iterdir()) == []


def test_a_text_without_words_is_refused(model, tmp_path):
    (tmp_path / "text.txt").write_text("\n\n")
    with pytest.raises(DataError, match="no words to index"):
        open_index(model, tmp_path / "text.txt")


def test_several_layers_at_once_are_refused(model, index):
    with pytest.raises(ConfigError, match="several"):
        find_neighbors(model, index, ASKED, 3, layers="all")


@pytest.mark.parametrize("k", [0, -1])
def test_fewer_neighbors_than_one_are_refused(model, index, k):
    with pytest.raises(ConfigError, match=f"k is {k}, expected at least 1"):
        find_neighbors(model, index, ASKED, k)
    with pytest.raises(ConfigError, match=f"k is {k}, expected at least 1"):
        index.similar_words(np.ones(index.projection_dim), k)


def test_a_model_without_lstm_layers_is_searched_by_its_token_layer(tmp_path):
    config = dataclasses.replace(tiny(), lstm=LstmConfig(dim=8, projection_dim=16, n_layers=0))
    model = Elmo(Model(BiLM(config).eval()))
    index = build_index(model, SENTENCES, tmp_path)
    found = find_neighbors(model, index, ASKED, 3)
    assert [n.similarity for n in found.in_context] == pytest.approx([1, 1, 1], abs=1e-3)
    expected = np.concatenate([e.vectors("top") for e in model.embed_tokens(SENTENCES)])
    np.testing.assert_allclose(index.vectors(np.arange(len(index))), expected, atol=5e-3)
    (tmp_path / "products.bin").write_bytes(bytes(4))
    with pytest.raises(CheckpointError, match="1 vectors for"):
        WordIndex(tmp_path, model)


@pytest.mark.parametrize(
    ("marked", "tokens", "word"),
    [
        ("I took a *bow*.", ["I", "took", "a", "bow", "."], "bow"),
        ("*Don't* go", ["Do", "n't", "go"], "Do"),
        ("5 * 3 is *fifteen* *", ["5", "*", "3", "is", "fifteen", "*"], "fifteen"),
    ],
)
def test_the_word_between_asterisks_is_meant(marked, tokens, word):
    occurrence = Occurrence.marked(marked)
    assert occurrence.tokens == tokens
    assert occurrence.word == word


@pytest.mark.parametrize("sentence", ["I took a bow.", "*I* took a *bow*.", "a * b * c", ""])
def test_no_marked_word_or_several_are_refused(sentence):
    with pytest.raises(DataError, match="between asterisks"):
        Occurrence.marked(sentence)


def test_a_model_indexes_texts_and_files_and_finds_neighbors(model, tmp_path):
    texts = [" ".join(tokens) for tokens in SENTENCES]
    (tmp_path / "corpus.txt").write_text("\n".join(texts))
    temporary = model.index(texts)
    written = model.index(tmp_path / "corpus.txt", tmp_path / "index", lines="tokens")
    opened = model.open_index(tmp_path / "index")
    assert len(written) == len(opened) == sum(map(len, SENTENCES))
    expected = find_neighbors(model, opened, ASKED, 3, layers="average", any_word=True)
    for index in (written, opened):
        found = model.neighbors(
            ASKED.tokens, ASKED.position, 3, index=index, layers="average", any_word=True
        )
        assert found == expected
    assert [n.occurrence.word for n in model.neighbors("A *bow*", k=2, index=temporary).in_context]
    with pytest.raises(DataError, match=r"'corpus.txt' is a str, expected a list of texts, or a"):
        model.index("corpus.txt")


def test_neighbors_without_an_index_are_those_of_the_package(model):
    [nearest, *_] = model.neighbors("I took a *bow*.", k=2).in_context
    assert nearest.occurrence.word.casefold() == "bow"
