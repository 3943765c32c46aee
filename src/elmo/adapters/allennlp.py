"""AllenNLP's names for those who lost them: `Elmo`, `ElmoEmbedder`, `batch_to_ids`.

Same arguments, same shapes, and as there the LSTM state is carried from one call to the next, so
a sentence's vectors depend on what ran before. New code is better served by `elmo.Elmo`.
"""

import json
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from typing import IO, Any

import h5py
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import dropout as drop

from elmo.errors import ConfigError
from elmo.files.atomic import atomic_write
from elmo.inference.results import layer_weights
from elmo.models import formats
from elmo.network.bilm import BiLM, BiLMOutput, BiLMState, carry_over
from elmo.network.scalar_mix import ScalarMix
from elmo.text.characters import NO_CHARACTER, Marker, Word, encode_words

MAX_CHARACTERS = 50  # AllenNLP's indexer knows no other
MARKERS: dict[str, Word] = {"<S>": Marker.BEGIN_SENTENCE, "</S>": Marker.END_SENTENCE}


def batch_to_ids(batch: Sequence[Sequence[str]]) -> Tensor:
    """Character ids of token lists, (B, T, 50), zero where padded.

    As in AllenNLP, the tokens "<S>" and "</S>" are the sentence markers.
    """
    n_tokens = max(map(len, batch), default=0)
    char_ids = torch.full((len(batch), n_tokens, MAX_CHARACTERS), NO_CHARACTER)
    for row, words in zip(char_ids, batch, strict=True):
        # AllenNLP drops what UTF-8 cannot hold.
        read = [MARKERS.get(w) or w.encode("utf-8", "ignore").decode("utf-8") for w in words]
        row[: len(words)] = encode_words(read, MAX_CHARACTERS, MAX_CHARACTERS)
    return char_ids


class _StatefulBiLM(nn.Module):
    """A biLM that remembers the state of each place of a batch, as both originals do."""

    def __init__(self, bilm: BiLM) -> None:
        super().__init__()
        self.bilm = bilm
        self._state = bilm.initial_state(0)

    def forward(self, char_ids: Tensor) -> BiLMOutput:
        batch = self.bilm.word_encoder.batch_of_char_ids(char_ids)
        output, state = carry_over(
            self._state, len(char_ids), self.bilm, lambda before: self.bilm(batch, before)
        )
        self._state = BiLMState(state.hidden.detach(), state.cell.detach())
        return output


class Elmo(nn.Module):
    """AllenNLP's module: char ids in, a dict of mixes and the mask out."""

    _word_char_ids: Tensor

    def __init__(
        self,
        options_file: str,
        weight_file: str,
        num_output_representations: int,
        requires_grad: bool = False,
        do_layer_norm: bool = False,
        dropout: float = 0.5,
        vocab_to_cache: list[str] | None = None,
        keep_sentence_boundaries: bool = False,
        scalar_mix_parameters: list[float] | None = None,
    ) -> None:
        super().__init__()
        model = formats.read(Path(weight_file), Path(options_file))
        self._elmo_lstm = _StatefulBiLM(model.bilm.requires_grad_(requires_grad))
        self._is_frozen = not requires_grad
        self._dropout_rate = dropout
        self._keep_sentence_boundaries = keep_sentence_boundaries
        self._n_cached_words = 0 if vocab_to_cache is None else len(vocab_to_cache)
        word_char_ids = batch_to_ids([vocab_to_cache or []])[0]  # (V, 50)
        word_char_ids[:1] = NO_CHARACTER  # word 0 is padding
        self.register_buffer("_word_char_ids", word_char_ids, persistent=False)
        self._mixes = nn.ModuleList(
            ScalarMix(
                model.bilm.config.lstm.n_layers + 1,
                initial_weights=scalar_mix_parameters,
                is_frozen=scalar_mix_parameters is not None,
                layer_norm="allennlp" if do_layer_norm else None,
            )
            for _ in range(num_output_representations)
        )

    def get_output_dim(self) -> int:
        """Width of a vector."""
        return self._elmo_lstm.bilm.config.output_dim

    def forward(
        self, inputs: Tensor, word_inputs: Tensor | None = None
    ) -> dict[str, list[Tensor] | Tensor]:
        """Char ids (..., T, 50) -> mixes "elmo_representations" (..., T, D), "mask" (..., T).

        `word_inputs` (..., T) are read in their place if all of them are words of vocab_to_cache.
        """
        if word_inputs is not None and bool((word_inputs < self._n_cached_words).all()):
            inputs = self._word_char_ids[word_inputs]
        with torch.no_grad() if self._is_frozen else nullcontext():
            output = self._elmo_lstm(inputs.flatten(0, -3))
        mixes = [mix(output.layers, output.mask) for mix in self._mixes]
        mask = output.mask
        if not self._keep_sentence_boundaries:
            mask = mask[:, 2:]
            mixes = [mix[:, 1:-1] * mask[..., None] for mix in mixes]
        mixes = [drop(mix, self._dropout_rate, self.training) for mix in mixes]
        leading = inputs.shape[:-2]
        return {
            "elmo_representations": [mix.reshape(*leading, *mix.shape[1:]) for mix in mixes],
            "mask": mask.reshape(*leading, mask.shape[-1]),
        }


class ElmoEmbedder:
    """AllenNLP 0.9's embedder: token lists in, arrays (3, T, 1024) out."""

    def __init__(
        self, options_file: str, weight_file: str, cuda_device: int | torch.device = -1
    ) -> None:
        is_cpu = isinstance(cuda_device, int) and cuda_device < 0
        self._device = torch.device("cpu") if is_cpu else torch.device(cuda_device)
        bilm = formats.read(Path(weight_file), Path(options_file)).bilm
        self.elmo_bilm = _StatefulBiLM(bilm.to(self._device))

    @torch.no_grad()
    def batch_to_embeddings(self, batch: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """All layers (B, L+1, T, D) and the mask (B, T)."""
        output = self.elmo_bilm(batch_to_ids(batch).to(self._device))
        mask = output.mask[:, 2:]
        return (output.layers[:, :, 1:-1] * mask[..., None]).transpose(0, 1), mask

    def embed_sentence(self, sentence: Sequence[str]) -> NDArray[Any]:
        """All layers of one sentence, (L+1, T, D)."""
        return self.embed_batch([sentence])[0]

    def embed_batch(self, batch: Sequence[Sequence[str]]) -> list[NDArray[Any]]:
        """All layers of each sentence, (L+1, T, D)."""
        layers, _ = self.batch_to_embeddings(batch)
        return [layers[k, :, : len(words)].cpu().numpy() for k, words in enumerate(batch)]

    def embed_sentences(
        self, sentences: Iterable[Sequence[str]], batch_size: int = 64
    ) -> Iterator[NDArray[Any]]:
        """All layers of each sentence, `batch_size` of them at a time."""
        remaining = iter(sentences)
        while batch := list(islice(remaining, batch_size)):
            yield from self.embed_batch(batch)

    def embed_file(
        self,
        input_file: IO[str],
        output_file_path: str,
        output_format: str = "all",
        batch_size: int = 64,
        forget_sentences: bool = False,
        use_sentence_keys: bool = False,
    ) -> None:
        """Embed lines of tokens into an HDF5 file: a dataset a line, and `sentence_to_index`."""
        if output_format not in ("all", "top", "average"):
            raise ConfigError(
                f"output_format is {output_format!r}, expected all, top or average; name one"
            )
        lines = [line.strip() for line in input_file]
        keys = lines if use_sentence_keys else [str(k) for k in range(len(lines))]
        if len(set(keys)) < len(keys):
            raise ConfigError("use_sentence_keys with a sentence that stands twice; use numbers")
        n_layers = self.elmo_bilm.bilm.config.lstm.n_layers + 1
        weights = layer_weights(output_format, n_layers)
        with (
            atomic_write(Path(output_file_path)) as temporary,
            h5py.File(temporary, "w") as file,
        ):
            arrays = self.embed_sentences((line.split() for line in lines), batch_size)
            for key, array in zip(keys, arrays, strict=True):
                mixed = np.tensordot(weights, array, axes=1)
                file.create_dataset(key, data=mixed if output_format == "all" else mixed[0])
            if not forget_sentences:
                numbers = json.dumps({line: str(k) for k, line in enumerate(lines)})
                text = file.create_dataset(
                    "sentence_to_index", (1,), dtype=h5py.string_dtype(encoding="utf-8")
                )
                text[0] = numbers
