"""gensim: convert static vectors to `KeyedVectors`.

In: `StaticVectors`, of words or of a text. Out: vectors that gensim searches, compares and saves.
"""

from elmo.errors import needs_extra
from elmo.vectors.static import StaticVectors

with needs_extra("gensim"):
    from gensim.models import KeyedVectors


def to_keyed_vectors(static: StaticVectors) -> KeyedVectors:
    """The same words and vectors, for `most_similar`, `doesnt_match` and the other methods."""
    keyed = KeyedVectors(static.vectors.shape[1], dtype=static.vectors.dtype)
    keyed.add_vectors(static.words, static.vectors)
    return keyed
