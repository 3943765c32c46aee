"""Line formats: how a line of a text file is split into sentences of tokens.

In: a line of a file and its format. Out: `Sentence`s. A blank line has no sentence. Raw text has
character offsets, tokens have none.
"""

from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

from elmo.files.text_files import is_fasta, read_lines
from elmo.text.tokenizer import Sentence, split_text, tokenize

# paragraphs: raw text that is split into sentences. sentences: one raw sentence.
# tokens: one sentence, its tokens separated by white space as `str.split()` does.
# residues: one protein, one token per letter; non-residues (* - and spaces) are dropped.
LineFormat = Literal["paragraphs", "sentences", "tokens", "residues"]
NO_RESIDUES = str.maketrans("", "", "*- \t")


def split_line(line: str, lines: LineFormat = "paragraphs") -> list[Sentence]:
    """The sentences of one line; empty if it is blank."""
    if lines == "paragraphs":
        return split_text(line)
    if lines == "residues":
        # Lower case marks masked regions of a sequence; the residues are the same.
        sentence = Sentence(list(line.translate(NO_RESIDUES).upper()), [])
    else:
        sentence = tokenize(line) if lines == "sentences" else Sentence(line.split(), [])
    return [sentence] if sentence.tokens else []


def read_sentences(paths: Iterable[Path], lines: LineFormat = "paragraphs") -> Iterator[list[str]]:
    """The tokens of each sentence of text files (plain, .gz, .xz, or `-` for standard input)."""
    for path in paths:
        kind = line_format_of([path], lines)
        for line in read_lines(path):
            yield from (sentence.tokens for sentence in split_line(line, kind))


def line_format_of(paths: Sequence[Path], lines: LineFormat) -> LineFormat:
    """The line format of files: `residues` if all are FASTA files, else `lines`."""
    return "residues" if paths and all(map(is_fasta, paths)) else lines
