"""The desk between requests and the model's thread.

In: an operation's name and the pieces of one request. Out: their answers, unless the client goes
away or time is over; then what has not begun of the work is never done.
"""

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

from starlette.requests import Request

from elmo.serve.batching import Batcher, StoppedError
from elmo.serve.guard import Refusal
from elmo.serve.metrics import Metrics
from elmo.serve.operations import Service
from elmo.serve.serve_config import Limits


class Desk:
    """Takes work to the model's thread."""

    def __init__(self, service: Service, limits: Limits, metrics: Metrics) -> None:
        self.service = service
        self.limits = limits
        self._operations = service.operations()
        self._metrics = metrics
        self._batcher: Batcher | None = None

    @asynccontextmanager
    async def open(self, _app: object) -> AsyncIterator[None]:
        """Serve from here on; at the end finish the batch that is running."""
        self._batcher = Batcher(
            self._operations, self.limits.batch_tokens, self._metrics.observe_batch
        )
        yield
        await asyncio.to_thread(self._batcher.stop)

    async def ask(
        self, request: Request, operation: str, pieces: Sequence[Any], sizes: Sequence[int]
    ) -> list[Any]:
        """The answers to all pieces, whose numbers of tokens are `sizes`."""
        if operation not in self._operations:
            raise Refusal(404, f"{operation} is not served here; /info tells what is loaded")
        assert self._batcher is not None
        answers = asyncio.ensure_future(self._batcher.run(operation, pieces, sizes))
        gone = asyncio.ensure_future(_wait_until_gone(request))
        try:
            await asyncio.wait(
                {answers, gone},
                timeout=self.limits.timeout_seconds,
                return_when=asyncio.FIRST_COMPLETED,
            )
            if answers.done():
                return answers.result()
            reason = "gone" if gone.done() else "timeout"
        except StoppedError:
            raise Refusal(503, "the server stops; try again later") from None
        finally:
            answers.cancel()
            gone.cancel()
            await asyncio.wait({answers})  # whoever is told of a drop can rely on it
        self._metrics.dropped.labels(reason).inc()
        seconds = self.limits.timeout_seconds
        raise Refusal(
            503,
            f"no answer within {seconds:g} seconds (timeout_seconds); send less, or try again",
            {"Retry-After": "1"},
        )


async def _wait_until_gone(request: Request) -> None:
    """Return when the client has closed the connection."""
    while (await request.receive())["type"] != "http.disconnect":
        pass
