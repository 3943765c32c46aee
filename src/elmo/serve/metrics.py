"""What the server counts, for Prometheus to collect."""

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

TOKENS = (16, 64, 256, 512, 1024, 2048, 4096, 16384)
ORDERS = (1, 2, 4, 8, 16, 32, 64, 128)


class Metrics:
    """The counters of one server."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        ProcessCollector(registry=self.registry)
        PlatformCollector(registry=self.registry)
        labels = ("path", "status")
        self.requests = Counter(
            "elmo_requests", "Requests answered.", labels, registry=self.registry
        )
        self.seconds = Histogram(
            "elmo_request_seconds", "Time to answer.", ("path",), registry=self.registry
        )
        self.in_flight = Gauge(
            "elmo_requests_in_flight", "Requests being answered.", registry=self.registry
        )
        self.tokens = Counter("elmo_tokens", "Tokens that the model read.", registry=self.registry)
        self.batch_tokens = Histogram(
            "elmo_batch_tokens", "Tokens of a batch.", buckets=TOKENS, registry=self.registry
        )
        self.batch_requests = Histogram(
            "elmo_batch_requests", "Requests of a batch.", buckets=ORDERS, registry=self.registry
        )
        self.dropped = Counter(
            "elmo_requests_dropped",
            "Requests given up: the client went away, or time was over.",
            ("reason",),
            registry=self.registry,
        )

    def observe_batch(self, n_requests: int, n_tokens: int) -> None:
        """Count a batch."""
        self.tokens.inc(n_tokens)
        self.batch_tokens.observe(n_tokens)
        self.batch_requests.observe(n_requests)

    def render(self) -> bytes:
        """The text that Prometheus reads."""
        return generate_latest(self.registry)


class CountRequests:
    """ASGI middleware that counts and times requests by their route, not by what they ask for."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Pass a request on, and note how it went."""
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_at = time.perf_counter()
        status = 500

        async def send_noting(message: Message) -> None:
            nonlocal status
            status = message.get("status", status)
            await send(message)

        self._metrics.in_flight.inc()
        try:
            await self._app(scope, receive, send_noting)
        finally:
            path = getattr(scope.get("route"), "path", "other")
            self._metrics.in_flight.dec()
            self._metrics.requests.labels(path, status).inc()
            self._metrics.seconds.labels(path).observe(time.perf_counter() - started_at)
