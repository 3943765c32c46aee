"""Files of vectors: contextual vectors of a file or a corpus, and static vectors."""

from typing import TYPE_CHECKING

from elmo.exports import lazy_exports

if TYPE_CHECKING:
    from elmo.vectors.embed import embed_file as embed_file
    from elmo.vectors.static import StaticVectors as StaticVectors
    from elmo.vectors.static import export_static as export_static
    from elmo.vectors.static import static_from_text as static_from_text
    from elmo.vectors.static import static_from_words as static_from_words

__all__, __getattr__, __dir__ = lazy_exports(
    __name__,
    {
        "embed": "embed_file",
        "static": "StaticVectors export_static static_from_text static_from_words",
    },
)
