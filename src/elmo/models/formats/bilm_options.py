"""Read and write `options.json`, the settings of bilm-tf's models.

In: the file, and the vocabulary of a model that reads whole words. Out: a config; and the reverse.
"""

import json
import warnings
from collections.abc import Mapping
from typing import Any

from elmo.errors import ConfigError
from elmo.models.formats.bilm_layout import char_cnn_of, reads_words_alone
from elmo.models.formats.sources import AnyPath, read_json
from elmo.models.formats.word_list import WordList, read_word_list
from elmo.network.config import BiLMConfig, CharCnnConfig, LstmConfig
from elmo.settings import from_mapping, nearest
from elmo.text.characters import N_CHARACTERS
from elmo.text.word_encoder import LexiconConfig

# Names of settings in options.json and ours. The file counts its characters with or without the
# row for "no character"; that number is not needed.
LSTM_NAMES = {
    "dim": "dim",
    "projection_dim": "projection_dim",
    "n_layers": "n_layers",
    "cell_clip": "cell_clip",
    "proj_clip": "projection_clip",
    "use_skip_connections": "has_skip_connections",
}
CHAR_CNN_NAMES = {
    "filters": "filters",
    "n_highway": "n_highways",
    "activation": "activation",
    "max_characters_per_token": "max_characters",
    "embedding": "char_dim",
    "n_characters": None,
    "max_characters": None,
}


def read_settings(
    options: AnyPath, vocabulary: AnyPath | None
) -> tuple[BiLMConfig, WordList | None]:
    """The config of an `options.json`, and the words of the vocabulary if one is given."""
    words = None if vocabulary is None else read_word_list(vocabulary)
    return read_options(_read(options), str(options), words), words


def read_options(
    options: Mapping[str, Any], where: str, words: WordList | None = None
) -> BiLMConfig:
    """The config of an `options.json`; `words` are those of a model that reads no characters."""
    group = options.get("lstm")
    if not isinstance(group, dict):
        raise ConfigError(f"{where}: no group 'lstm', expected the options.json of an ELMo model")
    lstm = _read_lstm(group, where)
    char_cnn, lexicon = None, None
    if options.get("char_cnn") is not None:
        char_cnn = _read_char_cnn(options["char_cnn"], where)
    elif words is None:
        raise ConfigError(
            f"{where}: no group 'char_cnn', expected a vocabulary, as the model then reads whole "
            "words; give it with vocabulary= or --vocabulary"
        )
    else:
        lexicon = LexiconConfig(n_words=len(words.vocabulary), word_dim=lstm.projection_dim)
    return BiLMConfig(
        char_cnn=char_cnn,
        lstm=lstm,
        directions=("forward", "backward") if options.get("bidirectional", True) else ("forward",),
        lexicon=lexicon,
    )


def reads_characters(options: AnyPath) -> bool:
    """Whether an `options.json` describes a model that reads characters and needs no word list."""
    return _read(options).get("char_cnn") is not None


def write_options(config: BiLMConfig) -> str:
    """The `options.json` of a config."""
    lstm = {theirs: getattr(config.lstm, ours) for theirs, ours in LSTM_NAMES.items()}
    options: dict[str, Any] = {"bidirectional": len(config.directions) == 2, "lstm": lstm}
    if reads_words_alone(config):
        assert config.lexicon is not None
        options["n_tokens_vocab"] = config.lexicon.n_words
    else:
        char_cnn = char_cnn_of(config)
        options["char_cnn"] = {
            "activation": char_cnn.activation,
            "embedding": {"dim": char_cnn.char_dim},
            "filters": [list(pair) for pair in char_cnn.filters],
            "max_characters_per_token": char_cnn.max_characters,
            "n_characters": N_CHARACTERS,  # as AllenNLP and bilm-tf require to read it
            "n_highway": char_cnn.n_highways,
        }
    return json.dumps(options, indent=2) + "\n"


def _rename(group: dict[str, Any], names: Mapping[str, str | None], where: str) -> dict[str, Any]:
    """The settings by our names; unknown ones are ignored, as all shapes are checked anyway."""
    for key in group:
        if key not in names:
            warnings.warn(
                f"{where}: unknown key {key!r} is ignored{nearest(key, names)}", stacklevel=2
            )
    renamed = {names[key]: value for key, value in group.items() if key in names}
    renamed.pop(None, None)
    return {str(key): value for key, value in renamed.items()}


def _read(options: AnyPath) -> dict[str, Any]:
    return read_json(options, "the model's options.json")


def _read_lstm(group: dict[str, Any], where: str) -> LstmConfig:
    lstm = _rename(group, LSTM_NAMES, f"{where}: lstm")
    lstm.setdefault("n_layers", 1)
    lstm.setdefault("has_skip_connections", False)
    for clip in ("cell_clip", "projection_clip"):
        lstm[clip] = lstm.get(clip) or None  # in options.json zero means no clipping
    return from_mapping(LstmConfig, lstm, f"{where}: lstm")


def _read_char_cnn(group: Any, where: str) -> CharCnnConfig:  # noqa: ANN401 - of a file
    if not isinstance(group, dict):
        raise ConfigError(f"{where}: char_cnn is {group!r}, expected a group of keys")
    char_cnn = _rename(group, CHAR_CNN_NAMES, f"{where}: char_cnn")
    char_cnn["char_dim"] = _char_dim(char_cnn.get("char_dim"), where)
    char_cnn.setdefault("n_highways", 0)
    return from_mapping(CharCnnConfig, char_cnn, f"{where}: char_cnn")


def _char_dim(embedding: Any, where: str) -> Any:  # noqa: ANN401 - checked by the config
    if not isinstance(embedding, dict) or "dim" not in embedding:
        raise ConfigError(f"{where}: char_cnn.embedding is {embedding!r}, expected {{'dim': N}}")
    return embedding["dim"]
