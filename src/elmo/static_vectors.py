"""A model's static vectors: one for each word, whatever its context.

In: a model, and words (their layer 0) or a text (the mean of each word's vectors in it). Out:
`StaticVectors`, and files in word2vec's formats. What ELMo is for is lost by this; but all that
reads word vectors reads these.
"""

from collections.abc import Iterable, Sequence
from pathlib import Path

import numpy as np
import torch

from elmo.elmo import Elmo
from elmo.embed_files import Reading, read_entries
from elmo.embedded import Layers
from elmo.errors import ConfigError
from elmo.static_words import StaticVectors, check_ending
from elmo.vocab import read_list

WORDS_AT_ONCE = 4096


def of_words(elmo: Elmo, words: Iterable[str]) -> StaticVectors:
    """Layer 0 of words: what the model knows of each by itself, (V, P)."""
    distinct = list(dict.fromkeys(words))
    width = elmo.bilm.config.lstm.projection_dim
    vectors = np.empty((len(distinct), width), dtype=np.float32)
    with torch.inference_mode():
        for start in range(0, len(distinct), WORDS_AT_ONCE):
            some = slice(start, start + WORDS_AT_ONCE)
            vectors[some] = elmo.embedder.memory.vectors(distinct[some]).float().cpu().numpy()
    return StaticVectors(distinct, vectors)


def of_text(
    elmo: Elmo,
    sentences: Iterable[Sequence[str]],
    *,
    layers: Layers = "average",
    min_count: int = 1,
) -> StaticVectors:
    """The mean of each word's vectors in a text, most frequent words first, (V, D)."""
    rows: dict[str, int] = {}
    totals = np.zeros((1024, elmo.output_dim))
    counts = np.zeros(1024, dtype=np.int64)
    for embedded in elmo.stream(sentences):
        places = [rows.setdefault(token, len(rows)) for token in embedded.tokens]
        while len(rows) > len(counts):
            totals, counts = (np.concatenate([a, np.zeros_like(a)]) for a in (totals, counts))
        np.add.at(totals, places, embedded.vectors(layers))
        np.add.at(counts, places, 1)
    order = np.argsort(-counts[: len(rows)], kind="stable")
    kept = order[counts[order] >= min_count]
    words = list(rows)
    means = totals[kept] / counts[kept, None]
    return StaticVectors([words[row] for row in kept], means.astype(np.float32))


def export_static(
    out: Path,
    model: Path,
    *,
    vocabulary: Path | None = None,
    text: Path | None = None,
    reading: Reading = "paragraphs",
    layers: str = "average",
    min_count: int = 1,
) -> StaticVectors:
    """Write static vectors of the words in a vocabulary file, or of those in a text."""
    check_ending(out)
    if (vocabulary is None) == (text is None):
        raise ConfigError(
            "both or none of a vocabulary and a text are given, expected one of them; give one"
        )
    elmo = Elmo.load(model)
    if vocabulary is not None:
        static = of_words(elmo, read_list(vocabulary))
    else:
        assert text is not None
        sentences = (entry.tokens for entry in read_entries(text, reading))
        static = of_text(elmo, sentences, layers=layers, min_count=min_count)
    static.write(out)
    return static
