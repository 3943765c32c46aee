"""From text to sentences, tokens and character ids."""

from typing import TYPE_CHECKING

from elmo.exports import lazy_exports

if TYPE_CHECKING:
    from elmo.text.lines import read_sentences as read_sentences
    from elmo.text.lines import split_line as split_line
    from elmo.text.tokenizer import Sentence as Sentence
    from elmo.text.tokenizer import split_text as split_text
    from elmo.text.tokenizer import tokenize as tokenize

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {"lines": "read_sentences split_line", "tokenizer": "Sentence split_text tokenize"},
)
