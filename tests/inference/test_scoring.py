"""Scoring, compared with models that read only the left or only the right context."""

import json
import math
from dataclasses import replace

import h5py
import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from elmo.api import Elmo
from elmo.errors import CheckpointError, ConfigError, DataError
from elmo.inference.embedder import Embedder
from elmo.inference.occurrence import Occurrence
from elmo.inference.results import Scored, ScoredSentence
from elmo.inference.scoring import combine, predict
from elmo.models.model_folder import Model
from elmo.network.bilm import BiLM
from elmo.network.config import tiny
from elmo.network.softmax import build_head
from elmo.pretraining.batches import InputOutputEncoder
from elmo.pretraining.perplexity import measure
from elmo.text.vocabulary import BEGIN, END, UNKNOWN, Vocabulary
from elmo.text.word_encoder import Lexicon, WordEncoder
from tests import reference
from tests.conftest import CORPUS, TINY_OPTIONS
from tests.random_models import build_bilm, random_weights

MAX_CHARACTERS = TINY_OPTIONS["char_cnn"]["max_characters_per_token"]
# Some words of the corpus stay unknown.
WORDS = sorted(set(CORPUS.split()) - {"arrow", "naïve"})
WEIGHTS = random_weights(TINY_OPTIONS, seed=1)
VOCABULARY = Vocabulary.of_words(WORDS)
SOFTMAX = np.random.default_rng(2).normal(size=(len(VOCABULARY), 8)).astype(np.float32)
BIAS = np.random.default_rng(3).normal(size=len(VOCABULARY)).astype(np.float32)
SENTENCES = [line.split() for line in CORPUS.splitlines()]


def with_head(bilm):
    head = build_head("full", len(VOCABULARY), 8)
    head.load_state_dict({"weight": torch.from_numpy(SOFTMAX), "bias": torch.from_numpy(BIAS)})
    return Elmo(Model(bilm, head.eval(), VOCABULARY))


@pytest.fixture(scope="module")
def scoring():
    """The tiny model with a head; not to be changed."""
    return with_head(build_bilm(TINY_OPTIONS, WEIGHTS))


def log_softmax(hidden):
    logits = SOFTMAX.astype(np.float64) @ hidden + BIAS
    return logits - np.log(np.exp(logits - logits.max()).sum()) - logits.max()


def read_context(words, direction, states=(None, None)):
    """Log-probabilities of all next words after reading only `words`, and the state."""
    marker = "begin" if direction == 0 else "end"
    rows = [reference.marker_characters(marker, MAX_CHARACTERS)]
    rows += [reference.word_characters(word, MAX_CHARACTERS) for word in words]
    vectors = [reference.token_vector(WEIGHTS, TINY_OPTIONS, row) for row in rows]
    layers, state = reference.run_direction(
        vectors, WEIGHTS, TINY_OPTIONS, direction, states[direction]
    )
    return log_softmax(layers[-1][-1]), state


def mean_of_both(forward, backward):
    product = np.sqrt(np.exp(forward) * np.exp(backward))
    product[[BEGIN, END]] = 1e-300  # markers are no words, but need a logarithm
    return np.log(product / product[UNKNOWN:].sum())


@pytest.mark.parametrize("tokens", [*SENTENCES[:4], SENTENCES[6], []], ids=" ".join)
def test_every_word_is_scored_by_what_stands_left_and_right_of_it_alone(scoring, tokens):
    sentence = scoring.scorer.score([tokens])[0]
    ids = VOCABULARY.ids(tokens)
    for t, number in enumerate(ids):
        forward, _ = read_context(tokens[:t], 0)
        backward, _ = read_context(tokens[:t:-1], 1)
        expected = {"forward": forward[number], "backward": backward[number]}
        expected["combined"] = mean_of_both(forward, backward)[number]
        found = {name: words[t] for name, words in sentence.log_probs.items()}
        assert found == pytest.approx(expected, abs=1e-4)
    assert sentence.boundary_log_probs == pytest.approx(
        {
            "forward": read_context(tokens, 0)[0][END],
            "backward": read_context(tokens[::-1], 1)[0][BEGIN],
        },
        abs=1e-4,
    )


def test_carried_state_is_that_of_sentences_read_one_after_the_other(scoring):
    states = [None, None]
    scored = scoring.score_tokens(SENTENCES[:4], state="carry")
    for text, tokens in zip(scored, SENTENCES, strict=False):
        for r, (name, words) in enumerate([("forward", tokens), ("backward", tokens[::-1])]):
            numbers = VOCABULARY.ids(words)
            total, after = 0.0, None
            for t in range(len(words) + 1):
                expected, after = read_context(words[:t], r, states)
                edge = END if name == "forward" else BEGIN
                total += expected[numbers[t] if t < len(words) else edge]
            states[r] = after
            assert text.log_prob(name) == pytest.approx(total, abs=1e-3)


@pytest.mark.parametrize("tokens", [[["a", 3]], [[None]], [["a"], [["b"]]]])
def test_what_is_no_token_is_refused_as_embed_refuses_it(scoring, tokens):
    with pytest.raises(DataError, match="a token is"):
        scoring.score_tokens(tokens)


@pytest.mark.parametrize("state", ["fresh", "carry"])
def test_a_text_is_not_scored_character_by_character(scoring, state):
    with pytest.raises(DataError, match="a sentence is the text 'I took', expected a list of tok"):
        list(scoring.scorer.stream(["I took"], state))


def test_results_are_compared_by_their_values(scoring):
    one, same, other = (scoring.score(text) for text in ("A bow.", "A bow.", "A boat."))
    assert one == same
    assert one != other
    assert one != "A bow."


def test_a_word_is_named_by_asterisks_or_by_its_position(scoring):
    by_position = scoring.substitutes("I took a bow .", 3)
    assert scoring.substitutes("I took a *bow* .") == by_position
    assert scoring.substitutes(["I", "took", "a", "bow", "."], 3) == by_position
    with pytest.raises(DataError, match="a list of tokens was given without a position"):
        scoring.substitutes(["I", "took"])


@pytest.mark.parametrize("state", ["fresh", "carry"])
def test_truncated_words_are_reported_once(scoring, state):
    long = "x" * MAX_CHARACTERS
    with pytest.warns(UserWarning, match="3 words are longer than") as told:
        scoring.score_tokens([["a", long], [long], ["a", long]], state=state)
    assert len(told) == 1
    with pytest.warns(UserWarning, match="1 words are longer than"):
        scoring.score(long, state=state)


def test_a_fresh_score_does_not_depend_on_the_sentences_beside_it(scoring):
    together = scoring.scorer.score(SENTENCES)
    for tokens, beside in zip(SENTENCES, together, strict=True):
        alone = scoring.scorer.score([tokens])[0]
        assert alone.tokens == beside.tokens
        for name, words in alone.log_probs.items():
            np.testing.assert_allclose(words, beside.log_probs[name], atol=1e-5)


def test_perplexity_is_that_of_the_held_out_measure(scoring):
    encoder = InputOutputEncoder(VOCABULARY, WordEncoder(Lexicon(), MAX_CHARACTERS, 3))
    measured = measure(scoring.bilm, scoring.model.head, encoder, SENTENCES)
    scored = Scored(scoring.scorer.score(SENTENCES))
    assert scored.perplexity("forward") == pytest.approx(measured.forward, rel=1e-5)
    assert scored.perplexity("backward") == pytest.approx(measured.backward, rel=1e-5)


def test_a_long_sentence_is_scored_in_chunks_with_the_same_numbers(scoring):
    tokens = [word for tokens in SENTENCES for word in tokens] * 40  # more than a chunk
    sentence = scoring.scorer.score([tokens])[0]
    with torch.inference_mode():
        whole = scoring.bilm.contextualize(*scoring.embedder.read([tokens])).layers[-1, 0]
        forward, backward = whole.chunk(2, dim=-1)
        numbers = torch.tensor([BEGIN, *VOCABULARY.ids(tokens), END])
        after = -scoring.model.head.nll(forward[:-1], numbers[1:]).numpy()
        before = -scoring.model.head.nll(backward[1:], numbers[:-1]).numpy()
    np.testing.assert_allclose(sentence.log_probs["forward"], after[:-1], atol=1e-4)
    np.testing.assert_allclose(sentence.log_probs["backward"], before[1:], atol=1e-4)
    assert sentence.boundary_log_probs == pytest.approx(
        {"forward": after[-1], "backward": before[0]}, abs=1e-4
    )


@pytest.mark.parametrize("kind", ["full", "adaptive"])
@pytest.mark.parametrize("n_words", [50, 9_000])
def test_scores_need_not_hold_all_words_at_once(kind, n_words):
    bilm = build_bilm(TINY_OPTIONS, WEIGHTS)
    vocabulary = Vocabulary.of_words([*WORDS, *(f"word{k}" for k in range(n_words))])
    head = build_head(kind, len(vocabulary), 8).eval()
    tokens = ["I", "took", "a", f"word{n_words - 1}", "word7"]
    sentence = Elmo(Model(bilm, head, vocabulary)).scorer.score([tokens])[0]
    ids = torch.from_numpy(vocabulary.ids(tokens))[:, None]
    with torch.inference_mode():
        rows = predict(Embedder(bilm, 100), [tokens]).words()
        each = [head.log_probs(hidden) for hidden in rows]
        expected = [all_words.gather(1, ids)[:, 0] for all_words in (*each, combine(each))]
    for found, wanted in zip(sentence.log_probs.values(), expected, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-4)


@given(st.integers(0, 9), st.data())
def test_substitutes_are_the_words_that_both_contexts_expect(which, data):
    model = with_head(build_bilm(TINY_OPTIONS, WEIGHTS))
    tokens = SENTENCES[which]
    position = data.draw(st.integers(0, len(tokens) - 1))
    found = model.substitutes(tokens, position, k=5)
    forward, _ = read_context(tokens[:position], 0)
    backward, _ = read_context(tokens[:position:-1], 1)
    together = mean_of_both(forward, backward)
    # Bayes' rule for both contexts; a word's prior is inversely proportional to its rank.
    scores = np.asarray(forward) + np.asarray(backward) + np.log(np.arange(len(forward)) + 1)
    ranked = [n for n in np.argsort(-scores) if n > UNKNOWN][:5]
    assert [substitute.word for substitute in found] == [VOCABULARY.words[n] for n in ranked]
    assert [each.score for each in found] == pytest.approx(scores[ranked].tolist(), abs=1e-4)
    for substitute, number in zip(found, ranked, strict=True):
        assert substitute.log_probs == pytest.approx(
            {
                "forward": forward[number],
                "backward": backward[number],
                "combined": together[number],
            },
            abs=1e-4,
        )


def test_substitutes_do_not_read_the_word_that_stands_there(scoring):
    here = scoring.substitutes(["I", "took", "a", "bow", "."], 3)
    other = scoring.substitutes(["I", "took", "a", "Donaudampfschiff", "."], 3)
    assert [s.word for s in here] == [s.word for s in other]
    for one, two in zip(here, other, strict=True):
        assert one.log_probs == pytest.approx(two.log_probs, abs=1e-5)


def test_substitutes_of_many_places_are_those_of_each(scoring):
    places = [Occurrence(tokens, len(tokens) // 2) for tokens in SENTENCES]
    for place, together in zip(places, scoring.scorer.substitutes(places, 4), strict=True):
        alone = scoring.substitutes(place.tokens, place.position, 4)
        assert [s.word for s in alone] == [s.word for s in together]


def test_more_substitutes_than_words_are_all_words_and_no_marker(scoring):
    found = scoring.substitutes("I took a bow .", 3, k=10_000)
    assert sorted(s.word for s in found) == sorted(VOCABULARY.words[3:])
    total = sum(math.exp(s.log_probs["combined"]) for s in found)
    assert 0 < total < 1  # the rest is the unknown word's


@pytest.mark.parametrize("position", [-1, 5])
def test_a_position_outside_the_sentence_is_refused(scoring, position):
    with pytest.raises(DataError, match=rf"position {position} .* 5 tokens"):
        scoring.substitutes("I took a bow .", position)


def test_raw_text_keeps_its_sentences_and_places(scoring):
    text = "I took a bow. It was cold!"
    scored = scoring.score(text)
    assert [sentence.tokens[-1] for sentence in scored.sentences] == [".", "!"]
    for sentence in scored.sentences:
        assert [text[i:j] for i, j in sentence.offsets] == sentence.tokens
    assert scored.log_prob("forward") == pytest.approx(
        sum(s.log_prob("forward") for s in scored.sentences)
    )


def test_surprisal_is_in_bits_and_unknown_words_are_marked(scoring):
    sentence = scoring.score_tokens([["a", "bow", "and", "arrow"]])[0].sentences[0]
    assert sentence.is_known == [True, True, True, False]
    np.testing.assert_allclose(
        2.0 ** -sentence.surprisal("forward"), np.exp(sentence.log_probs["forward"])
    )


def test_nothing_to_score_is_no_error(scoring):
    assert scoring.score([]) == []
    empty = scoring.score("  ")
    assert empty.sentences == []
    assert math.isnan(empty.perplexity("forward"))
    assert json.loads(json.dumps(empty.to_mapping())) == {"sentences": [], "perplexity": {}}
    assert scoring.score_tokens([[]])[0].to_mapping()["perplexity"]["combined"] is None


def test_a_model_of_one_direction_is_combined_with_nothing(tiny_options):
    tiny_options["bidirectional"] = False
    model = with_head(build_bilm(tiny_options, random_weights(tiny_options, seed=1)))
    scored = model.score("I took a bow .")
    sentence = scored.sentences[0]
    assert set(sentence.log_probs) == {"forward", "combined"}
    for measured in (sentence.surprisal, scored.log_prob, scored.perplexity):
        with pytest.raises(ConfigError, match="'backward', expected forward or combined"):
            measured("backward")
    found = model.substitutes("I took a bow .", 3, k=5)
    by_forward = sorted(found, key=lambda word: -word.log_probs["forward"])
    assert [word.word for word in found] == [word.word for word in by_forward]


def test_a_model_without_a_head_says_so(elmo):
    with pytest.raises(CheckpointError, match="no softmax"):
        elmo.score("I took a bow.")


def test_a_model_without_lstm_layers_cannot_score():
    shape = tiny()
    bilm = BiLM(replace(shape, lstm=replace(shape.lstm, n_layers=0)))
    head = build_head("full", len(VOCABULARY), shape.lstm.projection_dim)
    with pytest.raises(CheckpointError, match="no LSTM layers"):
        Elmo(Model(bilm, head, VOCABULARY)).score("I took a bow.")


def test_any_number_of_sentences_is_scored_in_order(scoring):
    many = [SENTENCES[k % len(SENTENCES)] for k in range(5000)]
    streamed = scoring.scorer.stream(iter(many))
    first = scoring.scorer.score(SENTENCES)
    for k, sentence in enumerate(streamed):
        assert sentence.tokens == many[k]
        assert sentence.log_prob("forward") == pytest.approx(
            first[k % len(first)].log_prob("forward"), abs=1e-3
        )
    assert k == len(many) - 1


def test_a_surprise_beyond_all_numbers_has_no_perplexity():
    hopeless = {"forward": np.array([-1e6])}
    sentence = ScoredSentence(["a"], [True], hopeless, {"forward": -1e6})
    assert sentence.to_mapping()["perplexity"] == {"forward": None}


def test_an_unknown_state_is_refused(scoring):
    with pytest.raises(ConfigError, match="'warm' is unknown"):
        scoring.score("I", state="warm")


@pytest.fixture
def softmax_files(tmp_path):
    """The official softmax and vocabulary files of the tiny model."""
    VOCABULARY.write(tmp_path / "vocab.txt")
    with h5py.File(tmp_path / "softmax.hdf5", "w") as file:
        file["softmax/W"], file["softmax/b"] = SOFTMAX, BIAS
    return tmp_path / "softmax.hdf5", tmp_path / "vocab.txt"


def test_official_softmax_files_are_attached_to_official_weights(scoring, official, softmax_files):
    softmax, vocabulary = softmax_files
    opened = Elmo.load(official, softmax=softmax, vocabulary=vocabulary)
    for one, two in zip(
        opened.score_tokens(SENTENCES), scoring.score_tokens(SENTENCES), strict=True
    ):
        assert one.perplexity("combined") == pytest.approx(two.perplexity("combined"), rel=1e-4)


def test_a_softmax_of_another_vocabulary_is_refused(official, softmax_files):
    softmax, vocabulary = softmax_files
    Vocabulary.of_words(["a", "b"]).write(vocabulary)
    with pytest.raises(CheckpointError, match=r"softmax/W has shape \(\d+, 8\), expected \(5, 8\)"):
        Elmo.load(official, softmax=softmax, vocabulary=vocabulary)


def test_a_softmax_without_its_vocabulary_is_refused(official, softmax_files):
    with pytest.raises(ConfigError, match="softmax is given without vocabulary"):
        Elmo.load(official, softmax=softmax_files[0])
    with pytest.raises(CheckpointError, match="softmax/W has shape none"):
        Elmo.load(official, softmax=official, vocabulary=softmax_files[1])
