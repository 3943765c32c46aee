"""Embed a whole corpus into a folder of Parquet shards."""

from typing import TYPE_CHECKING

from elmo.exports import lazy_exports

if TYPE_CHECKING:
    from elmo.vectors.corpus.embed import embed_corpus as embed_corpus
    from elmo.vectors.corpus.workers import LocalWorkers as LocalWorkers
    from elmo.vectors.corpus.workers import RayWorkers as RayWorkers

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {"embed": "embed_corpus", "workers": "LocalWorkers RayWorkers"},
)
