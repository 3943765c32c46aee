"""Settings of the server: address, allowed origins, and limits on requests."""

from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from annotated_types import Ge, Gt, Le

from elmo.settings import PositiveInt, apply_sets, checked, from_mapping, read_toml


@dataclass(frozen=True, kw_only=True, slots=True)
@checked
class Limits:
    """Limits on requests; the error message for a request over a limit names the limit."""

    max_bytes: Annotated[PositiveInt, "size of a request body"] = 1_000_000
    max_sentences: Annotated[PositiveInt, "sentences per request"] = 2_000
    max_tokens: Annotated[PositiveInt, "tokens per request"] = 20_000
    max_sentence_tokens: Annotated[PositiveInt, "tokens per sentence"] = 2_000
    max_vector_values: Annotated[PositiveInt, "numbers in the vectors of a response"] = 50_000_000
    max_in_flight: Annotated[PositiveInt, "concurrent requests with a body, over all clients"] = 256
    max_in_flight_of_client: Annotated[
        PositiveInt, "concurrent requests with a body, per IP address"
    ] = 128
    timeout_seconds: Annotated[
        float,
        Gt(0),
        Le(86_400),
        "maximum seconds to receive the header of a request, to receive its body, to compute the "
        "response, and to wait for a client that does not read it",
    ] = 30.0
    batch_tokens: Annotated[PositiveInt, "tokens per batch, over all requests"] = 2_048


@dataclass(frozen=True, kw_only=True, slots=True)
@checked
class ServeConfig:
    """Where the server listens, which hosts and origins it accepts, and its limits."""

    host: Annotated[str, "address to listen on"] = "127.0.0.1"
    port: Annotated[int, Ge(0), Le(65_535), "port to listen on; 0 chooses a free port"] = 8000
    allow_hosts: Annotated[
        tuple[str, ...],
        "host names, without port, that requests may be sent to; none: those of this machine if "
        "the server listens on it only, else any",
    ] = ()
    allow_origins: Annotated[tuple[str, ...], "other origins whose pages may call the API"] = ()
    json_logs: Annotated[bool, "log requests and errors to stderr, one JSON object per line"] = (
        False
    )
    drain_seconds: Annotated[
        float,
        Ge(0),
        Le(3_600),
        "after SIGTERM, how long to accept requests while /ready answers 503",
    ] = 0.0
    limits: Limits = field(default_factory=Limits)


def read_config(
    config: Path | None, sets: tuple[str, ...], host: str | None, port: int | None
) -> ServeConfig:
    """Settings from a TOML file, overridden by `name=value` entries, then by `host` and `port`."""
    mapping: dict[str, Any] = apply_sets(read_toml(config) if config else {}, sets)
    given = {"host": host, "port": port}
    mapping |= {name: value for name, value in given.items() if value is not None}
    return from_mapping(ServeConfig, mapping, str(config or "the settings"))
