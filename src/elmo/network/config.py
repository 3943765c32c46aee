"""Settings of the network; presets are functions: `original()`, `medium()`, `small()`, `tiny()`."""

import dataclasses
from dataclasses import dataclass
from typing import Annotated, Literal

from elmo.errors import ConfigError
from elmo.settings import nearest, not_positive, raise_problems
from elmo.text.word_encoder import LexiconConfig

Direction = Literal["forward", "backward"]

# The filters of every released model: [width in characters, number of filters].
RELEASED_FILTERS = ((1, 32), (2, 32), (3, 64), (4, 128), (5, 256), (6, 512), (7, 1024))


@dataclass(frozen=True, kw_only=True, slots=True)
class CharCnnConfig:
    """How a word's characters become one vector."""

    char_dim: Annotated[int, "width of a character's vector"] = 16
    filters: Annotated[tuple[tuple[int, int], ...], "[width, number] of each convolution"] = (
        RELEASED_FILTERS
    )
    n_highways: Annotated[int, "highway layers after the convolutions"] = 2
    activation: Annotated[Literal["relu", "tanh"], "after the convolutions"] = "relu"
    max_characters: Annotated[int, "bytes of a word that are read, its two markers included"] = 50

    def __post_init__(self) -> None:
        """Check all fields, so that a network can be built from any instance."""
        widths = [width for width, _ in self.filters]
        raise_problems(
            self,
            not_positive(self, "char_dim")
            + ([] if self.n_highways >= 0 else [f"n_highways is {self.n_highways}, expected >= 0"])
            + (
                []
                if self.max_characters >= 3
                else [f"max_characters is {self.max_characters}, expected >= 3"]
            )
            + ([] if self.filters else ["filters is empty, expected at least one [width, number]"])
            + [f"filter is {pair}, expected numbers >= 1" for pair in self.filters if min(pair) < 1]
            + [
                f"filter width is {width}, expected at most max_characters {self.max_characters}"
                for width in widths
                if width > self.max_characters
            ],
        )

    @property
    def n_filters(self) -> int:
        """Width of the concatenated convolutions."""
        return sum(number for _, number in self.filters)


@dataclass(frozen=True, kw_only=True, slots=True)
class LstmConfig:
    """The recurrent layers of one direction; both directions have the same shape."""

    dim: Annotated[int, "cells of a layer"] = 4096
    projection_dim: Annotated[int, "width of a layer's output and of a token vector"] = 512
    n_layers: Annotated[int, "layers in a direction; 0: token vectors alone"] = 2
    cell_clip: Annotated[float | None, "cells are clipped to +- this; absent: not clipped"] = 3.0
    projection_clip: Annotated[float | None, "outputs are clipped to +- this"] = 3.0
    has_skip_connections: Annotated[bool, "layers after the first add their input"] = True

    def __post_init__(self) -> None:
        """Check all fields, so that a network can be built from any instance."""
        raise_problems(
            self,
            not_positive(self, "dim", "projection_dim", "cell_clip", "projection_clip")
            + ([] if self.n_layers >= 0 else [f"n_layers is {self.n_layers}, expected >= 0"]),
        )


@dataclass(frozen=True, kw_only=True, slots=True)
class BiLMConfig:
    """The whole network: a token layer and the recurrent layers of its directions."""

    char_cnn: Annotated[CharCnnConfig | None, "absent: characters are not read"] = (
        dataclasses.field(default_factory=CharCnnConfig)
    )
    lstm: LstmConfig = dataclasses.field(default_factory=LstmConfig)
    directions: Annotated[tuple[Direction, ...], "the language models it has"] = (
        "forward",
        "backward",
    )
    lexicon: Annotated[LexiconConfig | None, "absent: words are read by their bytes alone"] = None

    def __post_init__(self) -> None:
        """Check what spans groups, and that the directions are a selection in the one order."""
        raise_problems(self, self._token_layer_problems())
        if self.directions not in (("forward", "backward"), ("forward",), ("backward",)):
            raise ConfigError(
                f"directions is {list(self.directions)}, expected forward, backward or both in "
                "this order"
            )

    @property
    def output_dim(self) -> int:
        """Width of a contextual vector: the directions side by side."""
        return len(self.directions) * self.lstm.projection_dim

    def _token_layer_problems(self) -> list[str]:
        lexicon = self.lexicon or LexiconConfig()
        if self.char_cnn is None and lexicon.word_dim is None:
            return ["neither char_cnn nor lexicon.n_words is there: nothing reads the words"]
        if self.char_cnn is None and lexicon.n_characters is not None:
            return ["lexicon.n_characters is there and char_cnn, which reads them, is not"]
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
    """A model for tests and first tries: trains in seconds."""
    return BiLMConfig(
        char_cnn=CharCnnConfig(char_dim=8, filters=((1, 8), (2, 16), (3, 32)), n_highways=1),
        lstm=LstmConfig(dim=64, projection_dim=16),
    )


PRESETS = {"original": original, "medium": medium, "small": small, "tiny": tiny}


def preset(size: str) -> BiLMConfig:
    """The preset of that name."""
    if size not in PRESETS:
        raise ConfigError(f"unknown size {size!r}{nearest(size, PRESETS)}; name a preset")
    return PRESETS[size]()
