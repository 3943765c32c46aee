"""Metrics for Prometheus, request IDs and JSON logs.

In: every HTTP request. Out: counts and times by route, an X-Request-Id header in the response,
and one JSON object per request in the log. Texts and paths with their parameters are not logged.
"""

import json
import logging
import re
import time
import uuid
from typing import TextIO

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    PlatformCollector,
    ProcessCollector,
    generate_latest,
)
from starlette.datastructures import Headers, MutableHeaders
from starlette.types import ASGIApp, Message, Receive, Scope, Send

TOKEN_BUCKETS = (16, 64, 256, 512, 1024, 2048, 4096, 16384)
REQUEST_BUCKETS = (1, 2, 4, 8, 16, 32, 64, 128)
REQUEST_ID = re.compile(r"[\w.:+/=-]{1,128}", re.ASCII)
# Silent unless `log_as_json` adds a handler.
REQUEST_LOG = logging.getLogger("elmo.serve.requests")
REQUEST_LOG.propagate = False


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
        self.tokens.inc(n_tokens)
        self.batch_tokens.observe(n_tokens)
        self.batch_requests.observe(n_requests)

    def render(self) -> bytes:
        """The metrics in Prometheus's text format."""
        return generate_latest(self.registry)


class RequestMonitor:
    """ASGI middleware that counts, times, identifies and logs requests by route."""

    def __init__(self, app: ASGIApp, metrics: Metrics) -> None:
        self._app = app
        self._metrics = metrics

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return
        started_at = time.perf_counter()
        given = Headers(scope=scope).get("x-request-id", "")
        request_id = given if REQUEST_ID.fullmatch(given) else uuid.uuid4().hex
        status = 500

        async def send_with_id(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
                MutableHeaders(scope=message)["X-Request-Id"] = request_id
            await send(message)

        self._metrics.in_flight.inc()
        try:
            await self._app(scope, receive, send_with_id)
        finally:
            path = getattr(scope.get("route"), "path", "other")
            seconds = time.perf_counter() - started_at
            self._metrics.in_flight.dec()
            self._metrics.requests.labels(path, status).inc()
            self._metrics.seconds.labels(path).observe(seconds)
            fields = {
                "request_id": request_id,
                "method": scope["method"],
                "path": path,
                "status": status,
                "milliseconds": round(1000 * seconds, 1),
            }
            REQUEST_LOG.info("request", extra={"fields": fields})


class JsonFormatter(logging.Formatter):
    """Formats each log record as one JSON object."""

    def format(self, record: logging.LogRecord) -> str:
        entry = {
            "time": time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
            + f".{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "message": record.getMessage(),
            **getattr(record, "fields", {}),
        }
        if record.exc_info:
            entry["traceback"] = self.formatException(record.exc_info)
        return json.dumps(entry)


def log_as_json(stream: TextIO) -> None:
    """Write requests, and the warnings and errors of the server, to a stream as JSON."""
    handler = logging.StreamHandler(stream)
    handler.setFormatter(JsonFormatter())
    levels = {"elmo": logging.INFO, REQUEST_LOG.name: logging.INFO, "uvicorn": logging.WARNING}
    for name, level in levels.items():
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(level)
        logger.propagate = False
