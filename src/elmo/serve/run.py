"""Run the server until it is told to stop; what is running then is finished first."""

import os
import socket
from collections.abc import Callable
from pathlib import Path

import uvicorn

from elmo.errors import ConfigError
from elmo.serve.app import create_app
from elmo.serve.operations import Service
from elmo.serve.serve_config import ServeConfig


def serve(
    service: Service, config: ServeConfig, token: str | None, announce: Callable[[str], None]
) -> None:
    """Answer requests until SIGINT or SIGTERM; `announce` is given the page's address."""
    listening = listen(config.host, config.port)
    host = f"[{config.host}]" if ":" in config.host else config.host
    announce(f"http://{host}:{listening.getsockname()[1]}/")
    server = uvicorn.Server(
        uvicorn.Config(
            create_app(service, config, token),
            log_level="warning",
            access_log=False,  # what people type is nobody's business
            server_header=False,
            proxy_headers=False,  # or a client could claim any address
            timeout_graceful_shutdown=round(config.limits.timeout_seconds) + 1,
        )
    )
    server.run(sockets=[listening])


def listen(host: str, port: int) -> socket.socket:
    """A listening socket; port 0 takes a free one."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family, backlog=1024)
    except (OSError, OverflowError) as error:
        raise ConfigError(
            f"{host}:{port}: cannot be listened on ({error}), expected a free port of this "
            "machine; name another with --host and --port"
        ) from error


def read_token(path: Path | None, variable: str | None) -> str | None:
    """The token that clients must send, from a file or an environment variable; none: no token."""
    if path is not None:
        where = str(path)
        try:
            token = path.read_text(encoding="utf-8").strip()
        except (OSError, UnicodeDecodeError) as error:
            raise ConfigError(
                f"{path}: cannot be read ({type(error).__name__}), expected a file with a token; "
                "name such a file"
            ) from error
    elif variable is not None:
        where, token = f"${variable}", os.environ.get(variable, "").strip()
    else:
        return None
    if not token.isascii() or not token.isprintable() or " " in token or len(token) < 8:
        raise ConfigError(
            f"{where}: no token, or not one, expected 8 or more ASCII letters, digits or signs; "
            "write one there"
        )
    return token
