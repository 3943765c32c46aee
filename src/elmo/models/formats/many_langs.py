"""Read ELMoForManyLangs folders: two dictionaries, two pickles of tensors, a configuration.

In: such a folder. Out: a `Model` with its lists of words and characters. The foreign conventions
(begin and end of a word swapped, ids in any order) are converted in this module only, except those
of AllenNLP, in torch_files.py.
"""

from collections.abc import Mapping, Sequence
from pathlib import PurePosixPath, PureWindowsPath
from typing import Any

import torch
from torch import Tensor

from elmo.errors import CheckpointError, ConfigError, DataError
from elmo.models import model_folder
from elmo.models.formats.sources import MAX_TEXT, AnyPath, read_bytes, read_json
from elmo.models.formats.torch_files import TorchFile, read_convolutions, read_lstms
from elmo.models.model_folder import Model
from elmo.network.config import BiLMConfig, CharCnnConfig, LstmConfig
from elmo.settings import from_mapping
from elmo.text.vocabulary import RESERVED, Vocabulary
from elmo.text.word_encoder import Lexicon, LexiconConfig

CONFIG, WORDS, CHARACTERS = "config.json", "word.dic", "char.dic"
TOKEN_LAYER, LSTMS = "token_embedder.pkl", "encoder.pkl"
WHAT = "the configuration of an ELMoForManyLangs model; give it with options= or --options"

# Their entries for our reserved ones, in our order. Their code uses <eow> for the beginning of a
# word and <bow> for its end, in training and inference.
RESERVED_WORDS = ("<bos>", "<eos>", "<oov>")
RESERVED_CHARACTERS = ("<bos>", "<eos>", "<eow>", "<bow>", "<pad>", "<oov>")
UNUSED_WORDS = ("<pad>",)

# Configurations that are part of their package, not of a model's folder: all released models name
# one of these two files, which have the same content.
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


def is_model(folder: AnyPath) -> bool:
    """Whether a folder looks like an ELMoForManyLangs model."""
    return (folder / TOKEN_LAYER).is_file() and (folder / LSTMS).is_file()


def read(folder: AnyPath, configuration: AnyPath | None = None) -> Model:
    """Read a folder; `configuration` is the JSON file with the sizes, if it is elsewhere."""
    groups, where = _read_configuration(folder, configuration)
    tokens, encoder = (_group(groups, name, where) for name in ("token_embedder", "encoder"))
    if (tokens.get("name"), encoder.get("name")) != ("cnn", "elmo"):
        raise ConfigError(
            f"{where}: token_embedder {tokens.get('name')!r} and encoder {encoder.get('name')!r}, "
            "expected 'cnn' and 'elmo', as all released models have; others are not supported"
        )
    words = _read_dictionary(folder / WORDS) if tokens.get("word_dim") else None
    characters = _read_dictionary(folder / CHARACTERS) if tokens.get("char_dim") else None
    lexicon = Lexicon(
        None if words is None else Vocabulary([*RESERVED, *_others(words, RESERVED_WORDS)]),
        None if characters is None else tuple(_others(characters, RESERVED_CHARACTERS)),
    )
    config = _config(tokens, encoder, lexicon, where)
    state = _token_layer(TorchFile(folder / TOKEN_LAYER), config, words, characters)
    encoder_file = TorchFile(folder / LSTMS)
    state |= read_lstms(encoder_file, "", config.lstm)
    encoder_file.finish()
    return Model(model_folder.assemble(config, state, str(folder), lexicon))


def _token_layer(
    source: TorchFile,
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
        # Our row for "no character", which is zero, comes first.
        state["char_cnn.char_vectors.weight"] = torch.cat([torch.zeros_like(table[:1]), table])
        state |= dict(read_convolutions(source, config.char_cnn, "convolutions.{}", "highways"))
    source.finish()
    return state


def _rows(
    source: TorchFile, name: str, dictionary: dict[str, int], reserved: Sequence[str]
) -> Tensor:
    """The rows of a table in our order."""
    table = source.take(name)
    if table.ndim != 2 or len(table) != len(dictionary):
        raise CheckpointError(
            f"{source.path}: {name} has shape {tuple(table.shape)}, expected {len(dictionary)} "
            "rows as the dictionary has entries; give the dictionary of these weights"
        )
    order = [*reserved, *_others(dictionary, reserved)]
    return table[[dictionary[entry] for entry in order]]


def _others(dictionary: dict[str, int], reserved: Sequence[str]) -> list[str]:
    """The entries that are neither reserved nor unused, sorted by their index."""
    left_out = {*reserved, *UNUSED_WORDS}
    return sorted(
        (entry for entry in dictionary if entry not in left_out), key=dictionary.__getitem__
    )


def _read_dictionary(path: AnyPath) -> dict[str, int]:
    """The entries and their indices, one pair per line, separated by a tab."""
    dictionary: dict[str, int] = {}
    try:
        text = read_bytes(path, "a dictionary of an ELMoForManyLangs model", MAX_TEXT).decode()
    except UnicodeDecodeError as error:
        raise DataError(f"{path}: not UTF-8 text ({error}), expected a dictionary") from error
    for number, line in enumerate(text.removesuffix("\n").split("\n"), start=1):
        # An entry of white space only is the ideographic space, as in their code.
        *entry, row = line.strip().split("\t")
        if len(entry) > 1 or not row.isdecimal() or len(row) > 9:
            raise DataError(f"{path}:{number}: {line!r}, expected an entry, a tab and its number")
        dictionary[entry[0] if entry else "\u3000"] = int(row)
    expected = RESERVED_CHARACTERS if path.name == CHARACTERS else (*RESERVED_WORDS, "<pad>")
    missing = [entry for entry in expected if entry not in dictionary]
    if missing:
        raise DataError(
            f"{path}: no entry {missing[0]!r}, expected the entries {', '.join(expected)}"
        )
    if sorted(dictionary.values()) != list(range(len(dictionary))):
        raise DataError(
            f"{path}: indices are not 0 to {len(dictionary) - 1}, expected each index once"
        )
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
    lists = {
        "n_words": None if lexicon.words is None else len(lexicon.words),
        "word_dim": tokens.get("word_dim") or None,
        "n_characters": None if lexicon.characters is None else len(lexicon.characters),
        "has_projection": True,
    }
    has_characters = lexicon.characters is not None
    return BiLMConfig(
        char_cnn=from_mapping(CharCnnConfig, char_cnn, where) if has_characters else None,
        lstm=from_mapping(LstmConfig, lstm, where),
        lexicon=from_mapping(LexiconConfig, lists, where),
    )


def _read_configuration(folder: AnyPath, given: AnyPath | None) -> tuple[dict[str, Any], str]:
    """The configuration with the sizes, and its file.

    `config.json` names that file by a path on the machine that trained the model: only the last
    part of it is used.
    """
    if given is not None:
        return read_json(given, WHAT), str(given)
    config = read_json(folder / CONFIG, WHAT)
    path = str(config.get("config_path"))
    name = PureWindowsPath(PurePosixPath(path).name).name
    if not (folder / name).is_file() and name in INSIDE_THEIR_PACKAGE:
        return dict(RELEASED), f"{folder / CONFIG}: {name}"
    if not (folder / name).is_file() and "encoder" in config:
        return config, str(folder / CONFIG)  # copied into it by users who lacked the file
    return read_json(folder / name, WHAT), str(folder / name)


def _group(groups: dict[str, Any], name: str, where: str) -> dict[str, Any]:
    if not isinstance(groups.get(name), dict):
        raise ConfigError(
            f"{where}: no group {name!r}, expected the configuration of an ELMoForManyLangs model"
        )
    return dict(groups[name])
