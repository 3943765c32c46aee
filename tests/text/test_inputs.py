"""Inputs from Python: which lists are texts, which are tokens, and which are ambiguous."""

import pytest

from elmo.errors import DataError
from elmo.text.inputs import as_sentence, check_tokens, read_texts, read_tokens, refuse_tokens
from elmo.text.tokenizer import Sentence, split_text, tokenize

LINE = "I took a bow. He didn't."


@pytest.mark.parametrize(
    "texts",
    [
        ["I", "took", "a", "bow", "."],
        ["I", "took", "a", "bow."],
        ["He", "did", "n't", "bow", "to", "her", ",", "did", "he", "?"],
        ["They", "don't", "bow."],
        ["king", "queen"],
        ["", "king", "queen"],
        ["我", "喜欢", "猫", "。"],
    ],
)
def test_lists_that_could_be_the_tokens_of_a_sentence_are_refused(texts):
    with pytest.raises(DataError, match=r"of one word each, \['.*single_words=True"):
        refuse_tokens(list(read_texts(texts, "embed_tokens")), "embed_tokens")


@pytest.mark.parametrize(
    "texts",
    [
        [],
        ["bow"],
        ["", ""],
        ["", "bow"],
        ["I took a bow.", "bow"],
        ["bow\n", "arrow\n"],  # the lines of a file
        ["我喜欢猫。", "他走了。", "好"],
        ["北京天气", "北京"],
        ["ฉันชอบแมว", "เขาไปแล้ว"],
    ],
)
def test_lists_that_are_texts_are_taken(texts):
    split = list(read_texts(texts, "embed_tokens"))
    refuse_tokens(split, "embed_tokens")
    assert [text.sentences for text in split] == [split_text(text) for text in texts]


def test_one_token_list_is_distinguished_from_several():
    assert [as_list(found) for found in read_tokens(["New York", "is"], "embed")[0]] == [
        ["New York", "is"]
    ]
    assert read_tokens(["a"], "embed")[1]
    assert read_tokens([], "embed")[1]
    assert not read_tokens([["New York"]], "embed")[1]
    with pytest.raises(DataError, match="every token contains whitespace, such as 'New York'"):
        read_tokens(["New York"], "embed")


def as_list(split):
    [sentence] = split.sentences
    assert sentence.offsets == []
    return sentence.tokens


def test_a_sentence_is_a_text_or_its_tokens():
    assert as_sentence(LINE) == tokenize(LINE)
    assert as_sentence(("a", "b")) == Sentence(["a", "b"], [])


@pytest.mark.parametrize("read", [as_sentence, check_tokens])
@pytest.mark.parametrize("tokens", [["a", 3], [None], [["a"]]])
def test_what_is_no_token_is_refused(read, tokens):
    with pytest.raises(DataError, match=r"a token is .* expected a str"):
        read(tokens)
