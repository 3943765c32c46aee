"""An index of words in context: every word of a text where it stands, searched exactly.

In: a model and sentences. Out: the occurrences nearest to a word in its sentence, and the words
nearest to it without one, by their spelling alone (layer 0). Vectors are float16 and, kept in a
folder, mapped into memory rather than read.
Shapes: N tokens of the text, U distinct words, L layers above layer 0, D width, P projection.
"""

import hashlib
import json
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from elmo.bilm import BiLM
from elmo.elmo import Elmo
from elmo.embedded import Layers, layer_weights
from elmo.errors import CheckpointError, ConfigError, DataError
from elmo.occurrence import Occurrence

FORMAT_VERSION = 1
SETTINGS, SENTENCES, CONTEXTS, WORDS = "index.json", "sentences.jsonl", "contexts.npy", "words.npy"
ROWS_AT_ONCE = 16_384

Array = NDArray[Any]


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
        self, sentences: Sequence[Sequence[str]], contexts: Array, words: Array, model_id: str
    ) -> None:
        """Take what `build` or `open` made: contexts (N, L, D) and distinct words (U, P)."""
        self.sentences = sentences
        self.model_id = model_id
        self._contexts = contexts
        self._word_vectors = words
        self._starts = np.cumsum([0, *map(len, sentences)])
        numbers = _number_words(sentences)
        self._words = list(numbers)
        self._word_of_row = np.array([numbers[word] for tokens in sentences for word in tokens])
        self._rows: dict[str, list[int]] = defaultdict(list)
        for row, number in enumerate(self._word_of_row.tolist()):
            self._rows[self._words[number].casefold()].append(row)

    @staticmethod
    def build(
        elmo: Elmo, sentences: Sequence[Sequence[str]], folder: Path | None = None
    ) -> "WordIndex":
        """Embed all sentences; with a folder the vectors are kept there, not in memory."""
        sentences = [list(tokens) for tokens in sentences if tokens]
        if not sentences:
            raise DataError("no words to index, expected text; name a file that holds some")
        lstm = elmo.bilm.config.lstm
        numbers = _number_words(sentences)
        shape = (sum(map(len, sentences)), lstm.n_layers, elmo.output_dim)
        contexts, words = _allocate(folder, shape, (len(numbers), lstm.projection_dim))
        row = 0
        for embedded in elmo.stream(sentences):
            stop = row + len(embedded.tokens)
            contexts[row:stop] = embedded.layers[1:].swapaxes(0, 1)
            which = [numbers[word] for word in embedded.tokens]
            # Layer 0 is the same for both directions and in every context.
            words[which] = embedded.layers[0, :, : lstm.projection_dim]
            row = stop
        index = WordIndex(sentences, contexts, words, model_id(elmo.bilm))
        if folder is not None:
            index._write_sentences(folder)
        return index

    @staticmethod
    def open(folder: Path, elmo: Elmo) -> "WordIndex":
        """The index that `build` kept in a folder, if this model made it."""
        try:
            settings = json.loads((folder / SETTINGS).read_text(encoding="utf-8"))
            lines = (folder / SENTENCES).read_text(encoding="utf-8").splitlines()
            contexts = np.load(folder / CONTEXTS, mmap_mode="r")
            words = np.load(folder / WORDS)
        except (OSError, ValueError) as error:
            raise CheckpointError(
                f"{folder}: not a whole index ({error}); expected {SETTINGS}, {SENTENCES}, "
                f"{CONTEXTS} and {WORDS}; build it again"
            ) from error
        if settings != _settings(model_id(elmo.bilm)):
            raise CheckpointError(
                f"{folder}: an index of another model or of another version of this package; "
                "build it again with this one"
            )
        return WordIndex([json.loads(line) for line in lines], contexts, words, settings["model"])

    def __len__(self) -> int:
        """Tokens that are indexed."""
        return int(self._starts[-1])

    @property
    def projection_dim(self) -> int:
        """Width of a word's vector without context."""
        return int(self._word_vectors.shape[1])

    def nearest(
        self,
        vectors: Array,
        k: int,
        *,
        word: str | None = None,
        layers: Layers = "top",
        besides: Sequence[str] | None = None,
    ) -> list[Neighbor]:
        """The `k` occurrences nearest to one whose layers are `vectors` (L+1, D), best first.

        `word`: only occurrences of it, capital letters or not; `besides`: not in this sentence.
        """
        if word is None:
            rows = np.arange(len(self))
        else:
            rows = np.array(self._rows.get(word.casefold(), []), dtype=np.int64)
        weights = layer_weights(layers, len(vectors))
        if len(weights) != 1:
            raise ConfigError(f"layers {layers!r} are several, expected one layer or one mix")
        wanted = torch.from_numpy(weights[0] @ vectors.astype(np.float32))  # (D,)
        similarities = np.concatenate(
            [
                _cosines(self._mix(rows[start : start + ROWS_AT_ONCE], weights[0]), wanted)
                for start in range(0, len(rows), ROWS_AT_ONCE)
            ]
            or [np.empty(0)]
        )
        return [
            Neighbor(occurrence, float(similarities[place]))
            for place, occurrence in self._best(rows, similarities, k, besides)
        ]

    def similar_words(self, vector: Array, k: int, *, besides: str = "") -> list[SimilarWord]:
        """The `k` distinct words nearest to a word's layer 0, (P,), capital letters or not."""
        table = torch.from_numpy(self._word_vectors).float()
        similarities = _cosines(table, torch.from_numpy(vector.astype(np.float32)))
        found: dict[str, SimilarWord] = {}
        for place in np.argsort(-similarities, kind="stable"):
            word = self._words[place]
            if word.casefold() not in (besides.casefold(), *found):
                found[word.casefold()] = SimilarWord(word, float(similarities[place]))
            if len(found) == k:
                break
        return list(found.values())

    def _mix(self, rows: NDArray[np.int64], weights: Array) -> torch.Tensor:
        """Weighted sums of all layers of some tokens, (n, D)."""
        contexts = torch.from_numpy(self._contexts[rows]).float()  # (n, L, D)
        mixed = torch.einsum("nld,l->nd", contexts, torch.from_numpy(weights[1:]))
        if weights[0]:
            static = torch.from_numpy(self._word_vectors[self._word_of_row[rows]]).float()  # (n, P)
            mixed += float(weights[0]) * static.repeat(1, mixed.shape[1] // static.shape[1])
        return mixed

    def _best(
        self,
        rows: NDArray[np.int64],
        similarities: Array,
        k: int,
        besides: Sequence[str] | None,
    ) -> Iterator[tuple[int, Occurrence]]:
        """Places among `rows` by falling similarity, one for each different sentence."""
        seen = {tuple(besides or ())}
        for place in np.argsort(-similarities, kind="stable"):
            if k == 0:
                return
            occurrence = self._occurrence(int(rows[place]))
            # A sentence that the text holds twice is its own best neighbour, and says nothing.
            if tuple(occurrence.tokens) not in seen:
                seen.add(tuple(occurrence.tokens))
                k -= 1
                yield int(place), occurrence

    def _occurrence(self, row: int) -> Occurrence:
        sentence = int(np.searchsorted(self._starts, row, side="right")) - 1
        return Occurrence(self.sentences[sentence], row - int(self._starts[sentence]))

    def _write_sentences(self, folder: Path) -> None:
        for part in (self._contexts, self._word_vectors):
            assert isinstance(part, np.memmap)
            part.flush()
        lines = [json.dumps(list(tokens)) + "\n" for tokens in self.sentences]
        (folder / SENTENCES).write_text("".join(lines), encoding="utf-8")
        # Last of all, so that a folder that has it is whole.
        settings = json.dumps(_settings(self.model_id), indent=2) + "\n"
        (folder / SETTINGS).write_text(settings, encoding="utf-8")


def model_id(bilm: BiLM) -> str:
    """A hash of a network's weights, which tells whether vectors are of this model."""
    digest = hashlib.sha256()
    for name, tensor in sorted(bilm.state_dict().items()):
        digest.update(name.encode())
        digest.update(np.ascontiguousarray(tensor.cpu().numpy()).data)
    return digest.hexdigest()


def _settings(model: str) -> dict[str, Any]:
    return {"format_version": FORMAT_VERSION, "model": model}


def _number_words(sentences: Sequence[Sequence[str]]) -> dict[str, int]:
    """The distinct words in the order in which they first come."""
    numbers: dict[str, int] = {}
    for tokens in sentences:
        for word in tokens:
            numbers.setdefault(word, len(numbers))
    return numbers


def _allocate(
    folder: Path | None, contexts: tuple[int, ...], words: tuple[int, ...]
) -> tuple[Array, Array]:
    """Arrays to be filled, in memory or mapped to new files."""
    if folder is None:
        return np.empty(contexts, np.float16), np.empty(words, np.float16)
    folder.mkdir(parents=True, exist_ok=True)
    (folder / SETTINGS).unlink(missing_ok=True)
    return (
        np.lib.format.open_memmap(folder / CONTEXTS, "w+", np.float16, contexts),
        np.lib.format.open_memmap(folder / WORDS, "w+", np.float16, words),
    )


def _cosines(table: torch.Tensor, wanted: torch.Tensor) -> Array:
    """The cosine between each row (n, D) and one vector (D,)."""
    lengths = table.norm(dim=-1) * wanted.norm()
    cosines: Array = (table @ wanted / lengths.clamp_min(1e-12)).numpy()
    return cosines
