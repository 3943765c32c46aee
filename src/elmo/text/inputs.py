"""Inputs of the Python API: texts or tokenized sentences, checked item by item.

In: a str or any iterable of them; token lists. Out: `SplitText`s. Texts and tokens go to different
calls, because a list of strings could be either. A list that looks like the other kind is rejected
with the name of the other call.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from elmo.errors import DataError
from elmo.text.tokenizer import Sentence, split_text, tokenize

Text = str | Sequence[str]  # raw text, or the tokens of a sentence
SHOWN = 40  # characters of a wrong value in a message


@dataclass(frozen=True, slots=True)
class SplitText:
    """A text split into sentences; for a token list, one sentence without a text."""

    sentences: list[Sentence]
    text: str | None = None

    @property
    def n_tokens(self) -> int:
        """The number of tokens of all sentences."""
        return sum(len(sentence.tokens) for sentence in self.sentences)


def read_texts(texts: object, tokens_call: str) -> Iterator[SplitText]:
    """Split a text, or each of an iterable; errors name `tokens_call` for token lists."""
    items = [texts] if isinstance(texts, str) else _items(texts, "a text or a list of texts")
    return (_split(text, number, tokens_call) for number, text in enumerate(items))


def read_token_lists(sentences: object, text_call: str) -> Iterator[SplitText]:
    """The sentences of an iterable of token lists; errors name `text_call` for raw texts."""
    if isinstance(sentences, str):
        raise _text_for_tokens(sentences, text_call)
    items = _items(sentences, "lists of tokens")
    return (_tokens_alone(tokens, text_call) for tokens in items)


def read_tokens(tokens: object, text_call: str) -> tuple[list[SplitText], bool]:
    """The sentences of one or several token lists, and whether a single one was given.

    An empty list is a sentence without tokens. Its `Embedded` is an empty sequence, so a caller who
    meant no sentences can iterate over it too.
    """
    if isinstance(tokens, str):
        raise _text_for_tokens(tokens, text_call)
    items = list(_items(tokens, "a list of tokens, or several"))
    if not items or isinstance(items[0], str):
        words = _tokens_of(items)
        if words and all(len(word.split()) > 1 for word in words):
            raise DataError(
                f"every token contains whitespace, such as {words[0][:SHOWN]!r}, expected tokens; "
                f"raw text goes to {text_call}; if these are tokens, pass a list of sentences: "
                "[tokens]"
            )
        return [SplitText([Sentence(words, [])])], True
    return list(read_token_lists(items, text_call)), False


def refuse_tokens(texts: Sequence[SplitText], tokens_call: str) -> None:
    """Raise a DataError if texts look like the tokens of one sentence.

    They do if none has white space and they have fewer than two tokens on average. Without the
    second condition, texts in scripts without spaces, such as Chinese, would be rejected.
    """
    words = [split.text for split in texts if split.text]
    n_tokens = sum(split.n_tokens for split in texts)
    if len(words) > 1 and n_tokens < 2 * len(words) and all(w.split() == [w] for w in words):
        raise DataError(
            f"{len(words)} texts of one word each, {_shown(words)}, look like the tokens of one "
            f"sentence; tokens go to {tokens_call}; if these are texts, set single_words=True"
        )


def as_sentence(text: Text) -> Sentence:
    """Convert a raw text that is one sentence, or a token list, to a `Sentence`."""
    if isinstance(text, str):
        return tokenize(text)
    return Sentence(_tokens_of(text), [])


def check_tokens(tokens: Iterable[object]) -> None:
    """Raise a DataError unless this is a list of tokens; a str is untokenized text."""
    if isinstance(tokens, str):
        raise _text_for_tokens(tokens, "Elmo.embed")
    for token in tokens:
        if not isinstance(token, str):
            raise DataError(
                f"a token is {_shown(token)} of type {type(token).__name__}, expected a str; give "
                "each sentence as one list of its tokens"
            )


def _items(items: object, expected: str) -> Iterator[object]:
    """The items of a one-dimensional iterable; mappings, tables and bytes are rejected."""
    is_flat = not isinstance(items, bytes | Mapping) and getattr(items, "ndim", 1) == 1
    if not is_flat or not isinstance(items, Iterable):
        raise DataError(f"{_shown(items)} of type {type(items).__name__}, expected {expected}")
    return iter(items)


def _split(text: object, number: int, tokens_call: str) -> SplitText:
    if isinstance(text, str):
        return SplitText(split_text(text), str(text))
    is_list = isinstance(text, Iterable) and not isinstance(text, bytes)
    raise DataError(
        f"text {number} is {_shown(text)} of type {type(text).__name__}, expected a str"
        + (f"; tokenized sentences go to {tokens_call}" if is_list else "")
    )


def _tokens_alone(tokens: object, text_call: str) -> SplitText:
    if isinstance(tokens, str):
        raise _text_for_tokens(tokens, text_call)
    return SplitText([Sentence(_tokens_of(list(_items(tokens, "a list of tokens"))), [])])


def _tokens_of(items: Sequence[object]) -> list[str]:
    check_tokens(items)
    return [str(item) for item in items]  # NumPy strings become plain ones


def _text_for_tokens(text: str, text_call: str) -> DataError:
    return DataError(
        f"a sentence is the text {text[:SHOWN]!r}, expected a list of tokens; raw text goes to "
        f"{text_call}"
    )


def _shown(value: object) -> str:
    """The start of a value, in one line."""
    shown = " ".join(repr(value).split())
    return shown if len(shown) <= SHOWN else f"{shown[:SHOWN]}..."
