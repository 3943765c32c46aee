"""Requests to sentences, within the limits: what is too much is refused before the model runs."""

from collections.abc import Sequence

from elmo.serve.serve_config import Limits
from elmo.text.tokenizer import Sentence, split_text, tokenize

Text = str | Sequence[str]


class TooLargeError(Exception):
    """A request asks for more than the limits allow."""


def cut_texts(texts: Sequence[Text], limits: Limits) -> list[list[Sentence]]:
    """The sentences of each text."""
    cut: list[list[Sentence]] = []
    n_sentences = n_tokens = 0
    for text in texts:
        sentences = split_text(text) if isinstance(text, str) else [Sentence(list(text), [])]
        cut.append(sentences)
        n_sentences += len(sentences)
        n_tokens += sum(len(sentence.tokens) for sentence in sentences)
        refuse_over(limits, "max_sentences", n_sentences, "sentences or more")
        refuse_over(limits, "max_tokens", n_tokens, "tokens or more")
        longest = max((len(sentence.tokens) for sentence in sentences), default=0)
        refuse_over(limits, "max_sentence_tokens", longest, "tokens in a sentence")
    return cut


def cut_sentence(sentence: Text, limits: Limits) -> list[str]:
    """The tokens of one sentence."""
    tokens = tokenize(sentence).tokens if isinstance(sentence, str) else list(sentence)
    refuse_over(limits, "max_sentence_tokens", len(tokens), "tokens in a sentence")
    return tokens


def refuse_over(limits: Limits, name: str, found: int, what: str) -> None:
    """Refuse what is over the limit of that name."""
    most = getattr(limits, name)
    if found > most:
        raise TooLargeError(f"{found:,} {what}, expected at most {most:,} ({name}); send less")
