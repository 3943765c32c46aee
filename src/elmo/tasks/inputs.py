"""The inputs of a task model: [x; characters; ELMo] of each token, and ELMo again at its output.

In: sentences of tokens. Out: a `TokenBatch`, and its vectors (B, T, D). Word and character vectors
are computed once for each distinct word of a batch. ELMo's layers are combined by separate scalar
mixes for the input and the output.
Shapes: B rows, T tokens, U distinct words, C characters, L layers, N tokens of all rows, E width of
a layer.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
import torch
from torch import Tensor, nn
from torch.nn.functional import dropout, embedding

from elmo.network.bilm import BiLM
from elmo.network.char_cnn import CharCNN
from elmo.network.scalar_mix import ScalarMix
from elmo.tasks.config import CharsConfig, ElmoConfig, TaskConfig
from elmo.tasks.layer_cache import LayerSource, Tokens
from elmo.tasks.word_table import WordTable
from elmo.text.batches import number_words
from elmo.text.characters import encode_words


@dataclass(frozen=True)
class TokenBatch:
    """Padded rows of tokens."""

    index: Tensor  # (B, T): the index of the distinct word; 0 where padded
    lengths: Tensor  # (B,)
    word_ids: Tensor | None  # (U,)
    char_ids: Tensor | None  # (U, C)
    layers: Tensor | None  # (L, N, E): of the tokens of all rows, without padding

    @property
    def mask(self) -> Tensor:
        """True for tokens, false for padding, (B, T)."""
        positions = torch.arange(self.index.shape[1], device=self.lengths.device)
        return positions < self.lengths[:, None]

    def pad(self, joined: Tensor) -> Tensor:
        """(N, E) -> (B, T, E), zero where padded."""
        padded = joined.new_zeros(*self.index.shape, joined.shape[-1])
        padded[self.mask] = joined
        return padded


class TokenVectors(nn.Module):
    """Vectors of the tokens of sentences; `self.tokens` of a task model."""

    def __init__(
        self, config: TaskConfig, words: WordTable | None, source: LayerSource | None
    ) -> None:
        super().__init__()
        self.source = source
        self.bilm: BiLM | None = None  # if it is fine-tuned with the task
        self.is_bilm_frozen = True
        self.words = words
        self.chars = None if config.chars is None else _build_char_cnn(config.chars)
        self._words_config, self._chars_config = config.words, config.chars
        self._elmo_config = config.elmo
        self.input_mix = _build_mix(config.elmo, source, "input")
        self.output_mix = _build_mix(config.elmo, source, "output")

    def add_bilm(self) -> None:
        """Make the biLM a submodule, so that it can be trained with the model."""
        assert self.source is not None
        self.source.elmo.model.refuse_alignment("fine-tuning")
        self.bilm = self.source.elmo.bilm.requires_grad_(True)

    @property
    def input_dim(self) -> int:
        """The width of the vectors of `forward`."""
        chars = self._chars_config
        char_dim = 0 if chars is None else sum(number for _, number in chars.filters)
        word_dim = self.words.dim if self.words is not None else 0
        return word_dim + char_dim + self._mix_dim(self.input_mix)

    @property
    def output_dim(self) -> int:
        """The width that `add_at_output` adds."""
        return self._mix_dim(self.output_mix)

    @property
    def device(self) -> torch.device:
        """The device of the parameters and batches."""
        return next(self.parameters()).device

    def read(self, sentences: Sequence[Tokens]) -> TokenBatch:
        """A batch with a row for each sentence."""
        return self.read_joined([[tokens] for tokens in sentences])

    def read_joined(self, rows: Sequence[Sequence[Tokens]]) -> TokenBatch:
        """A batch with a row for each list of sentences, such as a paragraph.

        ELMo reads each sentence separately.
        """
        distinct: dict[str, int] = {}
        numbers = [number_words(chain(*row), distinct) for row in rows]
        lengths = np.array([len(row) for row in numbers])
        index = np.zeros((len(rows), lengths.max(initial=0)), dtype=np.int64)
        index[np.arange(index.shape[1]) < lengths[:, None]] = list(chain(*numbers))
        words = list(distinct)
        return TokenBatch(
            torch.from_numpy(index).to(self.device),
            torch.from_numpy(lengths).to(self.device),
            None
            if self.words is None
            else torch.tensor(self.words.words.ids(words)).to(self.device),
            self._encode(words),
            self._layers(list(chain(*rows))),
        )

    def forward(self, batch: TokenBatch) -> Tensor:
        """[x; characters; ELMo] of each token, (B, T, input_dim)."""
        parts = []
        if self.words is not None and batch.word_ids is not None:
            assert self._words_config is not None
            vectors = embedding(batch.index, self.words(batch.word_ids))
            parts.append(dropout(vectors, self._words_config.dropout, self.training))
        if self.chars is not None and batch.char_ids is not None:
            assert self._chars_config is not None
            vectors = embedding(batch.index, self.chars(batch.char_ids))
            parts.append(dropout(vectors, self._chars_config.dropout, self.training))
        if self.input_mix is not None:
            parts.append(self._mixed(self.input_mix, batch))
        return torch.cat(parts, dim=-1) * batch.mask[..., None]

    def add_at_output(self, hidden: Tensor, batch: TokenBatch) -> Tensor:
        """[h; ELMo] if `elmo.place` is output or both, else h: (B, T, H + output_dim)."""
        if self.output_mix is None:
            return hidden
        return torch.cat([hidden, self._mixed(self.output_mix, batch)], dim=-1)

    def penalty(self) -> Tensor:
        """The regularization of the mixes, which is added to the loss."""
        mixes = [mix.penalty() for mix in (self.input_mix, self.output_mix) if mix is not None]
        return torch.stack(mixes).sum() if mixes else torch.zeros((), device=self.device)

    def layer_weights(self) -> dict[str, dict[str, list[float] | float]]:
        """The weights and gamma of the mixes, by place."""
        mixes = {"input": self.input_mix, "output": self.output_mix}
        return {
            place: {"weights": mix.layer_weights().tolist(), "gamma": mix.gamma.item()}
            for place, mix in mixes.items()
            if mix is not None
        }

    def _mixed(self, mix: ScalarMix, batch: TokenBatch) -> Tensor:
        assert batch.layers is not None
        assert self._elmo_config is not None
        everything = batch.mask.new_ones(batch.layers.shape[1])
        mixed = dropout(mix(batch.layers, everything), self._elmo_config.dropout, self.training)
        return batch.pad(mixed)

    def _mix_dim(self, mix: ScalarMix | None) -> int:
        return 0 if mix is None or self.source is None else self.source.dim

    def _encode(self, words: Sequence[str]) -> Tensor | None:
        if self._chars_config is None or self.chars is None:
            return None
        widest = self.chars.widest_filter
        # A word is at least as long as the widest filter.
        char_ids = encode_words(words, max(self._chars_config.max_characters, widest), widest)
        return char_ids.to(self.device)

    def _layers(self, sentences: Sequence[Tokens]) -> Tensor | None:
        if self.source is None:
            return None
        if not self.is_bilm_frozen:
            return self.source.encode(sentences)
        arrays = self.source.read(sentences)
        n_tokens = sum(map(len, arrays))
        layers = np.empty((self.source.n_layers, n_tokens, self.source.dim), dtype=np.float32)
        end = 0
        for array in arrays:
            start, end = end, end + len(array)
            layers[:, start:end] = array.transpose(1, 0, 2)
        return torch.from_numpy(layers).to(self.device)


def _build_char_cnn(config: CharsConfig) -> CharCNN:
    return CharCNN(
        char_dim=config.char_dim,
        filters=config.filters,
        n_highways=0,
        activation="relu",
        output_dim=None,
    )


def _build_mix(
    config: ElmoConfig | None, source: LayerSource | None, place: str
) -> ScalarMix | None:
    if config is None or source is None or config.place not in (place, "both"):
        return None
    mix = ScalarMix(source.n_layers, initial_gamma=config.gamma, penalty=config.penalty)
    mix.gamma.requires_grad_(config.has_gamma)
    return mix
