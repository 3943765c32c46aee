"""Prometheus metrics of the server."""

import time

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN_BUCKETS = (16, 64, 256, 512, 1024, 2048, 4096, 16384)
REQUEST_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """The metrics of one server, in a registry of its own."""

    def __init__(self) -> None:
        self.registry = registry = CollectorRegistry()
        ProcessCollector(registry=registry)
        PlatformCollector(registry=registry)
        self.requests = Counter(
            "elmo_requests", "Responses sent.", ("path", "status"), registry=registry
        )
        self.seconds = Histogram(
            "elmo_request_seconds", "Time to respond.", ("path",), registry=registry
        )
        self.in_flight = Gauge(
            "elmo_requests_in_flight", "Requests in progress.", registry=registry
        )
        self.tokens = Counter("elmo_tokens", "Tokens processed.", registry=registry)
        self.batch_tokens = Histogram(
            "elmo_batch_tokens", "Tokens per batch.", buckets=TOKEN_BUCKETS, registry=registry
        )
        self.batch_requests = Histogram(
            "elmo_batch_requests", "Requests per batch.", buckets=REQUEST_BUCKETS, registry=registry
        )
        self.dropped = Counter(
            "elmo_requests_dropped",
            "Requests dropped after a disconnect or timeout.",
            ("reason",),
            registry=registry,
        )

    def observe_batch(self, n_requests: int, n_tokens: int) -> None:
        """Count a batch."""
        self.tokens.inc(n_tokens)
        self.batch_tokens.observe(n_tokens)
        self.batch_requests.observe(n_requests)

    def render(self) -> bytes:
        """The metrics in Prometheus's text format."""
        return generate_latest(self.registry)


class CountRequests:
    """ASGI middleware that counts and times requests by route."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_at = time.perf_counter()
        status = 500

        async def send_and_note(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        self._metrics.in_flight.inc()
        try:
            await self._app(scope, receive, send_and_note)
        finally:
            path = getattr(scope.get("route"), "path", "other")
            self._metrics.in_flight.dec()
            self._metrics.requests.labels(path, status).inc()
            self._metrics.seconds.labels(path).observe(time.perf_counter() - started_at)
