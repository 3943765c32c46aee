"""Middleware around the app: host and token checks, limits on bodies and concurrency, headers.

In: every HTTP request. Out: the app's response with security headers, or an error response. The
body is read before the app is called, so that the app never waits for it. The response is sent in
chunks, so that a request is in flight until its client has taken the response.
"""

import asyncio
import hmac
import re
from collections import Counter
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from ipaddress import ip_address

from fastapi.exceptions import HTTPException
from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from elmo.serve.config import ServeConfig

CONTENT_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)
DEFAULT_HEADERS = {
    "Content-Security-Policy": CONTENT_POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Cache-Control": "no-cache",
}
# Available without a token: the pages, which prompt for one, and the health checks.
OPEN_PATHS = ("/", "/docs", "/openapi.json", "/health", "/ready")
OPEN_FOLDER = "/static/"
# No route reads the body of such a request, and such requests are cheap.
METHODS_WITHOUT_BODY = ("GET", "HEAD", "OPTIONS")
# uvicorn accepts a chunk immediately, but the next only after this one has left its buffer.
CHUNK_BYTES = 65_536


class RequestError(HTTPException):
    """An error response with a message for the client."""

    def __init__(self, status: int, message: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(status, message, headers)


def error_response(
    path: str, status: int, message: str, headers: Mapping[str, str] | None = None
) -> Response:
    """An error response: `{"error": message}`, or an OpenAI error object on OpenAI's routes."""
    error: object = message
    if path.startswith("/v1/"):
        kind = "invalid_request_error" if status < 500 else "server_error"
        error = {"message": message, "type": kind, "param": None, "code": None}
    return JSONResponse({"error": error}, status, headers)


class Guard:
    """ASGI middleware that checks requests before the app sees them."""

    def __init__(self, app: ASGIApp, config: ServeConfig, token: str | None) -> None:
        self._app = app
        self._limits = config.limits
        self._token = token
        allowed = frozenset(name.casefold() for name in config.allow_hosts)
        self._hosts = allowed or known_hosts(config.host)
        self._in_flight: Counter[str] = Counter()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_with_headers(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in DEFAULT_HEADERS.items():
                    headers.setdefault(name, value)
            await _send_in_chunks(message, send)

        headers = Headers(scope=scope)
        try:
            self._check_host(headers)
            self._check_token(scope, headers)
            with self._count(scope):
                has_body = scope["method"] not in METHODS_WITHOUT_BODY
                body = await self._read_body(headers, receive) if has_body else b""
                await self._app(scope, _replay(body, receive), send_with_headers)
        except RequestError as error:
            response = error_response(scope["path"], error.status_code, error.detail, error.headers)
            await response(scope, receive, send_with_headers)

    def _check_host(self, headers: Headers) -> None:
        """Prevent DNS rebinding: reject a foreign host name that resolves to this machine."""
        host = re.sub(r":\d*$", "", headers.get("host", "").casefold())
        if self._hosts and host not in self._hosts:
            expected = " or ".join(sorted(self._hosts))
            raise RequestError(421, f"the Host header is {host[:80]!r}, expected {expected}")

    def _check_token(self, scope: Scope, headers: Headers) -> None:
        path = scope["path"]
        is_open = scope["method"] in ("GET", "HEAD") and (
            path in OPEN_PATHS or path.startswith(OPEN_FOLDER)
        )
        if self._token is None or is_open:
            return
        scheme, _, given = headers.get("authorization", "").partition(" ")
        is_known = hmac.compare_digest(given.encode(), self._token.encode())
        if scheme.casefold() != "bearer" or not is_known:
            raise RequestError(
                401,
                "no valid token, expected the header 'Authorization: Bearer TOKEN'",
                {"WWW-Authenticate": "Bearer"},
            )

    @contextmanager
    def _count(self, scope: Scope) -> Iterator[None]:
        """Limit concurrent requests; requests without a body are cheap and always allowed."""
        if scope["method"] in METHODS_WITHOUT_BODY:
            yield
            return
        client = scope["client"][0] if scope.get("client") else ""
        retry = {"Retry-After": "1"}
        total, most = self._in_flight.total(), self._limits.max_in_flight
        if total >= most:
            message = f"too many concurrent requests, expected at most {most} (max_in_flight)"
            raise RequestError(503, message, retry)
        most = self._limits.max_in_flight_of_client
        if self._in_flight[client] >= most:
            message = (
                "too many concurrent requests from this client, expected at most "
                f"{most} (max_in_flight_of_client)"
            )
            raise RequestError(429, message, retry)
        self._in_flight[client] += 1
        try:
            yield
        finally:
            self._in_flight[client] -= 1
            if not self._in_flight[client]:
                del self._in_flight[client]

    async def _read_body(self, headers: Headers, receive: Receive) -> bytes:
        """The whole body, within `max_bytes` and `timeout_seconds`."""
        most = self._limits.max_bytes
        too_long = RequestError(413, f"body of over {most:,} bytes (max_bytes)")
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
            seconds = self._limits.timeout_seconds
            late = f"body not received within {seconds:g} seconds (timeout_seconds)"
            raise RequestError(408, late) from error


def known_hosts(host: str) -> frozenset[str]:
    """The `Host` names that a server on a loopback address accepts; empty if any is accepted."""
    try:
        is_loopback = ip_address(host).is_loopback
    except ValueError:
        is_loopback = host == "localhost"
    return frozenset({"localhost", "127.0.0.1", "[::1]", host}) if is_loopback else frozenset()


def _replay(body: bytes, receive: Receive) -> Receive:
    """Return the body that was read, then the messages that follow (a disconnect)."""
    messages: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receive_again() -> Message:
        return messages.pop() if messages else await receive()

    return receive_again


async def _send_in_chunks(message: Message, send: Send) -> None:
    """Send a message; split a long body into chunks, and end it after the last is accepted."""
    body = message.get("body", b"")
    if len(body) > CHUNK_BYTES:
        for start in range(0, len(body), CHUNK_BYTES):
            chunk = body[start : start + CHUNK_BYTES]
            await send({**message, "body": chunk, "more_body": True})
        message = {**message, "body": b""}
    await send(message)
