"""Text to an index of its words in context, in one stream.

In: a model and any number of sentences. Out: a folder for `WordIndex`. Memory does not grow with
the text but for its distinct words; a build that ends early leaves no folder.
"""

import json
import tempfile
import weakref
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import numpy as np
from tqdm import tqdm

from elmo.checkpoint import written_whole
from elmo.corpus import split_line
from elmo.elmo import Elmo
from elmo.errors import DataError
from elmo.indexed_vectors import new_vectors
from elmo.indexed_words import write_words
from elmo.kept_lines import new_lines
from elmo.shards import read_lines
from elmo.word_index import FIRST_TOKENS, SENTENCES, SETTINGS, WordIndex, index_settings

Tokens = Sequence[str]


def build_index(elmo: Elmo, sentences: Iterable[Tokens], folder: Path) -> WordIndex:
    """Embed all sentences and keep their words in a folder, in place of an index that is there."""
    if folder.exists() and not (folder / SETTINGS).exists() and not _is_empty(folder):
        raise DataError(
            f"{folder}: holds something else, expected a new folder or an old index; "
            "name another one"
        )
    with written_whole(folder) as unfinished:
        unfinished.mkdir(parents=True)
        numbers = _write_tokens(elmo, sentences, unfinished)
        write_words(unfinished, numbers, elmo.embedder)
        settings = json.dumps(index_settings(elmo.bilm), indent=2) + "\n"
        (unfinished / SETTINGS).write_text(settings, encoding="utf-8")
    return WordIndex(folder, elmo)


def passing_index(elmo: Elmo, sentences: Iterable[Tokens]) -> WordIndex:
    """An index in a folder of its own, which is removed when the index is no longer used."""
    folder = tempfile.TemporaryDirectory(prefix="elmo-index-", ignore_cleanup_errors=True)
    index = build_index(elmo, sentences, Path(folder.name) / "index")
    weakref.finalize(index, folder.cleanup)
    return index


def read_sentences(shards: Iterable[Path], *, is_tokenised: bool = False) -> Iterator[Tokens]:
    """The sentences of text files, one after the other."""
    for shard in shards:
        for line in read_lines(shard):
            yield from split_line(line, is_tokenised=is_tokenised)


def _write_tokens(elmo: Elmo, sentences: Iterable[Tokens], folder: Path) -> dict[str, int]:
    """Write sentences and the vectors of their tokens; give the distinct words as they came."""
    numbers: dict[str, int] = {}
    n_tokens = 0
    with (
        new_lines(folder / SENTENCES) as append,
        new_vectors(folder, elmo.n_layers - 1) as put,
        (folder / FIRST_TOKENS).open("wb") as first_tokens,
        tqdm(desc="embedding", unit=" words", unit_scale=True, disable=None) as bar,
    ):
        for embedded in elmo.stream(tokens for tokens in sentences if tokens):
            tokens = embedded.tokens
            append(tokens)
            first_tokens.write(n_tokens.to_bytes(8, "little"))
            word_numbers = [numbers.setdefault(word, len(numbers)) for word in tokens]
            put(embedded.layers, np.array(word_numbers, np.int64))
            n_tokens += len(tokens)
            bar.update(len(tokens))
        first_tokens.write(n_tokens.to_bytes(8, "little"))
    if not n_tokens:
        raise DataError("no words to index, expected text; name a file that holds some")
    return numbers


def _is_empty(folder: Path) -> bool:
    return folder.is_dir() and next(folder.iterdir(), None) is None
