"""The door: what every request passes before the app sees it, and what every answer carries.

Refuses strangers (host, token), too much (bytes, requests in flight) and the too slow; reads the
body, so that nothing behind it waits for one; adds the headers that keep a page to itself.
"""

import asyncio
import hmac
import re
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from ipaddress import ip_address

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmo.serve.serve_config import ServeConfig

SECURITY_HEADERS = {
    "Content-Security-Policy": (
        "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
        "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    ),
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
}
# What can be had without a token: the page, which asks for one, and whether the server lives.
OPEN_PATHS = ("/", "/docs", "/openapi.json", "/health")
OPEN_FOLDER = "/static/"


class Refusal(Exception):
    """An answer that is given instead of the app's."""

    def __init__(self, status: int, error: str, headers: dict[str, str] | None = None) -> None:
        super().__init__(error)
        self.response = JSONResponse({"error": error}, status, headers)


class Guard:
    """ASGI middleware around the whole app."""

    def __init__(self, app: ASGIApp, config: ServeConfig, token: str | None) -> None:
        self._app = app
        self._limits = config.limits
        self._token = token
        self._hosts = known_hosts(config.host)
        self._in_flight: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Let a request through, or answer it here."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
            await send(message)

        headers = Headers(scope=scope)
        try:
            self._check_host(headers)
            self._check_token(scope, headers)
            with self._count(scope):
                body = await self._read_body(headers, receive)
                await self._app(scope, _replay(body, receive), send_guarded)
        except Refusal as refusal:
            await refusal.response(scope, receive, send_guarded)

    def _check_host(self, headers: Headers) -> None:
        """A site that names this machine in its own DNS must not be taken for this machine."""
        host = re.sub(r":\d*$", "", headers.get("host", "").casefold())
        if self._hosts and host not in self._hosts:
            raise Refusal(421, f"host {host[:80]!r}, expected {' or '.join(sorted(self._hosts))}")

    def _check_token(self, scope: Scope, headers: Headers) -> None:
        path = scope["path"]
        if self._token is None or path in OPEN_PATHS or path.startswith(OPEN_FOLDER):
            return
        scheme, _, given = headers.get("authorization", "").partition(" ")
        is_known = hmac.compare_digest(given.encode(), self._token.encode())
        if scheme.casefold() != "bearer" or not is_known:
            raise Refusal(
                401,
                "no valid token, expected the header 'Authorization: Bearer TOKEN'; send it",
                {"WWW-Authenticate": "Bearer"},
            )

    @contextmanager
    def _count(self, scope: Scope) -> Iterator[None]:
        """Refuse what is too much at a time; reading what is known costs nothing."""
        if scope["method"] in ("GET", "HEAD", "OPTIONS"):
            yield
            return
        client = scope["client"][0] if scope.get("client") else ""
        soon = {"Retry-After": "1"}
        if self._in_flight.total() >= self._limits.max_in_flight:
            raise Refusal(503, "too many requests in flight; try again soon", soon)
        if self._in_flight[client] >= self._limits.max_in_flight_of_client:
            most = self._limits.max_in_flight_of_client
            raise Refusal(429, f"over {most} requests at a time; wait for answers", soon)
        self._in_flight[client] += 1
        try:
            yield
        finally:
            self._in_flight[client] -= 1
            if not self._in_flight[client]:
                del self._in_flight[client]

    async def _read_body(self, headers: Headers, receive: Receive) -> bytes:
        """The whole body, if it is not too long and comes in time."""
        most = self._limits.max_bytes
        too_long = Refusal(413, f"a body of over {most:,} bytes (max_bytes); send less")
        length = headers.get("content-length", "0")
        if length.isdecimal() and int(length[:20]) > most:
            raise too_long
        body = bytearray()
        try:
            async with asyncio.timeout(self._limits.timeout_seconds):
                while True:
                    message = await receive()
                    body += message.get("body", b"")
                    if len(body) > most:
                        raise too_long
                    if message["type"] != "http.request" or not message.get("more_body"):
                        return bytes(body)
        except TimeoutError as error:
            raise Refusal(408, "the body did not come in time; send it faster") from error


def known_hosts(host: str) -> frozenset[str]:
    """The names by which a server on this machine's own address is called; none: any will do."""
    try:
        is_own = ip_address(host).is_loopback
    except ValueError:
        is_own = host == "localhost"
    return frozenset({"localhost", "127.0.0.1", "[::1]", host}) if is_own else frozenset()


def _replay(body: bytes, receive: Receive) -> Receive:
    """Give the body that was read; then, as before, tell when the client goes away."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return messages.pop() if messages else await receive()

    return receive_again
