"""`options.json`: the settings of the originals' models, both ways.

In: the file, and the vocabulary of a model that reads words by a list. Out: a config; and back.
"""

import json
import zipfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from elmo.errors import CheckpointError, ConfigError
from elmo.models.formats.bilm_layout import char_cnn_of, reads_words_alone
from elmo.network.config import BiLMConfig, CharCnnConfig, LstmConfig
from elmo.settings import from_mapping, nearest
from elmo.text.characters import N_CHARACTERS
from elmo.text.vocabulary import Vocabulary
from elmo.text.word_encoder import Lexicon, LexiconConfig

# Settings of a group in options.json and ours. The file counts its characters with or without the
# row for "no character"; nobody needs that number.
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
    options: Path | zipfile.Path, vocabulary: Path | None
) -> tuple[BiLMConfig, Lexicon]:
    """The config of an `options.json`, and the list of a model that reads words by one."""
    words = None if vocabulary is None else Vocabulary.read(vocabulary)
    config = read_options(_read_text(options), str(options), words)
    return config, Lexicon(words if config.lexicon is not None else None)


def read_options(text: str, where: str, words: Vocabulary | None = None) -> BiLMConfig:
    """The config of an `options.json`; `words` are those of a model that reads no characters."""
    options = _parse(text, where)
    lstm = _read_lstm(options["lstm"], where)
    char_cnn, lexicon = None, None
    if "char_cnn" in options:
        char_cnn = _read_char_cnn(options["char_cnn"], where)
    elif words is None:
        raise ConfigError(
            f"{where}: no group 'char_cnn', expected a vocabulary, as words are then read by a "
            "list; name it as the vocabulary"
        )
    else:
        lexicon = LexiconConfig(n_words=len(words), word_dim=lstm.projection_dim)
    return BiLMConfig(
        char_cnn=char_cnn,
        lstm=lstm,
        directions=("forward", "backward") if options.get("bidirectional", True) else ("forward",),
        lexicon=lexicon,
    )


def reads_characters(options: Path) -> bool:
    """Whether an `options.json` is of a model that needs no list of words."""
    return "char_cnn" in _parse(_read_text(options), str(options))


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
            "n_characters": N_CHARACTERS,  # what AllenNLP and bilm-tf want when they read
            "n_highway": char_cnn.n_highways,
        }
    return json.dumps(options, indent=2) + "\n"


def _rename(group: dict[str, Any], names: Mapping[str, str | None], where: str) -> dict[str, Any]:
    for key in group:
        if key not in names:
            raise ConfigError(
                f"{where}: unknown key {key!r}{nearest(key, names)}; correct or remove it"
            )
    renamed = {names[key]: value for key, value in group.items()}
    renamed.pop(None, None)
    return {str(key): value for key, value in renamed.items()}


def _read_text(options: Path | zipfile.Path) -> str:
    try:
        return options.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise CheckpointError(
            f"{options}: cannot be read ({error}), expected the model's options.json; name that "
            "file"
        ) from error


def _parse(text: str, where: str) -> dict[str, Any]:
    try:
        options = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(
            f"{where}: not JSON ({error}), expected the model's options.json; name that file"
        ) from error
    if not isinstance(options, dict) or not isinstance(options.get("lstm"), dict):
        raise ConfigError(
            f"{where}: no group 'lstm', expected the options.json of an ELMo model; name that file"
        )
    return options


def _read_lstm(group: dict[str, Any], where: str) -> LstmConfig:
    lstm = _rename(group, LSTM_NAMES, f"{where}: lstm")
    lstm.setdefault("n_layers", 1)
    lstm.setdefault("has_skip_connections", False)
    for clip in ("cell_clip", "projection_clip"):
        lstm[clip] = lstm.get(clip) or None  # zero is how the originals write "none"
    return from_mapping(LstmConfig, lstm, f"{where}: lstm")


def _read_char_cnn(group: Any, where: str) -> CharCnnConfig:  # noqa: ANN401 - of a file
    if not isinstance(group, dict):
        raise ConfigError(f"{where}: char_cnn is {group!r}, expected a group of keys; correct it")
    char_cnn = _rename(group, CHAR_CNN_NAMES, f"{where}: char_cnn")
    char_cnn["char_dim"] = _char_dim(char_cnn.get("char_dim"), where)
    char_cnn.setdefault("n_highways", 0)
    return from_mapping(CharCnnConfig, char_cnn, f"{where}: char_cnn")


def _char_dim(embedding: Any, where: str) -> Any:  # noqa: ANN401 - checked by the config
    if not isinstance(embedding, dict) or "dim" not in embedding:
        raise ConfigError(
            f"{where}: char_cnn.embedding is {embedding!r}, expected {{'dim': N}}; correct it"
        )
    return embedding["dim"]
