"""The server's settings: where it listens, and what one request, one client and all may ask for."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from elmo.settings import apply_sets, from_mapping, not_positive, raise_problems, read_toml


@dataclass(frozen=True, kw_only=True, slots=True)
class Limits:
    """How much is served; what is over is refused with a message that names the limit."""

    max_bytes: Annotated[int, "of a request's body"] = 1_000_000
    max_sentences: Annotated[int, "of a request"] = 2_000
    max_tokens: Annotated[int, "of a request"] = 20_000
    max_sentence_tokens: Annotated[int, "of a sentence, which is read in one go"] = 2_000
    max_vector_values: Annotated[int, "numbers in an answer"] = 50_000_000
    max_in_flight: Annotated[int, "requests at a time"] = 256
    max_in_flight_of_client: Annotated[int, "requests at a time from one address"] = 128
    timeout_seconds: Annotated[float, "from a request's last byte to its answer"] = 30.0
    batch_tokens: Annotated[int, "that the model reads in one go, of all requests"] = 2_048

    def __post_init__(self) -> None:
        """Check that every limit lets something through."""
        raise_problems(self, not_positive(self, *self.__slots__))


@dataclass(frozen=True, kw_only=True, slots=True)
class ServeConfig:
    """Where to listen, whom to let in, and how much to do for them."""

    host: Annotated[str, "an address of this machine"] = "127.0.0.1"
    port: Annotated[int, "0 takes a free one"] = 8000
    allow_origins: Annotated[tuple[str, ...], "other sites whose pages may ask"] = ()
    limits: Limits = field(default_factory=Limits)


def read_config(
    config: Path | None, sets: tuple[str, ...], host: str | None, port: int | None
) -> ServeConfig:
    """Settings from a TOML file, then `name=value` entries, then what was said outright."""
    mapping: dict[str, Any] = apply_sets(read_toml(config) if config else {}, sets)
    given = {"host": host, "port": port}
    mapping |= {name: value for name, value in given.items() if value is not None}
    return from_mapping(ServeConfig, mapping, str(config or "the settings"))
