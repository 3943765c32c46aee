"""The frozen biLM's layers of sentences, computed once and kept on disk.

In: sentences of tokens. Out: of each an array (T, L, D) of the chosen layers and direction, as
float16. `keep` writes all layers of a data set to a file that is mapped into memory, by the hash of
biLM, sentences and state, so that an epoch costs the task model alone; what was not kept is
computed when it is asked for, and is the same.
Shapes: L chosen layers, T tokens, D width of a vector, N tokens of all sentences.
"""

import hashlib
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tqdm import tqdm

from elmo.api import Elmo
from elmo.errors import ConfigError
from elmo.files.atomic import atomic_folder
from elmo.models.identity import model_hash
from elmo.tasks.config import ElmoConfig

Tokens = Sequence[str]
Array = NDArray[np.float16]


class LayerSource:
    """Layers of sentences, from disk where they were kept there."""

    def __init__(self, elmo: Elmo, config: ElmoConfig, folder: Path | None = None) -> None:
        """Nothing is kept without a folder."""
        self.elmo = elmo
        self.bilm_sha256 = model_hash(elmo.bilm)
        self._state = config.state
        self._folder = folder
        self._layers, self._columns = _choose(elmo, config)
        self._kept: dict[tuple[str, ...], Array] = {}

    @property
    def n_layers(self) -> int:
        """Layers that are given."""
        return len(range(self.elmo.n_layers)[self._layers])

    @property
    def dim(self) -> int:
        """Width of a vector that is given."""
        return len(range(self.elmo.output_dim)[self._columns])

    def has(self, sentences: Iterable[Tokens]) -> bool:
        """Whether the layers of just these sentences are on disk."""
        return (
            self._folder is not None and (self._folder / self._key(_distinct(sentences))).exists()
        )

    def keep(self, sentences: Iterable[Tokens]) -> None:
        """Have the layers of these sentences on disk; each is kept once, however often it comes."""
        if self._folder is None:
            return
        distinct = _distinct(sentences)
        place = self._folder / self._key(distinct)
        if not place.exists():
            self._write(distinct, place)
        everything: Array = np.load(place / "layers.npy", mmap_mode="r")  # (N, L, D)
        end = 0
        for tokens in distinct:
            start, end = end, end + len(tokens)
            self._kept[tokens] = everything[start:end]

    @contextmanager
    def held(self, sentences: Iterable[Tokens]) -> Iterator[None]:
        """Have the layers of these sentences in memory for a while, embedded in their order."""
        new = [key for key in _distinct(sentences) if key not in self._kept]
        self._kept.update(zip(new, self._embed(new), strict=True))
        try:
            yield
        finally:
            for key in new:
                del self._kept[key]

    def read(self, sentences: Sequence[Tokens]) -> list[Array]:
        """The chosen layers of each sentence, (T, L, D)."""
        keys = [tuple(tokens) for tokens in sentences]
        new = [key for key in dict.fromkeys(keys) if key not in self._kept]
        found = dict(zip(new, self._embed(new), strict=True)) if new else {}
        arrays = (found[key] if key in found else self._kept[key] for key in keys)
        return [array[:, self._layers, self._columns] for array in arrays]

    def _embed(self, sentences: Sequence[Tokens]) -> Iterator[Array]:
        """All layers of sentences, (T, L, D)."""
        for embedded in self.elmo.stream(sentences, state=self._state):
            yield embedded.layers.transpose(1, 0, 2).astype(np.float16)

    def _write(self, sentences: Sequence[tuple[str, ...]], place: Path) -> None:
        """Compute the layers of a data set and write them to its folder."""
        shape = (sum(map(len, sentences)), self.elmo.n_layers, self.elmo.output_dim)
        with atomic_folder(place, overwrite=False) as temporary:
            header = {"descr": "<f2", "fortran_order": False, "shape": shape}
            # Not through a memory map: writing to one on a full disk kills the process.
            with (temporary / "layers.npy").open("wb") as file:
                np.lib.format.write_array_header_1_0(file, header)
                for layers in tqdm(self._embed(sentences), "ELMo", len(sentences), disable=None):
                    file.write(layers.tobytes())

    def _key(self, sentences: Sequence[tuple[str, ...]]) -> str:
        """What the numbers depend on."""
        digest = hashlib.sha256(f"{self.bilm_sha256} {self._state}".encode())
        digest.update(hash_sentences(sentences).encode())
        return digest.hexdigest()[:32]


def _distinct(sentences: Iterable[Tokens]) -> list[tuple[str, ...]]:
    """Each sentence once, where it first came."""
    return list(dict.fromkeys(map(tuple, sentences)))


def hash_sentences(sentences: Iterable[Tokens]) -> str:
    """A hash of sentences and their order."""
    digest = hashlib.sha256()
    for tokens in sentences:
        line = "\0".join(tokens) + "\n"
        digest.update(line.encode("utf-8", "surrogatepass"))
    return digest.hexdigest()


def _choose(elmo: Elmo, config: ElmoConfig) -> tuple[slice, slice]:
    """Which layers, and which columns of a vector."""
    if isinstance(config.layers, int) and config.layers >= elmo.n_layers:
        raise ConfigError(
            f"elmo.layers is {config.layers}, expected all, top or 0 to {elmo.n_layers - 1}, as "
            "the biLM has; choose one of its layers"
        )
    number = elmo.n_layers - 1 if config.layers == "top" else config.layers
    layers = slice(number, number + 1) if isinstance(number, int) else slice(None)
    directions = elmo.bilm.config.directions
    if config.direction == "both":
        return layers, slice(None)
    if config.direction not in directions:
        raise ConfigError(
            f"elmo.direction is {config.direction}, expected {' or '.join(directions)}, which is "
            "what the biLM has; choose that"
        )
    width = elmo.bilm.config.lstm.projection_dim
    start = directions.index(config.direction) * width
    return layers, slice(start, start + width)
