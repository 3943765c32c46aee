"""The main interface: load a model, embed and score text.

In: raw texts, or token lists where the name of a method or argument says so. Out: `Embedded`: one
vector per token and layer; `Scored`: one log-probability per token. The result for a sentence does
not depend on its batch or on other texts.
"""

import copy
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import islice, pairwise, tee
from pathlib import Path
from typing import Any, Literal, overload

import numpy as np
import torch
from numpy.typing import NDArray

from elmo import models
from elmo.errors import ConfigError, DataError
from elmo.files.text_files import find_text_files
from elmo.inference.embedder import Embedder
from elmo.inference.layer import ElmoLayer
from elmo.inference.occurrence import Occurrence
from elmo.inference.results import Embedded, Layers, Scored, layer_weights
from elmo.inference.scoring import Scorer, Substitute
from elmo.models import formats, model_folder
from elmo.models.formats.alignment import align
from elmo.models.model_folder import Mix, Model
from elmo.network.bilm import BiLM
from elmo.network.scalar_mix import LayerNorm
from elmo.search import build
from elmo.search.index import WordIndex
from elmo.search.neighbors import Index, Neighbors, find_neighbors, open_index
from elmo.text.batches import windows
from elmo.text.inputs import (
    SplitText,
    Text,
    check_tokens,
    read_texts,
    read_token_lists,
    read_tokens,
    refuse_tokens,
)
from elmo.text.lines import LineFormat, read_sentences

State = Literal["fresh", "warm", "carry"]  # the initial state of each sentence
ScoreState = Literal["fresh", "carry"]

# Texts are sorted by length within a window. All vectors of a window are in memory together, so its
# size is in bytes. It is no larger than sorting needs: windows twice as long are no faster.
WINDOW_BYTES = 64 * 2**20
WINDOW_TOKENS = 10_000
CACHED_WORDS = 50_000
CARRY_BATCH_SIZE = 32


class Elmo:
    """A trained model that embeds and scores text."""

    def __init__(
        self,
        model: Model,
        *,
        n_cached_words: int = CACHED_WORDS,
        name: str | None = None,
    ) -> None:
        self.model = model
        self.name = name
        self.embedder = Embedder(model.bilm, n_cached_words, model.alignment)

    def __repr__(self) -> str:
        words = self.model.vocabulary
        return (
            f"<Elmo {self.name or '(without a name)'}: {self.n_layers} layers of "
            f"{self.output_dim} dimensions, {self.bilm.n_parameters:,} parameters, "
            f"{'no' if words is None else f'{len(words):,}'} output words, {self.device}>"
        )

    def __reduce__(self) -> tuple[Any, ...]:
        # Caches are not pickled: their locks cannot be copied, and they refill.
        return _restore, (self.model, self.embedder.cache.n_words, self.name)

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
        is for a checkpoint or a token cache without one beside it. `alignment` maps
        layers to files of matrices, such as `{1: "de_best_mapping.pth"}`, which map the vectors of
        that layer into the space of another language.
        `dtype="bfloat16"` stores the large matrices in half the memory, at a loss of precision.
        `n_cached_words` is the size of the cache of token vectors.
        """
        given = (options, vocabulary, softmax)
        model = formats.read(Path(path), *(None if file is None else Path(file) for file in given))
        if dtype not in ("float32", "bfloat16"):
            raise ConfigError(f"dtype {dtype!r} is unknown; expected 'float32' or 'bfloat16'")
        if dtype == "bfloat16":
            model.bilm.store_matrices(torch.bfloat16)
        if alignment is not None:
            model = align(model, {layer: Path(file) for layer, file in alignment.items()})
        model.bilm.hold_packed()
        return Elmo(model, n_cached_words=n_cached_words, name=str(path))

    def save(self, folder: str | Path) -> None:
        """Write a model folder."""
        model_folder.save(Path(folder), self.model)

    @property
    def bilm(self) -> BiLM:
        """The network."""
        return self.model.bilm

    @property
    def device(self) -> torch.device:
        """The device of the network."""
        return next(self.bilm.parameters()).device

    def to(self, device: str | torch.device) -> "Elmo":
        """Move the network to a device, such as "cuda"; results remain NumPy arrays."""
        try:
            self.bilm.to(torch.device(device))
            if self.model.head is not None:
                self.model.head.to(torch.device(device))
        except (RuntimeError, AssertionError, TypeError) as error:
            reason = str(error).split("\n", maxsplit=1)[0]
            raise ConfigError(
                f"device {device!r}: {reason}, expected one of this machine"
            ) from error
        return self

    @property
    def n_layers(self) -> int:
        """The number of layers, including the token layer."""
        return self.bilm.config.lstm.n_layers + 1

    @property
    def output_dim(self) -> int:
        """Width of a token's vector."""
        return self.bilm.config.output_dim

    @property
    def mixes(self) -> dict[str, Mix]:
        """The learned mixes of layers that are stored with the model, by name."""
        return {mix.name: mix for mix in self.model.mixes}

    @overload
    def embed(  # type: ignore[overload-overlap] # a str is an iterable of str; the first fits it
        self,
        texts: str,
        *,
        state: State = ...,
        batch_size: int | None = ...,
        single_words: bool = ...,
    ) -> Embedded: ...
    @overload
    def embed(
        self,
        texts: Iterable[str],
        *,
        state: State = ...,
        batch_size: int | None = ...,
        single_words: bool = ...,
    ) -> list[Embedded]: ...

    def embed(
        self,
        texts: str | Iterable[str],
        *,
        state: State = "fresh",
        batch_size: int | None = None,
        single_words: bool = False,
    ) -> Embedded | list[Embedded]:
        """Embed a text, or each text of a list, array, Series or generator.

        Tokenized sentences go to `embed_tokens`. A list that looks like the tokens of one sentence,
        such as `["I", "took", "a", "bow"]`, is rejected unless `single_words=True` allows texts of
        one word each.

        By default the LSTM state of each sentence starts from zeros. `state="warm"`: it starts from
        the state after an empty sentence, which is closer to training with carried state.
        `state="carry"`: it starts from the state after the same row of the previous batch, as in
        bilm-tf and AllenNLP. `batch_size` is then the number of sentences per batch, 32 by default,
        and must be that of the original program to reproduce its vectors. With other states it is
        the maximum number of sentences per batch and does not change the vectors.
        """
        split = list(read_texts(texts, "embed_tokens"))
        if not single_words:
            refuse_tokens(split, "embed_tokens")
        embedded = list(self._stream(split, state, batch_size))
        return embedded[0] if isinstance(texts, str) else embedded

    @overload
    def embed_tokens(  # type: ignore[overload-overlap]
        self, tokens: Sequence[str], *, state: State = ..., batch_size: int | None = ...
    ) -> Embedded: ...
    @overload
    def embed_tokens(
        self, tokens: Iterable[Sequence[str]], *, state: State = ..., batch_size: int | None = ...
    ) -> list[Embedded]: ...

    def embed_tokens(
        self,
        tokens: Sequence[str] | Iterable[Sequence[str]],
        *,
        state: State = "fresh",
        batch_size: int | None = None,
    ) -> Embedded | list[Embedded]:
        """Embed a tokenized sentence, or each of several; `state` as in `embed`.

        A list of strings is the tokens of one sentence, a list of lists is several sentences, an
        empty list is one sentence without tokens. Tokens are used as given.
        """
        sentences, is_one = read_tokens(tokens, "embed")
        embedded = list(self._stream(sentences, state, batch_size))
        return embedded[0] if is_one else embedded

    def stream(
        self,
        texts: str | Iterable[str],
        *,
        state: State = "fresh",
        batch_size: int | None = None,
        single_words: bool = False,
    ) -> Iterator[Embedded]:
        """Embed any number of texts, in order, in bounded memory; arguments as in `embed`."""
        call = "stream_tokens"
        split = read_texts(texts, call)
        return self._stream(split, state, batch_size, None if single_words else call)

    def stream_tokens(
        self,
        sentences: Iterable[Sequence[str]],
        *,
        state: State = "fresh",
        batch_size: int | None = None,
    ) -> Iterator[Embedded]:
        """Embed any number of tokenized sentences, in order, in bounded memory."""
        return self._stream(read_token_lists(sentences, "stream"), state, batch_size)

    def _stream(
        self,
        texts: Iterable[SplitText],
        state: State,
        batch_size: int | None,
        tokens_call: str | None = None,
    ) -> Iterator[Embedded]:
        """Embed texts; with a `tokens_call`, reject a first window that looks like tokens."""
        if state not in ("fresh", "warm", "carry"):
            raise ConfigError(f"state {state!r} is unknown, expected 'fresh', 'warm' or 'carry'")
        if batch_size is not None and batch_size < 1:
            raise ConfigError(f"batch_size is {batch_size}, expected at least 1")
        start = self.embedder.warm_state() if state == "warm" else None
        encoder = self.bilm.word_encoder
        n_truncated = 0
        split = self._windows(texts, tokens_call)
        arrays: Iterator[NDArray[np.float32]] = iter(())
        if state == "carry":  # its batches span windows and texts
            split, ahead = tee(split)
            arrays = self._embed_carrying(ahead, batch_size or CARRY_BATCH_SIZE)
        for window in split:
            sentences = [sentence.tokens for text in window for sentence in text.sentences]
            n_truncated += sum(map(encoder.count_truncated, sentences))
            if state != "carry":
                arrays = iter(self.embedder.embed(sentences, batch_size, start))
            for text in window:
                yield self._join(text, list(islice(arrays, len(text.sentences))))
        encoder.warn_truncated(n_truncated)

    def _embed_carrying(
        self, texts: Iterable[list[SplitText]], batch_size: int
    ) -> Iterator[NDArray[np.float32]]:
        """Embed each sentence from the state after the same row of the previous batch."""
        carried = self.bilm.initial_state(0)
        sentences = (s.tokens for window in texts for text in window for s in text.sentences)
        for batch in windows(sentences, lambda _: 1, batch_size):
            arrays, carried = self.embedder.embed_carrying(batch, carried)
            yield from arrays

    def embed_into(
        self,
        tokens: Sequence[str],
        out: Any,  # noqa: ANN401 - anything that takes slices
        *,
        layers: Layers = "average",
    ) -> None:
        """Embed one sentence of any length into an array, a memory map or an HDF5 dataset.

        `out` is (T, D) for one layer or mix, (K, T, D) for several. Layers are mixed
        chunk by chunk and never all stored in full, except those of an aligned model.
        """
        check_tokens(tokens)
        weights = layer_weights(layers, self.n_layers)
        shape = (len(weights), len(tokens), self.output_dim)
        if tuple(out.shape) != shape and (len(weights) > 1 or tuple(out.shape) != shape[1:]):
            raise ConfigError(f"out has shape {tuple(out.shape)}, expected {shape}")

        def write(positions: slice, columns: slice, values: NDArray[Any]) -> None:
            out[..., positions, columns] = values[0] if len(out.shape) == 2 else values

        if self.model.alignment:  # a matrix needs all dimensions of a layer together
            [layers_of_all] = self.embedder.embed([tokens])
            mixed = np.tensordot(weights, layers_of_all, axes=1)
            write(slice(None), slice(None), mixed)
        else:
            self.embedder.write(tokens, weights, write)
        encoder = self.bilm.word_encoder
        encoder.warn_truncated(encoder.count_truncated(tokens))

    @cached_property
    def scorer(self) -> Scorer:
        """The scorer of this model; raises a CheckpointError if the model has no softmax."""
        return Scorer(self.embedder, self.model)

    @overload
    def score(  # type: ignore[overload-overlap]
        self, texts: str, *, state: ScoreState = ..., single_words: bool = ...
    ) -> Scored: ...
    @overload
    def score(
        self, texts: Iterable[str], *, state: ScoreState = ..., single_words: bool = ...
    ) -> list[Scored]: ...

    def score(
        self,
        texts: str | Iterable[str],
        *,
        state: ScoreState = "fresh",
        single_words: bool = False,
    ) -> Scored | list[Scored]:
        """Log-probabilities of each word of a text, or of each text of an iterable as in `embed`.

        `state="carry"`: each sentence starts from the LSTM state after the previous one, across
        all texts, as in training on running text.
        """
        split = list(read_texts(texts, "score_tokens"))
        if not single_words:
            refuse_tokens(split, "score_tokens")
        scored = self.scorer.score_texts([text.sentences for text in split], state)
        return scored[0] if isinstance(texts, str) else scored

    @overload
    def score_tokens(  # type: ignore[overload-overlap]
        self, tokens: Sequence[str], *, state: ScoreState = ...
    ) -> Scored: ...
    @overload
    def score_tokens(
        self, tokens: Iterable[Sequence[str]], *, state: ScoreState = ...
    ) -> list[Scored]: ...

    def score_tokens(
        self, tokens: Sequence[str] | Iterable[Sequence[str]], *, state: ScoreState = "fresh"
    ) -> Scored | list[Scored]:
        """Log-probabilities of each word of a tokenized sentence, or of each of several."""
        sentences, is_one = read_tokens(tokens, "score")
        scored = self.scorer.score_texts([text.sentences for text in sentences], state)
        return scored[0] if is_one else scored

    def substitutes(
        self, sentence: Text, position: int | None = None, k: int = 10
    ) -> list[Substitute]:
        """The words that fit a position of a sentence best, given all its other words.

        `sentence` is a text or its tokens, `position` the index of a token. Without a position, the
        word is marked by asterisks in the text: "I took a *bow*.".
        """
        return self.scorer.substitutes([Occurrence.of(sentence, position)], k)[0]

    def layer(
        self,
        *,
        n_outputs: int = 1,
        dropout: float = 0.5,
        fine_tune: bool = False,
        initial_weights: Sequence[float] | None = None,
        initial_gamma: float = 1.0,
        freeze_mix: bool = False,
        layer_norm: LayerNorm | None = None,
        penalty: float = 0.0,
    ) -> ElmoLayer:
        """A `torch.nn.Module` for a task model: `n_outputs` mixes of the layers.

        A frozen layer shares this model's weights; a fine-tuned one has its own copy.
        """
        self.model.refuse_alignment("Elmo.layer")
        return ElmoLayer(
            copy.deepcopy(self.bilm) if fine_tune else self.bilm,
            n_outputs=n_outputs,
            dropout=dropout,
            fine_tune=fine_tune,
            initial_weights=initial_weights,
            initial_gamma=initial_gamma,
            freeze_mix=freeze_mix,
            layer_norm=layer_norm,
            penalty=penalty,
        )

    def index(
        self,
        texts: Path | Iterable[str],
        folder: str | Path | None = None,
        *,
        layers: Layers = "top",
        exact: bool = False,
        lines: LineFormat = "paragraphs",
    ) -> WordIndex:
        """Build an index of every word of texts, for `neighbors`, in `folder` or a temporary one.

        A `Path` names a file, a folder or a glob of text files; `lines` is the format of their
        lines. A large index gets a search graph over `layers`, unless `exact` is true.
        """
        if isinstance(texts, str):
            raise DataError(f"{texts[:40]!r} is a str, expected a list of texts, or a pathlib.Path")
        if isinstance(texts, Path):
            sentences = read_sentences(find_text_files(texts), lines)
        else:
            split = read_texts(texts, "elmo.search.build_index")
            sentences = (sentence.tokens for text in split for sentence in text.sentences)
        graph_from = None if exact else build.GRAPH_FROM
        if folder is None:
            return build.temporary_index(self, sentences, layers=layers, graph_from=graph_from)
        return build.build_index(
            self, sentences, Path(folder), layers=layers, graph_from=graph_from
        )

    def open_index(
        self, path: str | Path | None = None, *, lines: LineFormat = "paragraphs"
    ) -> Index:
        """Open the index in a folder, or build a temporary one of a text file.

        Without a path: WordNet's example sentences, which are included in the package.
        """
        return open_index(self, *([] if path is None else [path]), lines=lines)

    def neighbors(
        self,
        sentence: Text,
        position: int | None = None,
        k: int = 10,
        *,
        index: Index | None = None,
        layers: Layers = "top",
        any_word: bool = False,
    ) -> Neighbors:
        """Find where a text uses a word like this sentence, and the nearest words without context.

        `sentence` and `position` are as in `substitutes`. The text is that of `index`, by default
        WordNet's examples. `any_word=True` searches all words, not only the same one.
        """
        return find_neighbors(
            self,
            self._examples if index is None else index,
            Occurrence.of(sentence, position),
            k,
            layers=layers,
            any_word=any_word,
        )

    @cached_property
    def _examples(self) -> Index:
        return self.open_index()

    def _windows(
        self, texts: Iterable[SplitText], tokens_call: str | None
    ) -> Iterator[list[SplitText]]:
        """Group texts into windows; reject a first window that looks like tokens."""
        token_bytes = max(self.n_layers * self.output_dim * 4, WINDOW_BYTES // WINDOW_TOKENS)
        for window in windows(
            texts,
            lambda text: token_bytes * (text.n_tokens + 2 * len(text.sentences)),
            WINDOW_BYTES,
        ):
            if tokens_call is not None:
                refuse_tokens(window, tokens_call)
                tokens_call = None
            yield window

    def _join(self, text: SplitText, arrays: list[NDArray[np.float32]]) -> Embedded:
        """Join the arrays of a text's sentences into one result."""
        sentences = text.sentences
        ends = np.cumsum([0, *(len(sentence.tokens) for sentence in sentences)]).tolist()
        nothing = np.empty((self.n_layers, 0, self.output_dim), dtype=np.float32)
        return Embedded(
            [token for sentence in sentences for token in sentence.tokens],
            np.concatenate([nothing, *arrays], axis=1) if len(arrays) != 1 else arrays[0],
            None
            if text.text is None
            else [offset for sentence in sentences for offset in sentence.offsets],
            list(pairwise(ends)),
            text.text,
        )


def _restore(model: Model, n_cached_words: int, name: str | None) -> Elmo:
    return Elmo(model, n_cached_words=n_cached_words, name=name)
