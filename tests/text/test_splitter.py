import string
import unicodedata

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sentencex import get_sentence_boundaries

from elmo.text.splitter import MAX_CHARACTERS, MAX_MARKS, sentence_spans

MARKS = [*string.punctuation, *"’‘“”«»‹›„‚…–—¿¡。！？、「」『』（）؟।॥։።•·\u200b\u0301"]
OTHERS = [*" \t\n\r\x0b\x85\xa0\u2028\u3000aA1é日", ". ", "A. ", '." ', "a "]


class Recorder:
    """A splitter that records what it is given and finds a boundary every `step` characters."""

    def __init__(self, step):
        self.step = step
        self.pieces = []

    def __call__(self, language, text):
        self.pieces.append(text)
        return [{"end_index": end} for end in [*range(self.step, len(text), self.step), len(text)]]

    def check_work(self, text):
        """Each piece is bounded, and all pieces together are at most eight times the text."""
        for piece in self.pieces:
            assert len(piece) <= MAX_CHARACTERS
            marks = [c for c in set(piece) if unicodedata.category(c)[0] in "PSC"]
            assert sum(map(piece.count, marks)) <= MAX_MARKS
        assert sum(map(len, self.pieces)) <= 8 * len(text)


def check_cover(text, spans):
    """Spans are in order, do not overlap, and leave out nothing but line breaks."""
    end_before = 0
    for start, end in spans:
        assert end_before <= start < end
        assert text[end_before:start].strip("\r\n") == ""
        end_before = end
    assert text[end_before:].strip("\r\n") == ""


@pytest.mark.parametrize("step", [1, 300, 10**9])
@pytest.mark.parametrize("first", [*MARKS, *OTHERS])
def test_the_splitter_gets_bounded_pieces_of_any_two_repeated_characters(first, step):
    for second in [*MARKS, *OTHERS] if step == 300 else ["", "a", '"', "\n"]:
        text = (first + second) * (1_100 // len(first + second))
        recorder = Recorder(step)
        spans = list(sentence_spans(text, find_boundaries=recorder))
        check_cover(text, spans)
        recorder.check_work(text)


@given(
    st.lists(
        st.sampled_from(['"', "'", ".", "\n", " ", "word ", "x" * 900, '."' * 90]), max_size=90
    ),
    st.integers(1, 3000),
)
def test_the_splitter_gets_bounded_pieces_of_any_text(parts, step):
    text = "".join(parts)
    recorder = Recorder(step)
    check_cover(text, list(sentence_spans(text, find_boundaries=recorder)))
    recorder.check_work(text)


def test_a_paragraph_of_usual_length_is_split_as_a_whole():
    paragraph = 'He said: "It is late. We go." Then Dr. Smith left! Why? ' * 30
    expected = [
        (b["start_index"], b["end_index"]) for b in get_sentence_boundaries("en", paragraph)
    ]
    assert list(sentence_spans(paragraph)) == expected
    recorder = Recorder(50)
    list(sentence_spans(paragraph, find_boundaries=recorder))
    assert recorder.pieces == [paragraph]


@pytest.mark.parametrize("separator", [" ", "\n"])
def test_a_long_paragraph_is_split_as_its_sentences_are(separator):
    sentences = ['He said: "It is late. We go now."', "Then Dr. Smith left!", "Was it Mr. Bell?"]
    text = separator.join(sentences * 700)
    found = [text[start:end].strip() for start, end in sentence_spans(text)]
    assert found == sentences * 700


def test_a_sentence_longer_than_a_window_stays_one():
    text = "word " * 5_000 + "ends here. And this is next."
    spans = list(sentence_spans(text))
    assert [text[start:end].strip()[-5:] for start, end in spans] == ["here.", "next."]


def test_offsets_are_right_after_windows_line_ends():
    text = "One is here.\r\n\r\nTwo is there.\r\n\r\n\r\nThree is gone."
    found = [text[start:end].strip() for start, end in sentence_spans(text)]
    assert [one for one in found if one] == ["One is here.", "Two is there.", "Three is gone."]
