"""Neighbors of a word in its sentence: similar uses in a text, and similar words without context.

In: a model, the index of a text, and an `Occurrence`. Out: `Neighbors`: the nearest occurrences in
the text, and the nearest words without any context (layer 0).
Shapes: L+1 layers, T tokens, D width.
"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from elmo.files.text_files import find_text_files
from elmo.inference.occurrence import Occurrence
from elmo.inference.results import Layers
from elmo.search.build import temporary_index
from elmo.search.examples import ExampleIndex
from elmo.search.index import Neighbor, SimilarWord, WordIndex
from elmo.text.lines import LineFormat, read_sentences

if TYPE_CHECKING:
    from elmo.api import Elmo

Index = WordIndex | ExampleIndex


@dataclass(frozen=True)
class Neighbors:
    """The nearest neighbors of a word, best first."""

    in_context: list[Neighbor]
    without_context: list[SimilarWord]

    def to_mapping(self) -> dict[str, Any]:
        return {
            "in_context": [
                {
                    "tokens": list(neighbor.occurrence.tokens),
                    "position": neighbor.occurrence.position,
                    "similarity": neighbor.similarity,
                }
                for neighbor in self.in_context
            ],
            "without_context": [
                {"word": word.word, "similarity": word.similarity} for word in self.without_context
            ],
        }


def find_neighbors(
    elmo: "Elmo",
    index: Index,
    occurrence: Occurrence,
    k: int,
    *,
    layers: Layers = "top",
    any_word: bool = False,
) -> Neighbors:
    """Find the `k` nearest occurrences of the same or any word, and the `k` nearest words."""
    [embedded] = elmo.embed_tokens([occurrence.tokens])
    return search(index, occurrence, embedded.layers, k, layers=layers, any_word=any_word)


def search(
    index: Index,
    occurrence: Occurrence,
    sentence_layers: NDArray[Any],
    k: int,
    *,
    layers: Layers = "top",
    any_word: bool = False,
) -> Neighbors:
    """Like `find_neighbors`, for a sentence whose layers (L+1, T, D) are known."""
    word_layers = sentence_layers[:, occurrence.position]  # (L+1, D)
    return Neighbors(
        index.nearest(
            word_layers,
            k,
            word=None if any_word else occurrence.word,
            mix=layers,
            besides=occurrence.tokens,
        ),
        index.similar_words(word_layers[0, : index.projection_dim], k, besides=occurrence.word),
    )


def open_index(elmo: "Elmo", *sources: str | Path, lines: LineFormat = "paragraphs") -> Index:
    """Open the index in a folder, or build a temporary one of text files (paths or globs).

    Without a source, the package's own sentences are used.
    """
    if not sources:
        return ExampleIndex(elmo)
    if len(sources) == 1 and Path(sources[0]).is_dir():
        return WordIndex(Path(sources[0]), elmo)
    return temporary_index(elmo, read_sentences(find_text_files(*sources), lines))
