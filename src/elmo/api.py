"""The main interface: load a model, embed and score text.

In: raw texts or token lists. Out: `Embedded`: one vector per token and layer; `Scored`: one
log-probability per token. The result for a sentence does not depend on its batch or on other texts.
"""

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice, pairwise
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
import torch
from numpy.typing import NDArray

from elmo import models
from elmo.errors import ConfigError
from elmo.inference.embedder import Embedder
from elmo.inference.layer import ElmoLayer
from elmo.inference.occurrence import Occurrence
from elmo.inference.results import Embedded, Layers, Scored, layer_weights
from elmo.inference.scoring import Scorer, Substitute
from elmo.models import formats, model_folder
from elmo.models.formats.alignment import read_alignment
from elmo.models.model_folder import Mix, Model
from elmo.network.bilm import BiLM
from elmo.text.batches import windows
from elmo.text.lines import Text, as_sentences, check_tokens
from elmo.text.tokenizer import Sentence

State = Literal["fresh", "warm", "carry"]  # the initial state of each sentence
ScoreState = Literal["fresh", "carry"]

# A window of texts is sorted by length. All its vectors are in memory at once, so its size is in
# bytes.
WINDOW_BYTES = 64 * 2**20
CACHED_WORDS = 50_000
CARRY_BATCH_SIZE = 32


class Elmo:
    """A trained model that embeds and scores text."""

    def __init__(
        self,
        model: Model,
        *,
        n_cached_words: int = CACHED_WORDS,
        alignment: Mapping[int, NDArray[np.float32]] | None = None,
    ) -> None:
        self.model = model
        self.embedder = Embedder(model.bilm, n_cached_words, alignment)

    @staticmethod
    def load(
        path: str | Path = models.ENGLISH,
        *,
        options: str | Path | None = None,
        softmax: str | Path | None = None,
        vocabulary: str | Path | None = None,
        alignment: Mapping[int, str | Path] | None = None,
        dtype: Literal["float32", "bfloat16"] = "float32",
        n_cached_words: int = CACHED_WORDS,
    ) -> "Elmo":
        """Load a model: the shipped one (`english`), a released one by its name (`original`,
        `many-langs:de`, `hf:owner/name`), which is downloaded once, or any file, folder or archive
        that docs/other-models.md lists, such as a weights.hdf5 with its options.json beside it.

        `softmax` and `vocabulary` are the official files for predicting words; a vocabulary alone
        is for a checkpoint or a token cache without one beside it. `alignment` are files of
        matrices by layer, such as `{1: "de_best_mapping.pth"}`, which map the vectors of that layer
        into the space of another language.
        `dtype="bfloat16"` stores the large matrices in half the memory, at some precision.
        `n_cached_words` is the size of the cache of token vectors.
        """
        words = None if vocabulary is None else Path(vocabulary)
        model = formats.read(
            Path(path),
            None if options is None else Path(options),
            words if softmax is None else None,
        )
        if dtype not in ("float32", "bfloat16"):
            raise ConfigError(f"dtype {dtype!r} is unknown; expected 'float32' or 'bfloat16'")
        if dtype == "bfloat16":
            model.bilm.store_matrices(torch.bfloat16)
        if softmax is not None:
            if words is None:
                raise ConfigError("softmax is given without vocabulary, expected both")
            model = formats.attach_softmax(model, Path(softmax), words)
        matrices = {
            layer: _read_alignment(layer, Path(file), model.bilm)
            for layer, file in (alignment or {}).items()
        }
        return Elmo(model, n_cached_words=n_cached_words, alignment=matrices)

    def save(self, folder: str | Path) -> None:
        """Write a model folder."""
        model_folder.save(Path(folder), self.model)

    @property
    def bilm(self) -> BiLM:
        """The network."""
        return self.model.bilm

    @property
    def n_layers(self) -> int:
        """The number of layers, with the token layer."""
        return self.bilm.config.lstm.n_layers + 1

    @property
    def output_dim(self) -> int:
        """Width of a token's vector."""
        return self.bilm.config.output_dim

    @property
    def mixes(self) -> dict[str, Mix]:
        """The learned sums of the layers that came with the model, by their names."""
        return {mix.name: mix for mix in self.model.mixes}

    @overload
    def embed(  # type: ignore[overload-overlap] # a str is a sequence of str, but the first fits it
        self, texts: str, *, state: State = ..., batch_size: int | None = ...
    ) -> Embedded: ...
    @overload
    def embed(
        self, texts: Sequence[Text], *, state: State = ..., batch_size: int | None = ...
    ) -> list[Embedded]: ...

    def embed(
        self,
        texts: str | Sequence[Text],
        *,
        state: State = "fresh",
        batch_size: int | None = None,
    ) -> Embedded | list[Embedded]:
        """Embed one raw text, or a list of raw texts and token lists.

        The LSTM state of each sentence starts from zeros. `state="warm"`: it starts from the state
        after an empty sentence, which is closer to training with carried state. `state="carry"`: it
        starts from the state of the sentence at the same position of the batch before, as in
        bilm-tf and AllenNLP; `batch_size` is then their batch size.
        """
        one_or_many = [texts] if isinstance(texts, str) else texts
        embedded = list(self.stream(one_or_many, state=state, batch_size=batch_size))
        return embedded[0] if isinstance(texts, str) else embedded

    def stream(
        self, texts: Iterable[Text], *, state: State = "fresh", batch_size: int | None = None
    ) -> Iterator[Embedded]:
        """Embed any number of texts, in order, in bounded memory."""
        if state not in ("fresh", "warm", "carry"):
            raise ConfigError(f"state {state!r} is unknown, expected 'fresh', 'warm' or 'carry'")
        if batch_size is not None and batch_size < 1:
            raise ConfigError(f"batch_size is {batch_size}, expected at least 1")
        carried = self.bilm.initial_state(0)
        start = self.embedder.warm_state() if state == "warm" else None
        encoder = self.bilm.word_encoder
        n_truncated = 0
        n_texts = batch_size or CARRY_BATCH_SIZE if state == "carry" else None
        for window in self._windows(texts, n_texts):
            sentences = [sentence.tokens for text in window for sentence in text]
            n_truncated += sum(map(encoder.count_truncated, sentences))
            if state == "carry":
                arrays, carried = self.embedder.embed_carrying(sentences, carried)
            else:
                arrays = self.embedder.embed(sentences, batch_size, start)
            remaining = iter(arrays)
            for text in window:
                yield self._join(text, list(islice(remaining, len(text))))
        encoder.warn_truncated(n_truncated)

    def embed_into(
        self,
        tokens: Sequence[str],
        out: Any,  # noqa: ANN401 - anything that takes slices
        *,
        layers: Layers = "average",
    ) -> None:
        """Embed one sentence of any length into an array, a memory map or an HDF5 dataset.

        `out` is (T, D) for one layer or mix, (K, T, D) for several. Other layers are never in
        memory.
        """
        self._refuse_alignment("embed_into")
        check_tokens(tokens)
        weights = layer_weights(layers, self.n_layers)
        shape = (len(weights), len(tokens), self.output_dim)
        if tuple(out.shape) != shape and (len(weights) > 1 or tuple(out.shape) != shape[1:]):
            raise ConfigError(f"out has shape {tuple(out.shape)}, expected {shape}")

        def write(positions: slice, columns: slice, values: NDArray[Any]) -> None:
            out[..., positions, columns] = values[0] if len(out.shape) == 2 else values

        self.embedder.write(tokens, weights, write)
        encoder = self.bilm.word_encoder
        encoder.warn_truncated(encoder.count_truncated(tokens))

    @cached_property
    def scorer(self) -> Scorer:
        """Scores text; an error if the model has no softmax."""
        return Scorer(self.embedder, self.model)

    @overload
    def score(self, texts: str, *, state: ScoreState = ...) -> Scored: ...  # type: ignore[overload-overlap]
    @overload
    def score(self, texts: Sequence[Text], *, state: ScoreState = ...) -> list[Scored]: ...

    def score(
        self, texts: str | Sequence[Text], *, state: ScoreState = "fresh"
    ) -> Scored | list[Scored]:
        """Log-probabilities of each word of a text; `state` as in `Scorer.score_texts`."""
        scored = self.scorer.score_texts([texts] if isinstance(texts, str) else texts, state)
        return scored[0] if isinstance(texts, str) else scored

    def substitutes(self, sentence: Text, position: int, k: int = 10) -> list[Substitute]:
        """The most probable words at a position, given all other words of the sentence."""
        return self.scorer.substitutes([Occurrence.of(sentence, position)], k)[0]

    def layer(self, **settings: Any) -> ElmoLayer:  # noqa: ANN401 - those of ElmoLayer
        """An `ElmoLayer` for a task model, with its settings.

        A frozen layer shares this model's weights; a fine-tuned one has its own copy.
        """
        self._refuse_alignment("layer")
        bilm = copy.deepcopy(self.bilm) if settings.get("fine_tune") else self.bilm
        return ElmoLayer(bilm, **settings)

    def _refuse_alignment(self, what: str) -> None:
        if self.embedder.alignment:
            raise ConfigError(f"{what} of an aligned model, expected embed or stream")

    def _windows(
        self, texts: Iterable[Text], n_texts: int | None
    ) -> Iterator[list[list[Sentence]]]:
        """Texts as sentences, `n_texts` at a time or as many as fit into a window."""
        split = map(as_sentences, texts)
        if n_texts is not None:
            return windows(split, lambda _: 1, n_texts)
        token_bytes = self.n_layers * self.output_dim * 4
        return windows(
            split,
            lambda text: token_bytes * sum(len(sentence.tokens) + 2 for sentence in text),
            WINDOW_BYTES,
        )

    def _join(self, text: list[Sentence], arrays: list[NDArray[np.float32]]) -> Embedded:
        """The sentences of a text as one result."""
        if len(text) == 1 and not text[0].offsets:
            return Embedded(text[0].tokens, arrays[0], None, [(0, len(text[0].tokens))])
        ends = np.cumsum([0, *(len(sentence.tokens) for sentence in text)]).tolist()
        nothing = np.empty((self.n_layers, 0, self.output_dim), dtype=np.float32)
        return Embedded(
            [token for sentence in text for token in sentence.tokens],
            np.concatenate([nothing, *arrays], axis=1) if len(arrays) != 1 else arrays[0],
            [offset for sentence in text for offset in sentence.offsets],
            list(pairwise(ends)),
        )


def _read_alignment(layer: int, path: Path, bilm: BiLM) -> NDArray[np.float32]:
    if layer not in range(bilm.config.lstm.n_layers + 1):
        raise ConfigError(f"alignment of layer {layer}, expected 0 to {bilm.config.lstm.n_layers}")
    return read_alignment(path, bilm.config.output_dim)
