"""Sentence boundaries in raw text, in time linear in its length.

In: a str. Out: the (start, end) spans of its sentences, which cover all of it except blank lines.

sentencex finds the boundaries. Its time is quadratic in the number of quotation marks and sentence
terminators of a paragraph: 900 kB of apostrophes take minutes. So it is called with one paragraph
at a time, and long paragraphs are split into overlapping windows, each with a bounded number of
such characters.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import regex
from sentencex import get_sentence_boundaries

# A language code and a text -> boundaries with `end_index`, the last one at the end of the text.
FindBoundaries = Callable[[str, str], Sequence[Mapping[str, Any]]]

# Limits of a window. Few paragraphs have more, so for ordinary text a paragraph is one window.
MAX_CHARACTERS = 8192
MAX_MARKS = 512
_MARK = regex.compile(r"[\p{P}\p{S}\p{C}]")  # punctuation, symbols, control characters
_PARAGRAPH_BREAK = regex.compile(r"\n\r*\n")  # as in sentencex
# sentencex 1.0 panics on a letter, a space of several bytes and a full stop.
_WIDE_SPACE = regex.compile(r"[^\S\x00-\x7f]")
# A lone surrogate, which occurs in text from the web, cannot be passed to sentencex.
_LONE_SURROGATE = regex.compile(r"[\ud800-\udfff]")


def sentence_spans(
    text: str, language: str = "en", find_boundaries: FindBoundaries = get_sentence_boundaries
) -> Iterator[tuple[int, int]]:
    """Yield the spans of the sentences, computed lazily."""
    if not text.isascii():
        text = _LONE_SURROGATE.sub("x", _WIDE_SPACE.sub(" ", text))
    start = 0
    for found in _PARAGRAPH_BREAK.finditer(text):
        yield from _split_paragraph(text, start, found.start(), language, find_boundaries)
        start = found.end()
    yield from _split_paragraph(text, start, len(text), language, find_boundaries)


def _split_paragraph(
    text: str, start: int, end: int, language: str, find_boundaries: FindBoundaries
) -> Iterator[tuple[int, int]]:
    sentence_start = start
    while start < end:
        stop = _window_end(text, start, end)
        boundaries = find_boundaries(language, text[start:stop])
        ends = [start + found["end_index"] for found in boundaries if found["end_index"]]
        if stop < end:
            # A boundary in the second half may depend on text after the window, such as the end
            # of a quotation: the next window starts at the last boundary of the first half.
            middle = (start + stop) // 2
            ends = [found for found in ends if found <= middle] or ends[:-1][:1]
            # Without a boundary the sentence continues in the next window.
            space = text.rfind(" ", (start + middle) // 2, middle)
            start = ends[-1] if ends else middle if space < 0 else space
        else:
            start = end
        for found in ends:
            yield sentence_start, found
            sentence_start = found
    if sentence_start < end:
        yield sentence_start, end


def _window_end(text: str, start: int, end: int) -> int:
    stop = min(end, start + MAX_CHARACTERS)
    if stop - start > MAX_MARKS:
        over = next(islice(_MARK.finditer(text, start, stop), MAX_MARKS, None), None)
        stop = stop if over is None else over.start()
    if stop == end:
        return stop
    # sentencex ignores quotation marks if their number is odd: end the window after a line, not
    # inside a quotation.
    middle = (start + stop) // 2
    line_end = text.rfind("\n", middle, stop)
    stop = stop if line_end < 0 else line_end + 1
    is_open = text.count('"', start, stop) % 2 == 1
    quote = text.rfind('"', middle + 1, stop) if is_open else -1
    return stop if quote < 0 else quote
