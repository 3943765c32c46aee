"""Search for words in context: indexes, neighbors, WordNet."""

from typing import TYPE_CHECKING

from elmo.exports import lazy_exports

if TYPE_CHECKING:
    from elmo.search.build import build_index as build_index
    from elmo.search.export import write_map as write_map
    from elmo.search.export import write_projector as write_projector
    from elmo.search.index import WordIndex as WordIndex
    from elmo.search.neighbors import Neighbors as Neighbors
    from elmo.search.neighbors import find_neighbors as find_neighbors
    from elmo.search.neighbors import open_index as open_index

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "build": "build_index",
        "export": "write_map write_projector",
        "index": "WordIndex",
        "neighbors": "Neighbors find_neighbors open_index",
    },
)
