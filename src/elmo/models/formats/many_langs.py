"""ELMoForManyLangs' folders, read: two dictionaries, two pickles of tensors, a configuration.

In: such a folder. Out: the config, the lists and the state of a `BiLM`. The foreign conventions
(another order of gates, a forget bias that is in the file, a highway gate that carries, begin and
end of a word taken for each other, ids in any order) are undone here and nowhere else.
"""

import io
import json
import pickle
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path, PurePosixPath, PureWindowsPath
from typing import Any

import torch
from torch import Tensor

from elmo.errors import CheckpointError, ConfigError, DataError
from elmo.models import model_folder
from elmo.models.model_folder import Model
from elmo.network.config import BiLMConfig, CharCnnConfig, LstmConfig
from elmo.network.lstm import FORGET_BIAS
from elmo.settings import from_mapping
from elmo.text.vocabulary import RESERVED, Vocabulary, read_list
from elmo.text.word_encoder import Lexicon, LexiconConfig

AnyPath = Path | zipfile.Path

CONFIG, WORDS, CHARACTERS = "config.json", "word.dic", "char.dic"
TOKEN_LAYER, LSTMS = "token_embedder.pkl", "encoder.pkl"

# Their entries for our reserved ones, in our order. Their code takes <eow> for the begin of a word
# and <bow> for its end, in training as in use.
RESERVED_WORDS = ("<bos>", "<eos>", "<oov>")
RESERVED_CHARACTERS = ("<bos>", "<eos>", "<eow>", "<bow>", "<pad>", "<oov>")
UNUSED_WORDS = ("<pad>",)

# The configurations that are inside their package, and so in no model's folder: all released
# models have one of these two names, and both files say the same.
INSIDE_THEIR_PACKAGE = ("cnn_50_100_512_4096_sample.json", "cnn_0_100_512_4096_sample.json")
RELEASED: Mapping[str, Any] = {
    "encoder": {
        "name": "elmo",
        "projection_dim": 512,
        "cell_clip": 3,
        "proj_clip": 3,
        "dim": 4096,
        "n_layers": 2,
    },
    "token_embedder": {
        "name": "cnn",
        "activation": "relu",
        "filters": [[1, 32], [2, 32], [3, 64], [4, 128], [5, 256], [6, 512], [7, 1024]],
        "n_highway": 2,
        "word_dim": 100,
        "char_dim": 50,
        "max_characters_per_token": 50,
    },
}


def is_model(folder: Path) -> bool:
    """Whether a folder looks like one of theirs."""
    return (folder / TOKEN_LAYER).is_file() and (folder / LSTMS).is_file()


def read(folder: AnyPath, configuration: Path | None = None) -> Model:
    """Open a folder; `configuration` is its JSON file with the sizes, if that is elsewhere."""
    groups, where = _read_configuration(folder, configuration)
    tokens, encoder = (_group(groups, name, where) for name in ("token_embedder", "encoder"))
    if (tokens.get("name"), encoder.get("name")) != ("cnn", "elmo"):
        raise ConfigError(
            f"{where}: token_embedder {tokens.get('name')!r} and encoder {encoder.get('name')!r}, "
            "expected 'cnn' and 'elmo', as all released models have; such a model is not opened"
        )
    words = _read_dictionary(folder / WORDS) if tokens.get("word_dim") else None
    characters = _read_dictionary(folder / CHARACTERS) if tokens.get("char_dim") else None
    lexicon = Lexicon(
        None if words is None else Vocabulary([*RESERVED, *_others(words, RESERVED_WORDS)]),
        None if characters is None else tuple(_others(characters, RESERVED_CHARACTERS)),
    )
    config = _config(tokens, encoder, lexicon, where)
    state = _token_layer(_Pickle(folder / TOKEN_LAYER), config, words, characters)
    state |= _lstms(_Pickle(folder / LSTMS), config.lstm)
    return Model(model_folder.assemble(config, state, str(folder), lexicon))


class _Pickle:
    """The tensors of a file, each of which is to be taken once."""

    def __init__(self, path: AnyPath) -> None:
        self.path = path
        try:
            # Tensors and plain containers alone: a pickle may otherwise run any code.
            found = torch.load(io.BytesIO(path.read_bytes()), map_location="cpu", weights_only=True)
        except (OSError, EOFError, RuntimeError, ValueError, pickle.UnpicklingError) as error:
            reason = str(error).split("\n", maxsplit=1)[0]
            raise CheckpointError(
                f"{path}: cannot be read as tensors alone ({reason}), expected a whole file of an "
                "ELMoForManyLangs model; fetch it again, and trust no other"
            ) from error
        self._tensors = dict(found) if isinstance(found, Mapping) else {}

    def take(self, name: str) -> Tensor:
        """The tensor of this name."""
        found = self._tensors.pop(name, None)
        if not isinstance(found, Tensor):
            raise CheckpointError(
                f"{self.path}: no tensor {name}, expected one as the configuration says; give the "
                "configuration of these weights"
            )
        return found

    def finish(self) -> None:
        """Refuse a file with more than was taken."""
        if self._tensors:
            raise CheckpointError(
                f"{self.path}: tensor {next(iter(self._tensors))} is not in a model of this "
                "configuration, expected no such tensor; give the configuration of these weights"
            )


def _token_layer(
    source: _Pickle,
    config: BiLMConfig,
    words: dict[str, int] | None,
    characters: dict[str, int] | None,
) -> dict[str, Tensor]:
    state = {"token_projection.weight": source.take("projection.weight")}
    state["token_projection.bias"] = source.take("projection.bias")
    if words is not None:
        state["word_table.weight"] = _rows(
            source, "word_emb_layer.embedding.weight", words, RESERVED_WORDS
        )
    if characters is not None and config.char_cnn is not None:
        table = _rows(source, "char_emb_layer.embedding.weight", characters, RESERVED_CHARACTERS)
        # Before theirs stands ours for "no character", which is zero.
        state["char_cnn.char_vectors.weight"] = torch.cat([torch.zeros_like(table[:1]), table])
        for k in range(len(config.char_cnn.filters)):
            for part in ("weight", "bias"):
                name = f"convolutions.{k}.{part}"
                state[f"char_cnn.{name}"] = source.take(name)
        for k in range(config.char_cnn.n_highways):
            for part in ("weight", "bias"):
                transform, carry = source.take(f"highways._layers.{k}.{part}").chunk(2)
                name = f"char_cnn.highways.{k}"
                state[f"{name}.transform.{part}"] = transform
                # Their gate lets the input through, ours what was made of it.
                state[f"{name}.gate.{part}"] = -carry
    source.finish()
    return state


def _lstms(source: _Pickle, lstm: LstmConfig) -> dict[str, Tensor]:
    state: dict[str, Tensor] = {}
    for direction in ("forward", "backward"):
        for depth in range(lstm.n_layers):
            theirs = f"{direction}_layer_{depth}"
            ours = f"stacks.{direction}_layers.{depth}"
            bias = _reorder_gates(source.take(f"{theirs}.state_linearity.bias")).clone()
            # Theirs is in the file, ours is added when the layer runs.
            bias[2 * lstm.dim : 3 * lstm.dim] -= FORGET_BIAS
            state |= {
                f"{ours}.input_weight": _reorder_gates(
                    source.take(f"{theirs}.input_linearity.weight")
                ),
                f"{ours}.recurrent_weight": _reorder_gates(
                    source.take(f"{theirs}.state_linearity.weight")
                ),
                f"{ours}.bias": bias,
                f"{ours}.projection_weight": source.take(f"{theirs}.state_projection.weight"),
            }
    source.finish()
    return state


def _reorder_gates(weight: Tensor) -> Tensor:
    """Theirs are input, forget, candidate, output."""
    entering, forgetting, candidate, leaving = weight.chunk(4)
    return torch.cat([entering, candidate, forgetting, leaving])


def _rows(
    source: _Pickle, name: str, dictionary: dict[str, int], reserved: Sequence[str]
) -> Tensor:
    """The rows of a table in our order."""
    table = source.take(name)
    if len(table) != len(dictionary):
        raise CheckpointError(
            f"{source.path}: {name} has {len(table)} rows, expected {len(dictionary)} as the "
            "dictionary has entries; give the dictionary of these weights"
        )
    order = [*reserved, *_others(dictionary, reserved)]
    return table[[dictionary[entry] for entry in order]]


def _others(dictionary: dict[str, int], reserved: Sequence[str]) -> list[str]:
    """The entries that are neither reserved nor never read, by their number."""
    left_out = {*reserved, *UNUSED_WORDS}
    return sorted(
        (entry for entry in dictionary if entry not in left_out), key=dictionary.__getitem__
    )


def _read_dictionary(path: AnyPath) -> dict[str, int]:
    """Entries and their numbers, a line each with a tab between."""
    dictionary = {}
    for number, line in enumerate(read_list(path), start=1):
        # An entry of nothing but spaces is the wide one, as their code has it.
        *entry, row = line.strip().split("\t")
        if len(entry) > 1 or not row.isdecimal():
            raise DataError(
                f"{path}:{number}: {line!r}, expected an entry, a tab and its number; restore the "
                "file"
            )
        dictionary[entry[0] if entry else "\u3000"] = int(row)
    expected = RESERVED_CHARACTERS if path.name == CHARACTERS else (*RESERVED_WORDS, "<pad>")
    missing = [entry for entry in expected if entry not in dictionary]
    if missing or sorted(dictionary.values()) != list(range(len(dictionary))):
        found = f"no entry {missing[0]!r}" if missing else "numbers that are not 0, 1, 2, ..."
        raise DataError(f"{path}: {found}, expected each number once; restore the file")
    return dictionary


def _config(
    tokens: dict[str, Any], encoder: dict[str, Any], lexicon: Lexicon, where: str
) -> BiLMConfig:
    lstm = {
        "dim": encoder.get("dim"),
        "projection_dim": encoder.get("projection_dim"),
        "n_layers": encoder.get("n_layers"),
        "cell_clip": encoder.get("cell_clip") or None,
        "projection_clip": encoder.get("proj_clip") or None,
    }
    char_cnn = {
        "char_dim": tokens.get("char_dim"),
        "filters": tokens.get("filters"),
        "n_highways": tokens.get("n_highway"),
        "activation": tokens.get("activation"),
        "max_characters": tokens.get("max_characters_per_token"),
    }
    has_characters = lexicon.characters is not None
    return BiLMConfig(
        char_cnn=from_mapping(CharCnnConfig, char_cnn, where) if has_characters else None,
        lstm=from_mapping(LstmConfig, lstm, where),
        lexicon=LexiconConfig(
            n_words=None if lexicon.words is None else len(lexicon.words),
            word_dim=tokens.get("word_dim") or None,
            n_characters=None if lexicon.characters is None else len(lexicon.characters),
            has_projection=True,
        ),
    )


def _read_configuration(folder: AnyPath, given: Path | None) -> tuple[dict[str, Any], str]:
    """The sizes, and the file that says them.

    `config.json` names that file by a path of the machine that trained the model: only its last
    part means anything here.
    """
    if given is not None:
        return _read_json(given), str(given)
    path = str(_read_json(folder / CONFIG).get("config_path"))
    name = PureWindowsPath(PurePosixPath(path).name).name
    if not (folder / name).is_file() and name in INSIDE_THEIR_PACKAGE:
        return dict(RELEASED), f"{folder / CONFIG}: {name}"
    return _read_json(folder / name), str(folder / name)


def _read_json(path: AnyPath) -> dict[str, Any]:
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise CheckpointError(
            f"{path}: cannot be read ({error}), expected the configuration of an ELMoForManyLangs "
            "model; put it there, or name it as the options"
        ) from error
    return found if isinstance(found, dict) else {}


def _group(groups: dict[str, Any], name: str, where: str) -> dict[str, Any]:
    if not isinstance(groups.get(name), dict):
        raise ConfigError(
            f"{where}: no group {name!r}, expected the configuration of an ELMoForManyLangs model; "
            "name that file"
        )
    return dict(groups[name])
