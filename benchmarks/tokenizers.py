"""Tokenizers compared: agreement with UD English EWT, speed on Wikipedia text, size on disk.

    pip install syntok spacy uniseg nltk blingfire     # none of these is a dependency
    python -m benchmarks.tokenizers [--split test]

Tokenizers that are not installed are left out. docs/decisions.md has the results and the choice.
"""

import argparse
import lzma
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, distribution
from pathlib import Path

DATA = Path(__file__).parents[2] / "shared" / "data"
SPEED_CHARACTERS = 1_500_000

Span = tuple[int, int]
Splitter = Callable[[str], list[list[Span]]]


@dataclass
class Paragraph:
    """A gold text with the offsets of its tokens and sentences."""

    text: str = ""
    tokens: list[Span] = field(default_factory=list)
    sentences: list[Span] = field(default_factory=list)

    def add(self, form: str, parts: list[str]) -> None:
        """Append a word as its parts if they spell it, otherwise as one token."""
        for part in parts if "".join(parts) == form else [form]:
            self.tokens.append((len(self.text), len(self.text) + len(part)))
            self.text += part

    def penn_tokens(self) -> list[Span]:
        """The tokens, with hyphenated words such as well-known joined, as in older treebanks."""
        joined: list[Span] = []
        for start, end in self.tokens:
            around = self.text[start - 1 : start], self.text[end : end + 1]
            is_hyphen = self.text[start:end] == "-" and all(map(str.isalnum, around))
            follows = joined and joined[-1][1] == start
            after_hyphen = follows and around[0] == "-" and joined[-1][1] - joined[-1][0] > 1
            if follows and (is_hyphen or (after_hyphen and self.text[start].isalnum())):
                joined[-1] = (joined[-1][0], end)
            else:
                joined.append((start, end))
        return joined


def read_xz(path: Path) -> str:
    """The text of an .xz file."""
    return lzma.decompress(path.read_bytes()).decode("utf-8")


def read_gold(path: Path) -> list[Paragraph]:
    """The paragraphs of a CoNLL-U file."""
    paragraphs: list[Paragraph] = []
    needs_space = False
    for block in read_xz(path).strip().split("\n\n"):
        lines = block.split("\n")
        if not paragraphs or any(line.startswith(("# newpar", "# newdoc")) for line in lines):
            paragraphs.append(Paragraph())
            needs_space = False
        paragraph = paragraphs[-1]
        start = len(paragraph.text) + needs_space
        for form, parts, has_space in words_of(lines):
            paragraph.text += " " * needs_space
            paragraph.add(form, parts)
            needs_space = has_space
        paragraph.sentences.append((start, len(paragraph.text)))
    return paragraphs


def words_of(lines: list[str]) -> Iterator[tuple[str, list[str], bool]]:
    """Each orthographic word, its syntactic words, and whether a space follows."""
    rows = [line.split("\t") for line in lines if not line.startswith("#")]
    forms = {row[0]: row[1] for row in rows}
    last_covered = 0
    for row in rows:
        has_space = "SpaceAfter=No" not in row[9]
        if "-" in row[0]:
            first, last = map(int, row[0].split("-"))
            yield row[1], [forms[str(k)] for k in range(first, last + 1)], has_space
            last_covered = last
        elif row[0].isdigit() and int(row[0]) > last_covered:
            yield row[1], [row[1]], has_space


def elmo_text() -> Splitter:
    """Ours: sentencex for sentences, one regular expression for words."""
    from elmo.text.tokenizer import split_text

    return lambda text: [sentence.offsets for sentence in split_text(text)]


def syntok() -> Splitter:
    """Pure Python; English, German, Spanish."""
    from syntok import segmenter
    from syntok.tokenizer import Tokenizer

    cut = Tokenizer(replace_not_contraction=False).tokenize
    return lambda text: [
        [(token.offset, token.offset + len(token.value)) for token in sentence]
        for sentence in segmenter.segment(cut(text))
    ]


def spacy() -> Splitter:
    """The blank English pipeline with the rule-based sentencizer."""
    import spacy as library

    pipeline = library.blank("en")
    pipeline.add_pipe("sentencizer")
    return lambda text: [
        [(token.idx, token.idx + len(token)) for token in sentence if not token.is_space]
        for sentence in pipeline(text).sents
    ]


def nltk() -> Splitter:
    """Punkt without its downloaded parameters, and NLTK's Treebank words."""
    from nltk.tokenize.destructive import NLTKWordTokenizer
    from nltk.tokenize.punkt import PunktSentenceTokenizer

    sentences, words = PunktSentenceTokenizer(), NLTKWordTokenizer()
    return lambda text: [
        [(start + i, start + j) for i, j in words.span_tokenize(text[start:end])]
        for start, end in sentences.span_tokenize(text)
    ]


def blingfire() -> Splitter:
    """Finite automata in C++."""
    import blingfire as library

    def split(text: str) -> list[list[Span]]:
        if not text.strip():
            return []
        return [
            [
                (start + i, start + j)
                for i, j in library.text_to_words_with_offsets(text[start:end])[1]
            ]
            for start, end in library.text_to_sentences_and_offsets(text)[1]
        ]

    return split


def uniseg() -> Splitter:
    """Word and sentence boundaries of the Unicode standard, in Python."""
    from itertools import pairwise

    from uniseg.sentencebreak import sentence_boundaries
    from uniseg.wordbreak import word_boundaries

    return lambda text: [
        [
            (start + i, start + j)
            for i, j in pairwise(word_boundaries(text[start:end]))
            if not text[start + i : start + j].isspace()
        ]
        for start, end in pairwise(sentence_boundaries(text))
    ]


def f1(gold: set[tuple[int, int, int]], found: set[tuple[int, int, int]]) -> float:
    """F1 of exact offsets, in percent."""
    return 200 * len(gold & found) / (len(gold) + len(found))


def agreement(split: Splitter, paragraphs: list[Paragraph]) -> list[float]:
    """F1 of tokens, of tokens with hyphenated words as one, and of sentences."""
    found = [[spans for spans in split(paragraph.text) if spans] for paragraph in paragraphs]
    tokens = {(k, *span) for k, text in enumerate(found) for spans in text for span in spans}
    sentences = {(k, spans[0][0], spans[-1][1]) for k, text in enumerate(found) for spans in text}
    numbered = list(enumerate(paragraphs))
    return [
        f1({(k, *span) for k, p in numbered for span in p.tokens}, tokens),
        f1({(k, *span) for k, p in numbered for span in p.penn_tokens()}, tokens),
        f1({(k, *span) for k, p in numbered for span in p.sentences}, sentences),
    ]


def installed_megabytes(names: list[str]) -> float:
    """Size of the files of these packages in megabytes."""
    files = [file for name in names for file in distribution(name).files or []]
    paths = [Path(str(file.locate())) for file in files]
    return sum(path.stat().st_size for path in paths if path.is_file()) / 1e6


def main() -> None:
    """Print one row per tokenizer."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--split", default="dev", choices=["dev", "test"])
    paragraphs = read_gold(DATA / "pos" / "ud-ewt" / f"{parser.parse_args().split}.conllu.xz")
    lines = read_xz(DATA / "wiki" / "train-00.txt.xz")[:SPEED_CHARACTERS].split("\n")
    candidates = {
        elmo_text: ["sentencex", "regex"],
        syntok: ["syntok", "regex"],
        spacy: ["spacy", "thinc", "blis", "pydantic", "pydantic_core"],
        nltk: ["nltk", "regex", "joblib"],
        blingfire: ["blingfire"],
        uniseg: ["uniseg"],
    }
    print("tokenizer   token F1  hyphens whole  sentence F1   tokens/s    MB")
    for make, packages in candidates.items():
        try:
            megabytes = installed_megabytes(packages)
        except PackageNotFoundError:
            continue
        split = make()
        scores = agreement(split, paragraphs)
        started_at = time.process_time()
        n_tokens = sum(len(spans) for line in lines for spans in split(line))
        speed = n_tokens / (time.process_time() - started_at)
        print(
            f"{make.__name__:10} {scores[0]:9.2f} {scores[1]:14.2f} {scores[2]:12.2f} "
            f"{speed:10,.0f} {megabytes:5.0f}",
            flush=True,
        )


if __name__ == "__main__":
    main()
