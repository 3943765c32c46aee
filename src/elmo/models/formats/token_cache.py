"""Token caches: the token vectors of a vocabulary, as bilm's `dump_token_embeddings` writes them.

In: an HDF5 file with `embedding` (V, P), and the vocabulary whose lines its rows are. Out: a model
of layer 0 alone: a table of words with no LSTM above it. Words that are not listed have the vector
of the unknown word, or zero where the vocabulary has none.
"""

from pathlib import Path

import h5py
import numpy as np
import torch

from elmo.errors import CheckpointError
from elmo.models.formats.bilm_hdf5 import BROKEN_FILE, has_official_layout, open_hdf5
from elmo.models.model_folder import Model, assemble
from elmo.network.config import BiLMConfig, LstmConfig
from elmo.text.vocabulary import RESERVED, Vocabulary, read_list
from elmo.text.word_encoder import Lexicon, LexiconConfig

TABLE = "embedding"


def is_cache(path: Path) -> bool:
    """Whether an HDF5 file holds token vectors and no network."""
    try:
        with h5py.File(path, "r") as file:
            has_table = isinstance(file.get(TABLE), h5py.Dataset) and file[TABLE].ndim == 2
    except BROKEN_FILE:
        return False
    return has_table and not has_official_layout(path)


def read(path: Path, vocabulary: Path | None) -> Model:
    """Open a cache; without its vocabulary nobody knows whose vectors it holds."""
    if vocabulary is None:
        raise CheckpointError(
            f"{path}: a cache of token vectors, expected the vocabulary of its rows beside it; "
            "name it as the vocabulary"
        )
    words = read_list(vocabulary)
    with open_hdf5(path, str(path)) as file:
        table = np.asarray(file[TABLE], dtype=np.float32)
    if len(table) != len(words):
        raise CheckpointError(
            f"{path}: {len(table)} rows, expected {len(words)} as {vocabulary} has lines; name the "
            "vocabulary it was made for"
        )
    listed = [row for row, word in enumerate(words) if word not in RESERVED]
    zero = np.zeros((1, table.shape[1]), np.float32)
    reserved = [table[[words.index(w)]] if w in words else zero for w in RESERVED]
    table = np.concatenate([*reserved, table[listed]])
    words = [*RESERVED, *(words[row] for row in listed)]
    width = table.shape[1]
    config = BiLMConfig(
        char_cnn=None,
        lstm=LstmConfig(dim=width, projection_dim=width, n_layers=0),
        directions=("forward",),
        lexicon=LexiconConfig(n_words=len(words), word_dim=width),
    )
    state = {"word_table.weight": torch.from_numpy(table)}
    return Model(assemble(config, state, str(path), Lexicon(Vocabulary(words))))
