import numpy as np
import pytest

from elmo.api import Elmo
from elmo.errors import ConfigError
from elmo.models.model_folder import Model
from elmo.network.softmax import build_head
from elmo.probes.oov import (
    CORRECT,
    DERIVATIONS,
    MISSPELLINGS,
    UnseenWord,
    doubled,
    dropped,
    find_contexts,
    make_unseen,
    measure,
    ranks_by_form,
    ranks_in_context,
    replaced,
    source_words,
    swapped,
)
from elmo.text.vocabulary import Vocabulary

WORDS = ["the", "people", "however", "Between", "naïvely", "something", "school", "schol"]


def test_misspellings_change_one_place():
    assert swapped("school", 1, "x") == "shcool"
    assert dropped("school", 1, "x") == "shool"
    assert doubled("school", 1, "x") == "scchool"
    assert replaced("school", 1, "x") == "sxhool"


def test_source_words_are_plain_and_long_enough():
    assert source_words(WORDS, 10) == ["people", "however", "something", "school"]
    assert source_words(WORDS, 2) == ["people", "however"]


def test_unseen_words_are_the_same_every_time_and_none_is_known():
    meant = [f"{word}{ending}" for word in ("people", "however") for ending in ("", "abc", "zzz")]
    made = make_unseen(meant, ["peopleization", *meant])
    assert made == make_unseen(meant, ["peopleization", *meant])
    assert UnseenWord("un·able", "unpeopleable", "people") in made
    assert UnseenWord("·-like", "however-like", "however") in made
    written = {word.form for word in made}
    assert not written & {"peopleization", *meant}
    assert {word.kind for word in made} == {*MISSPELLINGS, *DERIVATIONS}
    for word in made:
        if word.kind in MISSPELLINGS:
            assert word.form[0] == word.source[0]
            assert abs(len(word.form) - len(word.source)) <= 1


def test_ranks_by_form_count_the_words_that_are_nearer(elmo):
    frequent = ["bow", "people", "peoples", "something"]
    unseen = [UnseenWord("x", "peopel", "people"), UnseenWord("x", "bow", "bow")]
    words = [*frequent, "peopel"]
    vectors = dict(zip(words, elmo.embed_tokens([words])[0].layers[0], strict=True))

    def cosine(one, other):
        one, other = vectors[one], vectors[other]
        return one @ other / np.linalg.norm(one) / np.linalg.norm(other)

    nearer = [word for word in frequent if cosine("peopel", word) > cosine("peopel", "people")]
    assert ranks_by_form(elmo, unseen, frequent).tolist() == [len(nearer), 0]


def test_in_context_a_word_stands_in_one_sentence_and_the_known_ones_in_others(elmo):
    contexts = find_contexts(["people", "something", "school", "zzzzzzz"])
    assert list(contexts) == ["people", "something", "school"]
    for word, context in contexts.items():
        (asked, asked_at), (known, known_at) = context.query, context.candidate
        assert asked[asked_at] == known[known_at] == word
        assert asked != known
    asked = [UnseenWord("x", "shcool", "school"), UnseenWord("x", "people", "people")]
    ranks = ranks_in_context(elmo, asked, contexts, "fresh")
    tokens, position = contexts["school"].query
    misspelt = [*tokens[:position], "shcool", *tokens[position + 1 :]]
    vector = elmo.embed_tokens([misspelt])[0].vectors("top")[position]
    cosines = {}
    for word, context in contexts.items():
        tokens, position = context.candidate
        other = elmo.embed_tokens([list(tokens)])[0].vectors("top")[position]
        cosines[word] = vector @ other / np.linalg.norm(vector) / np.linalg.norm(other)
    assert ranks[0] == sum(cosine > cosines["school"] for cosine in cosines.values())


def test_numbers_are_by_kind(bilm, tmp_path):
    vocabulary = Vocabulary.of_words([*WORDS, *(f"other{k}" for k in range(40))])
    head = build_head("full", len(vocabulary), bilm.config.lstm.projection_dim)
    elmo = Elmo(Model(bilm, head, vocabulary))
    (tmp_path / "glove.txt").write_text("the 1 2\nunpeopleable 3 4\n")
    result = measure(elmo, glove_path=tmp_path / "glove.txt", n_words=4)
    assert list(result.rows) == [CORRECT, *MISSPELLINGS, *DERIVATIONS]
    assert result.rows["un·able"][0] == 25
    assert result.rows["·-like"][0] == 0
    assert result.rows[CORRECT][:3] == [None, None, None]
    assert result.rows["·-like"][3:] == [None, None]
    for row in result.rows.values():
        assert all(number is None or 0 <= number <= 100 for number in row)
        assert row[1] is None or row[1] <= row[2]
    assert "| un·able | 25.0 |" in result.to_markdown()


def test_a_model_without_a_vocabulary_asks_for_words(elmo, tmp_path):
    with pytest.raises(ConfigError, match="no vocabulary"):
        measure(elmo)
    (tmp_path / "words.txt").write_text("\n".join(WORDS))
    result = measure(elmo, vocabulary_path=tmp_path / "words.txt", state="warm")
    assert result.settings["source words"] == 4
    assert result.settings["candidates"] == len(WORDS)
    assert result.rows["swapped"][0] is None
