"""Documents with coreference clusters, in CoNLL columns.

In: a file (plain, .gz, .xz) in which `#begin document` starts a document and the last column of a
row has the mentions that begin or end there: "(3", "3)", "(3)", several of them joined directly or
by "|". Out: `Document`s, whose clusters are sets of spans of token positions in the document.
"""

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate
from pathlib import Path
from typing import Annotated

from elmo.errors import DataError
from elmo.files.text_files import read_raw_lines
from elmo.settings import NonNegativeInt, PositiveInt, checked

Span = tuple[int, int]  # first token, the one after the last
Clusters = list[list[Span]]

BEGIN = re.compile(r"#\s*begin document\b\s*(.*)")
BRACKETS = re.compile(r"\(([^()|]+)\)|\(([^()|]+)|([^()|]+)\)")
NOTHING = ("", "_", "-")  # the last column where no mention begins or ends
SENTENCE_ENDS, CLOSERS = (".", "?", "!"), ("'", '"', "''", "\u2019", "\u201d", ")", "]")
CONLL_2012_WORD, SHORT_WORD = 3, 1  # column of the word in long and in short rows
CONLL_2012_SPEAKER, CONLL_2012_COLUMNS = 9, 12
# The genre in a document's name: (bc/cctv/00/cctv_0001); part 000, or GUM_academic_art.
GENRE = re.compile(r"\(?([a-z]{2})/|(?:GUM|GENTLE)_([a-z]+)_")


@dataclass(frozen=True, kw_only=True, slots=True)
@checked
class CorefDataConfig:
    """The format of the data files."""

    word_column: Annotated[
        NonNegativeInt | None, "column of the word, from 0; none: 3 (CoNLL-2012), 1 in short rows"
    ] = None
    has_singletons: Annotated[
        bool, "keep gold entities with one mention in evaluation, where they count as misses"
    ] = False
    speaker_column: Annotated[
        NonNegativeInt | None,
        "column of the speaker, from 0; none: 9 in rows of at least 12 columns (CoNLL-2012)",
    ] = None
    skips_broken: Annotated[bool, "skip unclosed mentions and empty words"] = False
    max_training_tokens: Annotated[
        PositiveInt,
        "approximate maximum tokens of a training document; longer documents are split",
    ] = 800


@dataclass(frozen=True, slots=True)
class Pronoun:
    """A GAP question: whether a pronoun refers to either of two names."""

    span: Span
    names: tuple[Span, Span]
    refers: tuple[bool, bool]
    is_masculine: bool


@dataclass(frozen=True, slots=True)
class Document:
    """An example; clusters are absent in raw text and in GAP."""

    name: str
    sentences: tuple[tuple[str, ...], ...]
    clusters: tuple[tuple[Span, ...], ...] | None = None
    pronoun: Pronoun | None = None
    speakers: tuple[str | None, ...] = ()  # of each token; empty: unknown

    @property
    def genre(self) -> str | None:
        """The genre in the document's name, as in OntoNotes and GUM; None if there is none."""
        found = GENRE.search(self.name)
        return None if found is None else found[1] or found[2]

    @property
    def tokens(self) -> list[str]:
        """All tokens in order."""
        return [token for sentence in self.sentences for token in sentence]


def read_documents(path: Path, config: CorefDataConfig) -> list[Document]:
    """The documents of a file in columns."""
    documents: list[Document] = []
    unfinished: _Unfinished | None = None
    for number, line in enumerate(read_raw_lines(path), start=1):
        line = line.rstrip("\r\n")
        begins = BEGIN.match(line)
        if begins:
            if unfinished is not None:
                documents.append(unfinished.finish())
            name = f"{len(documents)} {begins[1]}".strip()
            unfinished = _Unfinished(name, path, config)
        elif not line.strip():
            if unfinished is not None:
                unfinished.end_sentence()
        elif unfinished is None:
            raise DataError(
                f"{path}:{number}: {line[:40]!r} before any document, expected a line such as "
                "'#begin document (name)'"
            )
        elif "\t" in line or not line.startswith("#"):  # skips '#end document', not '#' with tabs
            # Only at plain spaces: a word may contain other white space.
            fields = line.split("\t") if "\t" in line else re.split(" +", line.strip(" "))
            unfinished.add(fields, number)
    if unfinished is None:
        raise DataError(f"{path}: no document, expected '#begin document' before each")
    return [*documents, unfinished.finish()]


class _Unfinished:
    """A document while it is being read."""

    def __init__(self, name: str, path: Path, config: CorefDataConfig) -> None:
        self._name, self._path, self._config = name, path, config
        self._sentences: list[list[str]] = [[]]
        self._speakers: list[str | None] = []  # of each token
        self._open: dict[str, list[tuple[int, int]]] = {}  # entity -> (token, line)
        self._clusters: dict[str, set[Span]] = {}

    def add(self, fields: Sequence[str], line: int) -> None:
        """Add a row."""
        column = self._config.word_column
        if column is None:
            column = CONLL_2012_WORD if len(fields) > CONLL_2012_WORD + 1 else SHORT_WORD
        if column >= len(fields) - 1:
            raise DataError(
                f"{self._path}:{line}: {len(fields)} columns, expected a word in column {column} "
                "(counted from 0) and coreference in the last; see data.word_column"
            )
        if fields[column].strip():
            self._sentences[-1].append(fields[column].strip())
            self._speakers.append(self._speaker(fields))
        elif not self._config.skips_broken:
            raise self._broken(line, f"column {column} is empty, expected a word")
        if fields[-1].strip() not in NOTHING:
            self._add_mentions(fields[-1].strip(), line)

    @property
    def _n_tokens(self) -> int:
        return len(self._speakers)

    def _speaker(self, fields: Sequence[str]) -> str | None:
        column = self._config.speaker_column
        if column is None and len(fields) >= CONLL_2012_COLUMNS:
            column = CONLL_2012_SPEAKER
        speaker = "" if column is None or column >= len(fields) - 1 else fields[column].strip()
        return None if speaker in NOTHING else speaker

    def _add_mentions(self, brackets: str, line: int) -> None:
        """Record the mentions that begin or end at the last token."""
        if BRACKETS.sub("", brackets).strip("|"):
            raise DataError(
                f"{self._path}:{line}: {brackets!r} in the last column, expected mentions such as "
                "(3, 3) or (3)"
            )
        for alone, begun, ended in BRACKETS.findall(brackets):
            if alone:
                self._clusters.setdefault(alone, set()).add((self._n_tokens - 1, self._n_tokens))
            elif begun:
                self._open.setdefault(begun, []).append((self._n_tokens - 1, line))
            elif self._open.get(ended):
                # Close the innermost: a mention may contain another mention of its entity.
                start, _ = self._open[ended].pop()
                self._clusters.setdefault(ended, set()).add((start, self._n_tokens))
            elif not self._config.skips_broken:
                raise self._broken(line, f"{ended}) closes a mention, expected ({ended} before it")

    def end_sentence(self) -> None:
        """End a sentence, at a blank line."""
        if self._sentences[-1]:
            self._sentences.append([])

    def finish(self) -> Document:
        """Check that all mentions have ended, and return the document."""
        still_open = min((line for left in self._open.values() for _, line in left), default=None)
        if still_open is not None and not self._config.skips_broken:
            raise self._broken(still_open, "a mention begins here, expected its end")
        sentences = [tuple(sentence) for sentence in self._sentences if sentence]
        if not sentences:
            raise DataError(f"{self._path}: document {self._name!r} has no words")
        if len(sentences) == 1:  # no blank lines: sentence boundaries are unknown
            sentences = split_tokens(sentences[0])
        clusters = [tuple(sorted(spans)) for spans in self._clusters.values()]
        if not self._config.has_singletons:
            clusters = [spans for spans in clusters if len(spans) > 1]
        speakers = tuple(self._speakers) if any(self._speakers) else ()
        return Document(self._name, tuple(sentences), tuple(sorted(clusters)), speakers=speakers)

    def _broken(self, line: int, found_and_expected: str) -> DataError:
        return DataError(
            f"{self._path}:{line}: {found_and_expected}; data.skips_broken=true ignores it"
        )


def split_tokens(tokens: Sequence[str]) -> list[tuple[str, ...]]:
    """Split tokens into sentences, after . ? ! and any closing quotes and brackets after them."""
    sentences: list[list[str]] = []
    has_ended = True
    for token in tokens:
        if has_ended and not (sentences and token in (*SENTENCE_ENDS, *CLOSERS)):
            sentences.append([])
            has_ended = False
        sentences[-1].append(token)
        has_ended = has_ended or token in SENTENCE_ENDS
    return [tuple(sentence) for sentence in sentences]


def cut(document: Document, max_tokens: int) -> Iterator[Document]:
    """Split a document into pieces of whole sentences and similar length.

    Links between pieces are lost.
    """
    ends = list(accumulate(map(len, document.sentences)))
    n_pieces = -(-ends[-1] // max_tokens)
    first, start = 0, 0
    for piece in range(1, n_pieces + 1):
        is_within = [end for end in ends[first:] if end <= piece * ends[-1] / n_pieces]
        last = first + len(is_within)
        if last == first:  # a sentence longer than a piece
            continue
        stop = ends[last - 1]
        clusters = (
            tuple((a - start, b - start) for a, b in spans if a >= start and b <= stop)
            for spans in document.clusters or ()
        )
        kept = tuple(spans for spans in clusters if len(spans) > 1)
        speakers = document.speakers[start:stop]
        yield Document(document.name, document.sentences[first:last], kept, speakers=speakers)
        first, start = last, stop
