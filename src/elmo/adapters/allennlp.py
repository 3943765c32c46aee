"""AllenNLP's interface to ELMo: `Elmo`, `ElmoEmbedder`, `batch_to_ids`, `_ElmoBiLm`.

`install()` makes them importable from AllenNLP's modules, so that old code runs unchanged; so does
`python -m elmo.adapters.allennlp script.py`. Arguments and shapes are the same. As in AllenNLP, the
LSTM state is carried from one call to the next, so a sentence's vectors depend on earlier calls.
New code should use `elmo.Elmo`.
"""

import json
import runpy
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import nullcontext
from itertools import islice
from pathlib import Path
from types import ModuleType
from typing import IO, Any

import h5py
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn.functional import dropout as drop

from elmo.errors import ConfigError
from elmo.files.atomic import atomic_write
from elmo.files.hdf5 import new_hdf5
from elmo.inference.results import layer_weights
from elmo.models import catalog, downloads, formats
from elmo.models.model_folder import Model
from elmo.network.bilm import BiLM, BiLMOutput, BiLMState, carry_over
from elmo.network.scalar_mix import ScalarMix
from elmo.text.characters import NO_CHARACTER, Marker, Word, encode_words

MAX_CHARACTERS = 50  # fixed in AllenNLP's indexer
DEFAULT_OPTIONS_FILE, DEFAULT_WEIGHT_FILE = catalog.find("original").files
MARKERS: dict[str, Word] = {"<S>": Marker.BEGIN_SENTENCE, "</S>": Marker.END_SENTENCE}


def batch_to_ids(batch: Sequence[Sequence[str]]) -> Tensor:
    """Character ids of token lists, (B, T, 50), zero where padded.

    As in AllenNLP, the tokens "<S>" and "</S>" are the sentence markers.
    """
    n_tokens = max(map(len, batch), default=0)
    char_ids = torch.full((len(batch), n_tokens, MAX_CHARACTERS), NO_CHARACTER)
    for row, words in zip(char_ids, batch, strict=True):
        # AllenNLP drops what UTF-8 cannot encode.
        read = [MARKERS.get(w) or w.encode("utf-8", "ignore").decode("utf-8") for w in words]
        row[: len(words)] = encode_words(read, MAX_CHARACTERS, MAX_CHARACTERS)
    return char_ids


class _StatefulBiLM(nn.Module):
    """A biLM that keeps the state of each batch row between calls, as both originals do."""

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


class _ElmoBiLm(nn.Module):
    """AllenNLP's biLM: char ids in, a dict of all layers and the mask out, markers included."""

    def __init__(
        self,
        options_file: str,
        weight_file: str,
        requires_grad: bool = False,
        vocab_to_cache: list[str] | None = None,
    ) -> None:
        super().__init__()
        bilm = _read(options_file, weight_file).bilm.requires_grad_(requires_grad)
        self._elmo_lstm = _StatefulBiLM(bilm)
        self.num_layers = bilm.config.lstm.n_layers + 1
        if vocab_to_cache:
            raise ConfigError(
                "_ElmoBiLm does not support vocab_to_cache, expected None; use "
                "Elmo(..., vocab_to_cache=...)"
            )

    def get_output_dim(self) -> int:
        """Width of a vector."""
        return self._elmo_lstm.bilm.config.output_dim

    def forward(
        self, inputs: Tensor, word_inputs: Tensor | None = None
    ) -> dict[str, list[Tensor] | Tensor]:
        """Char ids (B, T, 50) -> "activations", a list of (B, T+2, D), and "mask" (B, T+2)."""
        output = self._elmo_lstm(inputs)
        return {"activations": list(output.layers), "mask": output.mask}


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
        model = _read(options_file, weight_file)
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

        `word_inputs` (..., T) are read instead if all of them are words of vocab_to_cache.
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
        self,
        options_file: str = DEFAULT_OPTIONS_FILE,
        weight_file: str = DEFAULT_WEIGHT_FILE,
        cuda_device: int | torch.device = -1,
    ) -> None:
        is_cpu = isinstance(cuda_device, int) and cuda_device < 0
        self._device = torch.device("cpu") if is_cpu else torch.device(cuda_device)
        self.elmo_bilm = _ElmoBiLm(options_file, weight_file).to(self._device)

    @torch.no_grad()
    def batch_to_embeddings(self, batch: Sequence[Sequence[str]]) -> tuple[Tensor, Tensor]:
        """All layers (B, L+1, T, D) and the mask (B, T)."""
        output = self.elmo_bilm._elmo_lstm(batch_to_ids(batch).to(self._device))
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
        """Embed lines of tokens into an HDF5 file: a dataset per line, and `sentence_to_index`."""
        if output_format not in ("all", "top", "average"):
            raise ConfigError(f"output_format is {output_format!r}, expected all, top or average")
        lines = [line.strip() for line in input_file]
        keys = lines if use_sentence_keys else [str(k) for k in range(len(lines))]
        if len(set(keys)) < len(keys):
            raise ConfigError("use_sentence_keys with a duplicate sentence, expected distinct ones")
        weights = layer_weights(output_format, self.elmo_bilm.num_layers)
        with (
            atomic_write(Path(output_file_path)) as temporary,
            new_hdf5(temporary) as file,
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


def remove_sentence_boundaries(tensor: Tensor, mask: Tensor) -> tuple[Tensor, Tensor]:
    """Vectors (B, T, D) and the mask (B, T) without the first and last token of each sentence."""
    inner = mask[:, 2:]
    return tensor[:, 1:-1] * inner[..., None], inner


def install() -> None:
    """Register `allennlp.modules.elmo`, `allennlp.commands.elmo`, `allennlp.nn.util` as modules."""
    found = sys.modules.get("allennlp")
    if found is not None and getattr(found, "__file__", None) is not None:
        raise ConfigError(f"{found.__file__} is already imported; call install() before it")
    names: dict[str, dict[str, Any]] = {
        "allennlp": {"__version__": "0.9.0"},
        "allennlp.commands": {},
        "allennlp.commands.elmo": {
            "ElmoEmbedder": ElmoEmbedder,
            "batch_to_ids": batch_to_ids,
            "DEFAULT_OPTIONS_FILE": DEFAULT_OPTIONS_FILE,
            "DEFAULT_WEIGHT_FILE": DEFAULT_WEIGHT_FILE,
        },
        "allennlp.modules": {"Elmo": Elmo},
        "allennlp.modules.elmo": {
            "Elmo": Elmo,
            "_ElmoBiLm": _ElmoBiLm,
            "batch_to_ids": batch_to_ids,
            "remove_sentence_boundaries": remove_sentence_boundaries,
        },
        "allennlp.nn": {},
        "allennlp.nn.util": {"remove_sentence_boundaries": remove_sentence_boundaries},
    }
    for name, contents in names.items():
        module = ModuleType(name, "AllenNLP's names, of the package elmo-torch.")
        module.__dict__.update({**contents, "__path__": []})
        sys.modules[name] = module
        parent, _, child = name.rpartition(".")
        if parent:
            setattr(sys.modules[parent], child, module)


def _read(options_file: str, weight_file: str) -> Model:
    """Read a model from its two files; URLs are downloaded, as in AllenNLP."""
    weights, options = str(weight_file), str(options_file)
    if weights.startswith(("http://", "https://")):
        known = [r for r in catalog.releases().values() if set(r.files) == {weights, options}]
        release = known[0] if known else catalog.of_addresses(weights, options)
        return formats.read(downloads.fetch_release(release))
    model = formats.read(Path(weights), Path(options))
    model.refuse_alignment("AllenNLP's classes")
    return model


def _main() -> None:
    """Run a script that imports AllenNLP's names."""
    if len(sys.argv) < 2:
        sys.exit("usage: python -m elmo.adapters.allennlp SCRIPT [ARGUMENTS]")
    from elmo.adapters import allennlp

    allennlp.install()
    sys.argv = sys.argv[1:]
    sys.path.insert(0, str(Path(sys.argv[0]).resolve().parent))
    runpy.run_path(sys.argv[0], run_name="__main__")


if __name__ == "__main__":
    _main()
