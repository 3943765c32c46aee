"""The layers of a biLM for the sentences of a task, computed once and cached on disk.

In: sentences of tokens. Out: for each an array (T, L, D) of the chosen layers and direction, as
float16. `cache` writes all layers of a data set to a file, named by the hash of biLM, sentences and
state, which is memory-mapped: an epoch then runs only the task model. The layers of other sentences
are computed when they are read. `encode` returns layers with gradients, for fine-tuning.
Shapes: L chosen layers, T tokens, D width of a vector, N tokens of all sentences.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from torch import Tensor
from tqdm import tqdm

from elmo.api import Elmo
from elmo.errors import ConfigError
from elmo.files.atomic import atomic_folder
from elmo.models.identity import vectors_hash
from elmo.tasks.config import ElmoConfig

Tokens = Sequence[str]
Array = NDArray[np.float16]


class LayerSource:
    """Layers of sentences, from disk if they are cached."""

    def __init__(self, elmo: Elmo, config: ElmoConfig, folder: Path | None = None) -> None:
        """Without a folder, nothing is cached on disk."""
        self.elmo = elmo
        self.bilm_sha256 = vectors_hash(elmo.model)
        self._state = config.state
        self._folder = folder
        self._layers, self._columns = _choose(elmo, config)
        self._cached: dict[tuple[str, ...], Array] = {}

    @property
    def n_layers(self) -> int:
        """The number of chosen layers."""
        return len(range(self.elmo.n_layers)[self._layers])

    @property
    def dim(self) -> int:
        """The width of a vector of the chosen direction."""
        return len(range(self.elmo.output_dim)[self._columns])

    def has(self, sentences: Iterable[Tokens]) -> bool:
        """Whether a file with the layers of exactly these sentences exists."""
        return (
            self._folder is not None and (self._folder / self._key(_distinct(sentences))).exists()
        )

    def cache(self, sentences: Iterable[Tokens]) -> None:
        """Write the layers of distinct sentences to disk, unless present, and memory-map them."""
        if self._folder is None:
            return
        distinct = _distinct(sentences)
        path = self._folder / self._key(distinct)
        if not path.exists():
            self._write(distinct, path)
        everything: Array = np.load(path / "layers.npy", mmap_mode="r")  # (N, L, D)
        end = 0
        for tokens in distinct:
            start, end = end, end + len(tokens)
            self._cached[tokens] = everything[start:end]

    @contextmanager
    def held(self, sentences: Iterable[Tokens]) -> Iterator[None]:
        """Keep the layers of these sentences in memory within the context."""
        new = [key for key in _distinct(sentences) if key not in self._cached]
        self._cached.update(zip(new, self._embed(new), strict=True))
        try:
            yield
        finally:
            for key in new:
                del self._cached[key]

    def read(self, sentences: Sequence[Tokens]) -> list[Array]:
        """The chosen layers of each sentence, (T, L, D)."""
        keys = [tuple(tokens) for tokens in sentences]
        new = [key for key in dict.fromkeys(keys) if key not in self._cached]
        found = dict(zip(new, self._embed(new), strict=True)) if new else {}
        arrays = (found[key] if key in found else self._cached[key] for key in keys)
        return [array[:, self._layers, self._columns] for array in arrays]

    def encode(self, sentences: Sequence[Tokens]) -> Tensor:
        """The chosen layers of all tokens, unpadded, by the biLM's current weights, (L, N, D)."""
        bilm = self.elmo.bilm
        batch = bilm.word_encoder.batch(sentences).to(next(bilm.parameters()).device)
        encoded = bilm(batch)
        # Drop the sentence markers: the first position and the one after the last token.
        layers = encoded.layers[:, :, 1:-1][:, encoded.mask[:, 2:]]  # (L, N, D)
        chosen: Tensor = layers[self._layers, :, self._columns]
        return chosen

    def _embed(self, sentences: Sequence[Tokens]) -> Iterator[Array]:
        """All layers of sentences, (T, L, D)."""
        for embedded in self.elmo.stream_tokens(sentences, state=self._state):
            yield embedded.layers.transpose(1, 0, 2).astype(np.float16)

    def _write(self, sentences: Sequence[tuple[str, ...]], path: Path) -> None:
        """Compute the layers of a data set and write them to its folder."""
        shape = (sum(map(len, sentences)), self.elmo.n_layers, self.elmo.output_dim)
        with atomic_folder(path, overwrite=False) as temporary:
            header = {"descr": "<f2", "fortran_order": False, "shape": shape}
            # Not through a memory map: writing to one on a full disk kills the process.
            with (temporary / "layers.npy").open("wb") as file:
                np.lib.format.write_array_header_1_0(file, header)
                for layers in tqdm(self._embed(sentences), "ELMo", len(sentences), disable=None):
                    file.write(layers.tobytes())

    def _key(self, sentences: Sequence[tuple[str, ...]]) -> str:
        """A hash of everything that the layers depend on."""
        digest = hashlib.sha256(f"{self.bilm_sha256} {self._state}".encode())
        digest.update(hash_sentences(sentences).encode())
        return digest.hexdigest()[:32]


def _distinct(sentences: Iterable[Tokens]) -> list[tuple[str, ...]]:
    """Each sentence once, in the order of first occurrence."""
    return list(dict.fromkeys(map(tuple, sentences)))


def hash_sentences(sentences: Iterable[Tokens]) -> str:
    """A hash of sentences and their order."""
    digest = hashlib.sha256()
    for tokens in sentences:
        line = "\0".join(tokens) + "\n"
        digest.update(line.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _choose(elmo: Elmo, config: ElmoConfig) -> tuple[slice, slice]:
    """Slices of the chosen layers and of the columns of a vector."""
    if isinstance(config.layers, int) and config.layers >= elmo.n_layers:
        raise ConfigError(
            f"elmo.layers is {config.layers}, expected all, top or 0 to {elmo.n_layers - 1}, the "
            "layers of the biLM"
        )
    number = elmo.n_layers - 1 if config.layers == "top" else config.layers
    layers = slice(number, number + 1) if isinstance(number, int) else slice(None)
    directions = elmo.bilm.config.directions
    if config.direction == "both":
        return layers, slice(None)
    if config.direction not in directions:
        raise ConfigError(
            f"elmo.direction is {config.direction}, expected {' or '.join(directions)}, as the "
            "biLM has"
        )
    width = elmo.bilm.config.lstm.projection_dim
    start = directions.index(config.direction) * width
    return layers, slice(start, start + width)
