"""Settings of the network; presets are functions: `original()`, `medium()`, `small()`, `tiny()`."""

from dataclasses import dataclass, field
from typing import Annotated, Literal

from annotated_types import Ge, Le

from elmo.errors import ConfigError
from elmo.settings import (
    Dim,
    Filters,
    LayerCount,
    PositiveFloat,
    checked,
    nearest,
    raise_problems,
)
from elmo.text.word_encoder import LexiconConfig

Direction = Literal["forward", "backward"]

# The filters of every released model: [width in characters, number of filters].
RELEASED_FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))


@dataclass(frozen=True, kw_only=True, slots=True)
@checked
class CharCnnConfig:
    """The character CNN, which computes one vector from a word's characters."""

    char_dim: Annotated[Dim, "size of a character embedding"] = 16
    filters: Annotated[Filters, "[width, number of filters] of each convolution"] = RELEASED_FILTERS
    n_highways: Annotated[LayerCount, "highway layers after the convolutions"] = 2
    activation: Annotated[Literal["relu", "tanh"], "activation after the convolutions"] = "relu"
    max_characters: Annotated[
        int, Ge(3), Le(10_000), "maximum bytes per word, including the two word markers"
    ] = 50

    def __post_init__(self) -> None:
        raise_problems(
            self,
            [
                f"filter width is {width}, expected at most max_characters {self.max_characters}"
                for width, _ in self.filters
                if width > self.max_characters
            ],
        )

    @property
    def n_filters(self) -> int:
        """Width of the concatenated convolutions."""
        return sum(number for _, number in self.filters)


@dataclass(frozen=True, kw_only=True, slots=True)
@checked
class LstmConfig:
    """The LSTM layers of one direction; both directions have the same shape."""

    dim: Annotated[Dim, "cells of a layer"] = 4096
    projection_dim: Annotated[Dim, "size of a layer's output and of a token vector"] = 512
    n_layers: Annotated[LayerCount, "layers per direction; 0: token vectors only"] = 2
    cell_clip: Annotated[PositiveFloat | None, "cell states are clipped to +- this value"] = 3.0
    projection_clip: Annotated[PositiveFloat | None, "outputs are clipped to +- this value"] = 3.0
    has_skip_connections: Annotated[bool, "layers after the first add their input"] = True


@dataclass(frozen=True, kw_only=True, slots=True)
@checked
class BiLMConfig:
    """The whole network: a token layer and the LSTM layers of its directions."""

    char_cnn: Annotated[CharCnnConfig | None, "none: characters are not read"] = field(
        default_factory=CharCnnConfig
    )
    lstm: Annotated[LstmConfig, "the LSTM layers"] = field(default_factory=LstmConfig)
    directions: Annotated[tuple[Direction, ...], "the language models of the network"] = (
        "forward",
        "backward",
    )
    lexicon: Annotated[LexiconConfig | None, "none: words are read by their bytes only"] = None

    def __post_init__(self) -> None:
        problems = self._token_layer_problems()
        if self.directions not in (("forward", "backward"), ("forward",), ("backward",)):
            problems.append(
                f"directions is {list(self.directions)}, expected forward, backward or both in "
                "this order"
            )
        raise_problems(self, problems)

    @property
    def output_dim(self) -> int:
        """Width of a contextual vector: the concatenated directions."""
        return len(self.directions) * self.lstm.projection_dim

    def _token_layer_problems(self) -> list[str]:
        lexicon = self.lexicon or LexiconConfig()
        if self.char_cnn is None and lexicon.word_dim is None:
            return ["char_cnn and lexicon.n_words are both absent, expected at least one"]
        if self.char_cnn is None and lexicon.n_characters is not None:
            return ["char_cnn is absent, expected one, as lexicon.n_characters is given"]
        if lexicon.has_projection or lexicon.word_dim is None:
            return []
        if self.char_cnn is not None:
            return ["words and characters are both read, expected lexicon.has_projection = true"]
        if lexicon.word_dim == self.lstm.projection_dim:
            return []
        return [
            f"lexicon.word_dim is {lexicon.word_dim}, expected lstm.projection_dim "
            f"{self.lstm.projection_dim} or lexicon.has_projection = true"
        ]


def original() -> BiLMConfig:
    """The released "original" and 5.5B models: 93.6M parameters."""
    return BiLMConfig()


def medium() -> BiLMConfig:
    """The released "medium" model: 28.0M parameters."""
    return BiLMConfig(
        char_cnn=CharCnnConfig(n_highways=1), lstm=LstmConfig(dim=2048, projection_dim=256)
    )


def small() -> BiLMConfig:
    """The released "small" model: 13.6M parameters."""
    return BiLMConfig(
        char_cnn=CharCnnConfig(n_highways=1), lstm=LstmConfig(dim=1024, projection_dim=128)
    )


def tiny() -> BiLMConfig:
    """A model for tests and first experiments: it trains in seconds."""
    return BiLMConfig(
        char_cnn=CharCnnConfig(char_dim=8, filters=((1, 8), (2, 16), (3, 32)), n_highways=1),
        lstm=LstmConfig(dim=64, projection_dim=16),
    )


PRESETS = {"original": original, "medium": medium, "small": small, "tiny": tiny}


def preset(size: str) -> BiLMConfig:
    """The preset of that name."""
    if size not in PRESETS:
        raise ConfigError(f"unknown size {size!r}{nearest(size, PRESETS)}")
    return PRESETS[size]()
