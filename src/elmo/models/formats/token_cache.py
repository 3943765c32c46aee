"""Token caches: the token vectors of a vocabulary, as bilm's `dump_token_embeddings` writes them.

In: an HDF5 file with `embedding` (V, P), and the vocabulary whose lines its rows are. Out: a model
of layer 0 alone: a table of words with no LSTM above it. Words that are not listed have the vector
of the unknown word, or zeros if the vocabulary has none.
"""

import torch

from elmo.errors import CheckpointError
from elmo.models.formats.hdf5 import find_datasets, open_hdf5, paths_in, read_arrays
from elmo.models.formats.sources import AnyPath
from elmo.models.formats.word_list import read_word_list
from elmo.models.model_folder import Model, assemble
from elmo.network.config import BiLMConfig, LstmConfig
from elmo.text.word_encoder import Lexicon, LexiconConfig

TABLE = "embedding"


def is_cache(path: AnyPath) -> bool:
    """Whether an HDF5 file holds token vectors and no network."""
    return paths_in(path) == {TABLE}


def read(path: AnyPath, vocabulary: AnyPath | None) -> Model:
    """Read a cache; the vocabulary lists the words of its rows."""
    if vocabulary is None:
        raise CheckpointError(
            f"{path}: a cache of token vectors, expected the vocabulary of its rows beside it; "
            "give it with vocabulary= or --vocabulary"
        )
    words = read_word_list(vocabulary, needs_reserved=False)
    with open_hdf5(path, str(path)) as file:
        [(_, values)] = read_arrays(find_datasets(file, str(path)), str(path))
    if values.ndim != 2:
        raise CheckpointError(f"{path}: {TABLE} has shape {values.shape}, expected rows of numbers")
    table = words.reorder(torch.from_numpy(values), f"{path} with {vocabulary}")
    n_words, width = table.shape
    config = BiLMConfig(
        char_cnn=None,
        lstm=LstmConfig(dim=width, projection_dim=width, n_layers=0),
        directions=("forward",),
        lexicon=LexiconConfig(n_words=n_words, word_dim=width),
    )
    return Model(
        assemble(config, {"word_table.weight": table}, str(path), Lexicon(words.vocabulary))
    )
