"""Run the server until SIGINT or SIGTERM; requests in progress are finished first."""

import asyncio
import logging
import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import uvicorn
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from elmo.errors import ConfigError
from elmo.serve.app import create_app
from elmo.serve.config import ServeConfig
from elmo.serve.metrics import log_as_json
from elmo.serve.middleware import known_hosts
from elmo.serve.operations import Service

log = logging.getLogger(__name__)


class DrainingServer(uvicorn.Server):
    """Accepts requests for `drain_seconds` after SIGTERM, so that a load balancer can react."""

    def __init__(self, config: uvicorn.Config, drain_seconds: float) -> None:
        super().__init__(config)
        self.is_draining = threading.Event()
        self._drain_seconds = drain_seconds
        self._drained_at = float("inf")

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        is_first = not self.is_draining.is_set()
        self.is_draining.set()
        if is_first and sig == signal.SIGTERM and self._drain_seconds > 0:
            self._drained_at = time.monotonic() + self._drain_seconds
        else:
            super().handle_exit(sig, frame)

    async def on_tick(self, counter: int) -> bool:
        if time.monotonic() >= self._drained_at:
            self._drained_at = float("inf")
            super().handle_exit(signal.SIGTERM, None)
        return await super().on_tick(counter)


class TimedProtocol(AutoHTTPProtocol):  # type: ignore[misc, valid-type] # chosen at run time
    """uvicorn's protocol; aborts a connection that waits for its client for too long.

    It waits for the header of a request, or for the client to read a response. uvicorn itself only
    closes connections that are idle between two requests, and `Guard` limits the wait for a body.
    """

    timeout_seconds: float
    _header_timer: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:
        # Writing is paused until the client has taken every byte. With a higher limit, data
        # below it could stay in memory forever.
        transport.set_write_buffer_limits(high=0)
        super().connection_made(transport)
        self._header_timer = self._abort_later()

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        # `cycle` is the latest request with a complete header.
        if self.cycle is not None and not self.cycle.response_complete:
            self._cancel_header_timer()
        elif self._header_timer is None:
            self._header_timer = self._abort_later()

    def connection_lost(self, exc: Exception | None) -> None:
        self._cancel_header_timer()
        super().connection_lost(exc)

    def pause_writing(self) -> None:
        super().pause_writing()
        self._write_timer = self._abort_later()

    def resume_writing(self) -> None:
        self._write_timer.cancel()
        super().resume_writing()

    def _abort_later(self) -> asyncio.TimerHandle:
        # close() would wait for the client
        loop = asyncio.get_running_loop()
        return loop.call_later(self.timeout_seconds, self.transport.abort)

    def _cancel_header_timer(self) -> None:
        if self._header_timer is not None:
            self._header_timer.cancel()
            self._header_timer = None


def http_protocol(timeout_seconds: float) -> type[asyncio.Protocol]:
    """The protocol with this timeout, as a class, because uvicorn makes its instances."""
    return type("Protocol", (TimedProtocol,), {"timeout_seconds": timeout_seconds})


def build_server(service: Service, config: ServeConfig, token: str | None) -> DrainingServer:
    """Build the server without starting it."""
    server: DrainingServer

    def is_draining() -> bool:
        return server.is_draining.is_set()

    server = DrainingServer(
        uvicorn.Config(
            create_app(service, config, token, is_draining),
            http=http_protocol(config.limits.timeout_seconds),
            log_level="warning",
            access_log=False,  # `json_logs` logs requests by route, without their content
            server_header=False,
            proxy_headers=False,  # a client could claim any address
            timeout_graceful_shutdown=round(config.limits.timeout_seconds) + 1,
        ),
        config.drain_seconds,
    )
    return server


def serve(
    listening: socket.socket,
    service: Service,
    config: ServeConfig,
    token: str | None,
    announce: Callable[[str], None],
) -> None:
    """Serve until SIGINT or SIGTERM; `announce` is called with the URL of the page."""
    host = f"[{config.host}]" if ":" in config.host else config.host
    announce(f"http://{host}:{listening.getsockname()[1]}/")
    server = build_server(service, config, token)
    if config.json_logs:
        log_as_json(sys.stderr)
    warn_if_open(config, token)
    server.run(sockets=[listening])


def warn_if_open(config: ServeConfig, token: str | None) -> None:
    """Warn if other machines can use the API without a token."""
    if token is None and not known_hosts(config.host):
        log.warning(
            "warning: listening on %s without a token: anyone who can reach this machine can use "
            "the API; require one with --token-file or --token-variable",
            config.host,
        )


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 chooses a free port."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, OverflowError, ValueError) as error:  # ValueError: no valid host name
        raise ConfigError(
            f"cannot listen on {host}:{port} ({error}); choose others with --host and --port"
        ) from error


def read_token(path: Path | None, variable: str | None) -> str | None:
    """The token that clients must send, from a file or an environment variable; None: no token."""
    if path is not None:
        source = str(path)
        try:
            token = path.read_text(encoding="utf-8-sig").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(f"{path}: cannot be read ({type(error).__name__})") from error
    elif variable is not None:
        source, token = f"${variable}", os.environ.get(variable, "").strip()
    else:
        return None
    if not token.isascii() or not token.isprintable() or " " in token or len(token) < 8:
        raise ConfigError(
            f"{source}: no valid token, expected at least 8 printable ASCII characters, no spaces"
        )
    return token
