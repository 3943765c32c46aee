"""Split raw text into sentences of tokens with character offsets.

In: a str. Out: `Sentence`s whose tokens are slices of that str; only white space is left out.
sentencex finds the sentences; words are tokenized as in the Penn Treebank (do|n't, John|'s, U.S.),
like the training text of the released models and most English task data.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice

import regex

from elmo.text.splitter import sentence_spans

_APOSTROPHE = r"['\u2019]"
_CLITIC = rf"(?:n{_APOSTROPHE}t|{_APOSTROPHE}(?:s|re|ve|ll|d|m))\b"
# Scripts without spaces between words: one token per character. Otherwise a "word" would be a
# whole clause, of which the model reads only 48 bytes.
_LETTER = r"[^\W\p{Han}\p{Hiragana}\p{Katakana}\p{Thai}\p{Lao}\p{Khmer}\p{Myanmar}]"
_ABBREVIATION = (
    "mr|mrs|ms|dr|prof|sen|rep|gov|gen|col|capt|lt|sgt|rev|st|jr|sr|inc|ltd|corp|co|vs|etc|fig|vol"
    "|jan|feb|aug|sept?|oct|nov|dec"
)

# The first alternative that matches is the token.
_TOKEN = regex.compile(
    rf"""
      \p{{Ll}}+(?=[\s,])(?<!cannot|gonna|wanna|gotta|gimme|lemme)  # most words: twice as fast
    | (?:https?://|www\.)[^\s<>"]*[^\s<>"'.,;:!?)\]]        # addresses
    | \w[\w.+-]{{0,63}}@\w[\w-]*(?:\.\w[\w-]*)+             # bounded, so that no text takes long
    | {_CLITIC}                                             # left over from the word before
    | \b(?:can(?=not\b)|(?:gon|wan)(?=na\b)|got(?=ta\b)|(?:gim|lem)(?=me\b))
    | \b\p{{L}}(?:\.\p{{L}})+\.?(?!\w)                      # U.S.  p.m.
    | \b(?:\p{{L}}|{_ABBREVIATION})\.(?=\s+\S)              # J. Smith, Dr. Smith; not at the end
    | \d+(?:[.,:/]\d+)+                                     # 1,592.5  3:10  9/11
    | {_LETTER}+(?:\.(?-i:\p{{Ll}}){_LETTER}*)+             # amazon.com  notes.pdf
    | {_LETTER}+?(?=n{_APOSTROPHE}t\b)                      # the do of don't
    | {_LETTER}+(?:(?!{_CLITIC})[-\u2010\u2011'\u2019&]{_LETTER}+)*  # well-known, O'Neill, AT&T
    | (?<!\S)[:;=]-?[()DP](?!\w)                            # :-)
    | \.\.+ | --+ | [!?]+ | '' | `` | ([*=~\#_$<>+])\1+
    | [^\s\x1c-\x1f]\p{{M}}*                                # str.isspace() holds for these four too
    """,
    regex.VERBOSE | regex.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class Sentence:
    """Tokens in order; `offsets` are their (start, end) in the raw text, empty for token lists."""

    tokens: list[str]
    offsets: list[tuple[int, int]]


def split_text(text: str, language: str = "en") -> list[Sentence]:
    """The sentences of a text; an empty list if it is empty or all white space.

    `language` is an ISO 639 code; it affects where sentences end, not how words are tokenized.
    """
    return list(iter_sentences(text, language))


def iter_sentences(text: str, language: str = "en") -> Iterator[Sentence]:
    """The sentences of `split_text` one by one, for callers that may stop early."""
    for start, end in sentence_spans(text, language):
        sentence = _tokenize_range(text, start, end)
        if sentence.tokens:
            yield sentence


def count_tokens(text: str, most: int) -> int:
    """The approximate number of tokens, counted up to `most`; far cheaper than `split_text`."""
    return sum(1 for _ in islice(_TOKEN.finditer(text), most))


def tokenize(text: str) -> Sentence:
    """Tokenize a text that is one sentence."""
    return _tokenize_range(text, 0, len(text))


def _tokenize_range(text: str, start: int, end: int) -> Sentence:
    offsets = [match.span() for match in _TOKEN.finditer(text, start, end)]
    return Sentence([text[i:j] for i, j in offsets], offsets)
