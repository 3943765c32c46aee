import pytest
from hypothesis import given
from hypothesis import strategies as st

from elmo.text.tokenizer import Sentence, split_text, tokenize

# Any text, and text of characters that are difficult for tokenizers.
TRICKY = st.text(
    st.sampled_from(
        list(".!?…。।։'’\"“”`()-–—&@/:;,$#_<>+* \t\n\r\x0b\x1c\x85\xa0\u2028\u3000")
        + list("aAnstIéß1９日のไทйש\u0301\u093f\u200d\ufe0f👍🏽\ufeff\x00\u0600")
    )
)
TEXTS = st.text() | TRICKY


def check_places(text: str, sentences: list[Sentence]) -> None:
    end_before = 0
    for sentence in sentences:
        assert len(sentence.tokens) == len(sentence.offsets)
        for token, (start, end) in zip(sentence.tokens, sentence.offsets, strict=True):
            assert text[start:end] == token
            assert text[end_before:start].strip() == ""
            assert token.split() == [token]
            end_before = end
    assert text[end_before:].strip() == ""


@given(TEXTS)
def test_sentences_miss_no_character_of_any_text(text):
    sentences = split_text(text)
    check_places(text, sentences)
    assert all(sentence.tokens for sentence in sentences)


@given(TEXTS)
def test_tokens_of_one_sentence_miss_no_character_of_any_text(text):
    check_places(text, [tokenize(text)])


@given(TEXTS, st.sampled_from(["de", "fr", "hi", "ja", "zh", "ar", "xx", ""]))
def test_every_language_code_is_taken(text, language):
    check_places(text, split_text(text, language))


@pytest.mark.parametrize(
    ("text", "tokens"),
    [
        ("I don't; you can’t.", "I do n't ; you ca n’t ."),
        ("John's and the dogs' O'Neill", "John 's and the dogs ' O'Neill"),
        ("We cannot, they're gonna.", "We can not , they 're gon na ."),
        ("Dr. J. Smith of the U.S. at 3 p.m.", "Dr. J. Smith of the U.S. at 3 p.m."),
        ("It was Smith.", "It was Smith ."),
        ("It was I.", "It was I ."),
        ("$1,592.50 (5%) on 9/11 at 3:10", "$ 1,592.50 ( 5 % ) on 9/11 at 3:10"),
        ("a well-known AT&T state-of-the-art", "a well-known AT&T state-of-the-art"),
        ("so... he said -- what?!", "so ... he said -- what ?!"),
        ('"Hi," she said.', '" Hi , " she said .'),
        ("See https://a.org/b?c=1, or me@a.org.", "See https://a.org/b?c=1 , or me@a.org ."),
        ("open notes.pdf at amazon.com.", "open notes.pdf at amazon.com ."),
        ("हिन्दी भाषा।", "हिन्दी भाषा ।"),
        ("東京へ", "東 京 へ"),
        ("Größe naïve п'ять", "Größe naïve п'ять"),
    ],
)
def test_words_are_cut_as_in_the_penn_treebank(text, tokens):
    assert tokenize(text).tokens == tokens.split()


def test_sentences_end_where_a_reader_would_end_them():
    text = 'Mr. Bell took a bow. Did he?  "He did," said J. R. Lee.\n\nA new paragraph'
    assert [" ".join(sentence.tokens) for sentence in split_text(text)] == [
        "Mr. Bell took a bow .",
        "Did he ?",
        '" He did , " said J. R. Lee .',
        "A new paragraph",
    ]


def test_a_text_without_tokens_has_no_sentences():
    assert split_text("") == split_text(" \n\t\u3000") == []
    assert tokenize(" ") == Sentence([], [])


def test_wide_spaces_before_a_full_stop_are_harmless():
    assert tokenize("A\u3000.").tokens == [t for s in split_text("A\u3000.") for t in s.tokens]


@pytest.mark.parametrize("piece", ["a", "-.", "+-", "@a.", "http://", "n't", "日", "a."])
def test_long_runs_of_one_thing_are_linear(piece):
    # Quadratic work on a fifth of a million characters takes hours.
    text = piece * (200_000 // len(piece))
    assert sum(end - start for start, end in tokenize(text).offsets) == len(text)


def test_half_a_character_is_kept_where_it_stands():
    text = "A broken \ud800 mark. Next."
    sentences = split_text(text)
    assert [len(sentence.tokens) for sentence in sentences] == [5, 2]
    assert sentences[0].tokens[2] == "\ud800"
    assert all(
        text[start:end] == token
        for sentence in sentences
        for token, (start, end) in zip(sentence.tokens, sentence.offsets, strict=True)
    )
