"""The token cache: a corpus that is split into words once, then read through a memory map.

In: text shards, raw or tokenized. Out: a `TokenCache` folder: `tokens.bin` (one sentence per line,
one space between words), index arrays, and `words.txt` (all words with their counts). It is built
in a temporary folder and renamed when complete; memory use does not grow with the corpus.
"""

import hashlib
import json
import mmap
import os
from collections import Counter
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from functools import partial
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt
from tqdm import tqdm

from elmo.errors import DataError
from elmo.files.atomic import atomic_folder
from elmo.files.parallel import map_in_order
from elmo.files.text_files import BLOCK_CHARACTERS, STANDARD_INPUT, read_blocks
from elmo.text.lines import LineFormat, line_format_of, split_line
from elmo.text.vocabulary import BEGIN, END, UNKNOWN, Vocabulary

# Incremented when the folder layout or the splitting of text changes: old caches are not used then.
FORMAT = 2
# As in word2vec, rare words are dropped when there are too many. Only words that occur less than
# once in about ten million others can be lost, and those never reach a vocabulary.
MOST_WORDS = 4_000_000

# Bytes of each file that its cache is named by.
KEY_BYTES = 2**20

IntegerArray = npt.NDArray[np.int64]


@dataclass(frozen=True)
class CorpusCounts:
    """The size of a cache, and the hash of its text."""

    n_tokens: int
    n_sentences: int
    n_documents: int
    sha256: str  # of tokens.bin: caches of the same text are the same corpus, whatever their path


class TokenCache:
    """A corpus as numbered sentences of words."""

    def __init__(self, folder: Path) -> None:
        """Open a folder that `build_cache` wrote; raise a DataError if it is damaged."""
        self.folder = folder
        try:
            self.counts = CorpusCounts(**json.loads((folder / "counts.json").read_text()))
            with (folder / "tokens.bin").open("rb") as file:
                self._text = mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)
            # All three arrays have one more entry than there are sentences or documents: the end.
            self._offsets = _open_array(folder / "offsets.bin")  # byte where a sentence starts
            # Position where a sentence starts in the stream: n words take n + 1 positions, because
            # a language model also predicts the sentence's end.
            self.positions = _open_array(folder / "positions.bin")
            # Sentence where a document starts.
            self.documents = _open_array(folder / "documents.bin")
        except (FileNotFoundError, ValueError, TypeError) as error:  # ValueError: an empty file
            raise self._damaged(str(error)) from error
        counts = self.counts
        for name, array, length, end in (
            ("offsets", self._offsets, counts.n_sentences, len(self._text)),
            ("positions", self.positions, counts.n_sentences, counts.n_tokens + counts.n_sentences),
            ("documents", self.documents, counts.n_documents, counts.n_sentences),
        ):
            if len(array) != length + 1 or array[-1] != end:
                raise self._damaged(
                    f"{name}.bin has {len(array)} entries up to {array[-1]}, expected {length + 1} "
                    f"up to {end}"
                )

    def _damaged(self, reason: str) -> DataError:
        return DataError(
            f"{self.folder}: a damaged token cache ({reason}); delete this folder, and it is built "
            "again"
        )

    def sentence(self, number: int) -> list[str]:
        """The words of a sentence."""
        start, stop = self._offsets[number : number + 2].tolist()
        return self._text[start : stop - 1].decode().split(" ")

    def vocabulary(self, max_size: int | None = None, min_count: int = 1) -> Vocabulary:
        """The most frequent words that occur at least `min_count` times.

        `max_size` is their maximum number, including the reserved words.
        """
        frequent = (word for count, word in self._counted_words() if count >= min_count)
        everything = Vocabulary.of_words(islice(frequent, max_size))
        return Vocabulary(everything.words[:max_size])

    def frequencies(self, vocabulary: Vocabulary) -> npt.NDArray[np.float64]:
        """Relative frequencies, above zero, of the words of a vocabulary that this cache built."""
        counts = np.ones(len(vocabulary))
        frequent = list(islice(self._counted_words(), len(vocabulary)))
        counts[vocabulary.ids([word for _, word in frequent])] = [count for count, _ in frequent]
        counts[[BEGIN, END]] = self.counts.n_sentences
        counts[UNKNOWN] = 1 + self.counts.n_tokens - counts[UNKNOWN + 1 :].sum()
        return np.asarray(counts / self.positions[-1])

    def _counted_words(self) -> Iterator[tuple[int, str]]:
        """All words that were counted, the most frequent first."""
        with (self.folder / "words.txt").open(encoding="utf-8", newline="\n") as file:
            for line in file:
                count, word = line.removesuffix("\n").split(" ", 1)
                yield int(count), word


def build_cache(
    shards: Sequence[Path], folder: Path, lines: LineFormat = "paragraphs"
) -> TokenCache:
    """The cache of these files under `folder`, built unless it exists."""
    if STANDARD_INPUT in shards:
        raise DataError("standard input cannot be read twice, expected a file")
    lines = line_format_of(shards, lines)
    place = folder / _key(shards, lines)
    if not place.exists():
        with atomic_folder(place, durable=True, overwrite=False) as temporary:
            _write_cache(shards, temporary, lines=lines)
    return TokenCache(place)


@dataclass(frozen=True)
class _Split:
    """A block of text, split into sentences of words."""

    text: bytes
    n_bytes: IntegerArray  # of each sentence with its newline
    n_tokens: IntegerArray  # of each sentence
    document_starts: IntegerArray  # indices of sentences in this block
    counts: Counter[str]


def _write_cache(shards: Sequence[Path], folder: Path, lines: LineFormat) -> None:
    n_bytes = n_positions = n_sentences = n_documents = 0
    counter = _WordCounter()
    digest = hashlib.sha256()
    blocks = map_in_order(
        partial(_split_block, line_format=lines),
        read_blocks(list(shards)),
        _workers(shards),
    )
    with ExitStack() as stack:
        text, offsets, positions, documents = (
            stack.enter_context((folder / f"{name}.bin").open("wb"))
            for name in ("tokens", "offsets", "positions", "documents")
        )
        bar = stack.enter_context(
            tqdm(desc="splitting", unit="word", unit_scale=True, disable=None)
        )
        for split in blocks:
            text.write(split.text)
            digest.update(split.text)
            offsets.write(_starts(split.n_bytes, n_bytes).data)
            positions.write(_starts(split.n_tokens + 1, n_positions).data)
            documents.write((split.document_starts + n_sentences).data)
            n_bytes += len(split.text)
            n_positions += int(split.n_tokens.sum()) + len(split.n_tokens)
            n_sentences += len(split.n_tokens)
            n_documents += len(split.document_starts)
            counter.add(split.counts)
            bar.update(int(split.n_tokens.sum()))
        for end, file in ((n_bytes, offsets), (n_positions, positions), (n_sentences, documents)):
            file.write(np.array([end], dtype=np.int64).data)
    if n_sentences == 0:
        raise DataError(
            f"{', '.join(map(str, shards[:3]))}: no words in {len(shards)} files, expected text"
        )
    counter.write(folder / "words.txt")
    counts = CorpusCounts(n_positions - n_sentences, n_sentences, n_documents, digest.hexdigest())
    (folder / "counts.json").write_text(json.dumps(asdict(counts), indent=1) + "\n")


def _split_block(lines: list[str], *, line_format: LineFormat) -> _Split:
    """Split the lines of a block into sentences of words."""
    sentences: list[list[str]] = []
    document_starts: list[int] = []
    is_new_document = True
    for line in lines:
        if not line:
            is_new_document = True
            continue
        found = [sentence.tokens for sentence in split_line(line, line_format)]
        if is_new_document and found:
            document_starts.append(len(sentences))
            is_new_document = False
        sentences.extend(found)
    texts = [" ".join(words).encode() + b"\n" for words in sentences]
    text = b"".join(texts)
    n_words = sum(map(len, sentences))
    assert text.count(b" ") + len(sentences) == n_words, "a word holds a space"
    assert text.count(b"\n") == len(sentences), "a word holds a line end"
    return _Split(
        text,
        np.array(list(map(len, texts)), dtype=np.int64),
        np.array(list(map(len, sentences)), dtype=np.int64),
        np.array(document_starts, dtype=np.int64),
        Counter(word for words in sentences for word in words),
    )


class _WordCounter:
    """Counts of words in bounded memory."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._too_rare = 0

    def add(self, counts: Counter[str]) -> None:
        self._counts.update(counts)
        while len(self._counts) > MOST_WORDS:
            self._too_rare += 1
            kept = {word: n for word, n in self._counts.items() if n > self._too_rare}
            self._counts = Counter(kept)

    def write(self, path: Path) -> None:
        """Write `count word` lines in descending order of counts, equal counts sorted by word."""
        with path.open("w", encoding="utf-8", newline="\n") as file:
            for word, count in sorted(self._counts.items(), key=lambda pair: (-pair[1], pair[0])):
                file.write(f"{count} {word}\n")


def _workers(shards: Sequence[Path]) -> int:
    n_bytes = sum(shard.stat().st_size for shard in shards)
    return min(os.cpu_count() or 1, 1 + n_bytes // BLOCK_CHARACTERS)


def _key(shards: Sequence[Path], lines: LineFormat) -> str:
    """The name of the cache of these files, by their names, sizes, times and first megabyte.

    Files of the same name are often made at the same moment, such as those of several data sets
    that one program writes.
    """
    stats = [(shard.name, shard.stat().st_size, shard.stat().st_mtime_ns) for shard in shards]
    digest = hashlib.sha256(json.dumps([FORMAT, lines, stats]).encode())
    for shard in shards:
        if shard.is_file():  # what is read from a pipe would be lost
            with shard.open("rb") as file:
                digest.update(file.read(KEY_BYTES))
    return digest.hexdigest()[:16]


def _starts(lengths: IntegerArray, first: int) -> IntegerArray:
    """The start offsets of consecutive items of these lengths; the first starts at `first`."""
    return np.cumsum(lengths, dtype=np.int64) - lengths + first


def _open_array(path: Path) -> IntegerArray:
    return np.memmap(path, dtype=np.int64, mode="r").view(np.ndarray)  # cheaper to slice
