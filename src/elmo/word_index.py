"""An index of words in context: every word of a text where it stands, searched exactly.

In: a model and sentences. Out: the occurrences nearest to a word in its sentence, and the words
nearest to it without one, by their spelling alone (layer 0). Kept in a folder, it is mapped into
memory rather than read.
Shapes: N tokens of the text, L+1 layers, D width, P projection.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from elmo.bilm import BiLM
from elmo.elmo import Elmo
from elmo.embedded import Layers, layer_weights
from elmo.errors import CheckpointError, ConfigError, DataError
from elmo.indexed_vectors import IndexedVectors
from elmo.occurrence import Occurrence

FORMAT_VERSION = 1
SETTINGS, SENTENCES = "index.json", "sentences.jsonl"

Array = NDArray[Any]
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Neighbor:
    """An occurrence in the text, and the cosine of the angle between it and what was asked for."""

    occurrence: Occurrence
    similarity: float


@dataclass(frozen=True)
class SimilarWord:
    """A word of the text, and the same cosine without any context."""

    word: str
    similarity: float


class WordIndex:
    """The words of a text, each with its vectors."""

    def __init__(
        self, sentences: Sequence[Sequence[str]], words: Sequence[str], vectors: IndexedVectors
    ) -> None:
        """Take what `build` or `open` made."""
        self.sentences = sentences
        self._words = words
        self._vectors = vectors
        self._starts = np.cumsum([0, *map(len, sentences)])
        self._rows: dict[str, list[int]] = defaultdict(list)
        for row, number in enumerate(vectors.word_of.tolist()):
            self._rows[words[number].casefold()].append(row)

    @staticmethod
    def build(
        elmo: Elmo, sentences: Sequence[Sequence[str]], folder: Path | None = None
    ) -> "WordIndex":
        """Embed all sentences; with a folder the vectors are kept there, not in memory."""
        sentences = [list(tokens) for tokens in sentences if tokens]
        if not sentences:
            raise DataError("no words to index, expected text; name a file that holds some")
        if folder is not None:
            folder.mkdir(parents=True, exist_ok=True)
            (folder / SETTINGS).unlink(missing_ok=True)
        lstm = elmo.bilm.config.lstm
        words, word_of = _number_words(sentences)
        vectors = IndexedVectors.allocate(
            word_of, lstm.n_layers, elmo.output_dim, lstm.projection_dim, folder
        )
        row = 0
        for embedded in elmo.stream(sentences):
            vectors.put(row, embedded.layers)
            row += len(embedded.tokens)
        if folder is not None:
            vectors.flush()
            _write(folder, sentences, model_id(elmo.bilm))
        return WordIndex(sentences, words, vectors)

    @staticmethod
    def open(folder: Path, elmo: Elmo) -> "WordIndex":
        """The index that `build` kept in a folder, if this model made it."""
        try:
            settings = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
            lines = (folder / SENTENCES).read_text(encoding="utf-8").splitlines()
            sentences = [json.loads(line) for line in lines]
            words, word_of = _number_words(sentences)
            vectors = IndexedVectors.open(folder, word_of)
        except (OSError, ValueError) as error:
            raise CheckpointError(
                f"{folder}: not a whole index ({error}); expected what `elmo neighbors --keep` "
                "writes; build it again"
            ) from error
        if settings != _settings(model_id(elmo.bilm)):
            raise CheckpointError(
                f"{folder}: an index of another model or of another version of this package, "
                "expected one of this model; build it again"
            )
        return WordIndex(sentences, words, vectors)

    def __len__(self) -> int:
        """Tokens that are indexed."""
        return int(self._starts[-1])

    @property
    def projection_dim(self) -> int:
        """Width of a word's vector without context."""
        return int(self._vectors.words.shape[1])

    def nearest(
        self,
        layers: Array,
        k: int,
        *,
        word: str | None = None,
        mix: Layers = "top",
        besides: Sequence[str] | None = None,
    ) -> list[Neighbor]:
        """The `k` occurrences nearest to one whose layers (L+1, D) are given, best first.

        `word`: only occurrences of it, capital letters or not; `besides`: not in this sentence.
        """
        weights = layer_weights(mix, len(layers))
        if len(weights) != 1:
            raise ConfigError(
                f"layers {mix!r} are several, expected one layer or one mix; name one"
            )
        rows = None if word is None else np.array(self._rows.get(word.casefold(), []), np.int64)
        vector = weights[0] @ layers.astype(np.float32)  # (D,)
        cosines = self._vectors.cosines(vector, weights[0], rows)
        return [
            Neighbor(occurrence, float(cosines[place]))
            for place, occurrence in self._best(cosines, rows, k, besides)
        ]

    def similar_words(self, vector: Array, k: int, *, besides: str = "") -> list[SimilarWord]:
        """The `k` distinct words nearest to a word's layer 0, (P,), capital letters or not."""
        cosines = self._vectors.word_cosines(vector.astype(np.float32))
        found: dict[str, SimilarWord] = {}
        for place in np.argsort(-cosines, kind="stable"):
            word = self._words[place]
            if word.casefold() not in (besides.casefold(), *found):
                found[word.casefold()] = SimilarWord(word, float(cosines[place]))
            if len(found) == k:
                break
        return list(found.values())

    def _best(
        self, cosines: Array, rows: Numbers | None, k: int, besides: Sequence[str] | None
    ) -> Iterator[tuple[int, Occurrence]]:
        """Places by falling cosine, with their occurrences; one for each different sentence."""
        seen = {tuple(besides or ())}
        for place in np.argsort(-cosines, kind="stable").tolist():
            if k == 0:
                return
            occurrence = self._occurrence(place if rows is None else int(rows[place]))
            # A sentence that the text holds twice is its own best neighbour, and says nothing.
            if tuple(occurrence.tokens) not in seen:
                seen.add(tuple(occurrence.tokens))
                k -= 1
                yield place, occurrence

    def _occurrence(self, row: int) -> Occurrence:
        sentence = int(np.searchsorted(self._starts, row, side="right")) - 1
        return Occurrence(self.sentences[sentence], row - int(self._starts[sentence]))


def model_id(bilm: BiLM) -> str:
    """A hash of a network's weights, which tells whether vectors are of this model."""
    digest = hashlib.sha256()
    for name, tensor in sorted(bilm.state_dict().items()):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(tensor.cpu().numpy()).data)
    return digest.hexdigest()


def _number_words(sentences: Sequence[Sequence[str]]) -> tuple[list[str], Numbers]:
    """The distinct words in the order in which they first come, and the number of each token's."""
    numbers: dict[str, int] = {}
    word_of = [numbers.setdefault(word, len(numbers)) for tokens in sentences for word in tokens]
    return list(numbers), np.array(word_of, dtype=np.int64)


def _write(folder: Path, sentences: Sequence[Sequence[str]], model: str) -> None:
    lines = [json.dumps(list(tokens)) + "\n" for tokens in sentences]
    (folder / SENTENCES).write_text("".join(lines), encoding="utf-8")
    # Last of all, so that a folder that has it is whole.
    settings = json.dumps(_settings(model), indent=2) + "\n"
    (folder / SETTINGS).write_text(settings, encoding="utf-8")


def _settings(model: str) -> dict[str, Any]:
    return {"format_version": FORMAT_VERSION, "model": model}
