"""gensim: static vectors as its `KeyedVectors`.

In: `StaticVectors`, of words or of a text. Out: what gensim searches, compares and saves.
"""

from elmo.errors import needs_extra
from elmo.vectors.static import StaticVectors

with needs_extra("gensim"):
    from gensim.models import KeyedVectors


def to_keyed_vectors(static: StaticVectors) -> KeyedVectors:
    """The same words and vectors, for `most_similar`, `doesnt_match` and all the rest."""
    keyed = KeyedVectors(static.vectors.shape[1], dtype=static.vectors.dtype)
    keyed.add_vectors(static.words, static.vectors)
    return keyed
