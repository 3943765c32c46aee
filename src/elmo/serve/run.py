"""Run the server until SIGINT or SIGTERM; requests in progress are finished first."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn

from elmo.errors import ConfigError
from elmo.serve.app import create_app
from elmo.serve.config import ServeConfig
from elmo.serve.operations import Service


def serve(
    service: Service, config: ServeConfig, token: str | None, announce: Callable[[str], None]
) -> None:
    """Serve until SIGINT or SIGTERM; `announce` is called with the URL of the page."""
    listening = listen(config.host, config.port)
    host = f"[{config.host}]" if ":" in config.host else config.host
    announce(f"http://{host}:{listening.getsockname()[1]}/")
    server = uvicorn.Server(
        uvicorn.Config(
            create_app(service, config, token),
            log_level="warning",
            access_log=False,
            server_header=False,
            proxy_headers=False,  # a client could claim any address
            timeout_graceful_shutdown=round(config.limits.timeout_seconds) + 1,
        )
    )
    server.run(sockets=[listening])


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 chooses a free port."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"cannot listen on {host}:{port} ({error}); choose others with --host and --port"
        ) from error


def read_token(path: Path | None, variable: str | None) -> str | None:
    """The token that clients must send, from a file or an environment variable; None: no token."""
    if path is not None:
        source = str(path)
        try:
            token = path.read_text(encoding="utf-8").strip()
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
