"""Load test of the server on this machine: mixed requests of 64, 16 and one client.

usage: python -m benchmarks.serve MODEL [--only RUN ...] [--seconds 60] [--json FILE]
One word in ten is new to the server. Stores requests, errors, tokens/s, p50 and p99 by size and by
route, the server's memory every five seconds, the largest difference from the library's results,
and the slowest response of /health during the requests that take the server longest. The run with
16 clients is ten times as long as that with 64, to see whether memory grows.
"""

import argparse
import asyncio
import io
import json
import random
import re
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.measured import conditions, store
from elmo import Elmo

TEXT = (
    "the of and in to a was is for as on with by he at from his an were are which this also be "
    "first one their had its her after who they two been other when there all during into school "
    "time may years more most only over city some world would where later up such used many can "
    "state about national out known university united then made war river water music bow"
)
WORDS = TEXT.split()
# Number of sentences per request, and the share of such requests.
SIZES = {"1 sentence": (1, 0.70), "8 sentences": (8, 0.25), "60 sentences": (60, 0.05)}
KINDS = ("embed", "score", "substitutes")
# Number of clients, duration relative to the first run, and settings of the server.
RUNS: dict[str, tuple[int, float, *tuple[str, ...]]] = {
    "64 clients": (64, 1),
    "16 clients": (16, 10),
    "one client": (1, 1 / 3),
    "64 clients, one sentence per batch": (64, 1 / 3, "limits.batch_tokens=1"),
}
TIMEOUT_SECONDS = 120
MEMORY_SECONDS = 5  # between two readings of the server's memory
NEW_WORDS = 0.1  # share of words that were never seen before
LETTERS = "abcdefghijklmnopqrstuvwxyz"
# The slowest requests, accepted or rejected: text to split, JSON to encode, items to check.
HARD_REQUESTS: dict[str, tuple[str, dict[str, Any]]] = {
    "900 kB of apostrophes": ("/api/embed", {"texts": ["'" * 900_000]}),
    "900 kB of exclamation marks": ("/api/embed", {"texts": ["!?" * 450_000]}),
    "20,000 tokens, all layers as JSON": (
        "/api/embed",
        {"texts": [" ".join(WORDS[k % 60] for k in range(19))] * 1_000, "layers": "all"},
    ),
    "250,000 empty texts": ("/api/embed", {"texts": [""] * 250_000}),
    "300,000 wrong items": ("/api/score", {"texts": [3] * 300_000}),
    "90,000 unknown keys": ("/api/score", {str(k): 0 for k in range(90_000)}),
}


@dataclass
class Load:
    """The measurements of one run."""

    seconds: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    by_route: dict[str, list[float]] = field(default_factory=lambda: defaultdict(list))
    n_tokens: int = 0
    errors: list[str] = field(default_factory=list)
    memory: list[float] = field(default_factory=list)
    worst_difference: float = 0.0

    def summary(self, elapsed: float) -> dict[str, Any]:
        """The numbers to store."""
        times = {
            size: {"n": len(found), **_percentiles(found)} for size, found in self.seconds.items()
        }
        every = [one for found in self.seconds.values() for one in found]
        return {
            "requests": len(every),
            "errors": len(self.errors),
            "requests_per_second": round(len(every) / elapsed, 1),
            "tokens_per_second": round(self.n_tokens / elapsed),
            "latency": {"all": {"n": len(every), **_percentiles(every)}, **times},
            "latency_by_route": {
                route: {"n": len(found), **_percentiles(found)}
                for route, found in self.by_route.items()
            },
            "memory_mb": [round(megabytes) for megabytes in self.memory],
            "worst_difference": self.worst_difference,
        }


@dataclass(frozen=True)
class Request:
    """One request, with its size class and its number of tokens."""

    size: str
    path: str
    body: dict[str, Any]
    accept: str
    n_tokens: int


def draw_request(rng: random.Random) -> Request:
    """A request of a random kind and size; always the same for the same state of `rng`."""
    kind = rng.choice(KINDS)
    size = rng.choices(list(SIZES), [share for _, share in SIZES.values()])[0]
    n_sentences = 1 if kind == "substitutes" else SIZES[size][0]
    texts = [draw_sentence(rng) for _ in range(n_sentences)]
    n_tokens = sum(map(len, texts))
    if kind == "substitutes":
        body = {"sentence": texts[0], "position": rng.randrange(len(texts[0]))}
        return Request("1 sentence", "/api/substitutes", body, "application/json", n_tokens)
    if kind == "score":
        return Request(size, "/api/score", {"texts": texts}, "application/json", n_tokens)
    return Request(size, "/api/embed", {"texts": texts, "layers": 1}, "application/x-npy", n_tokens)


def draw_sentence(rng: random.Random) -> list[str]:
    """5 to 30 words, some of which are made up."""
    words = rng.choices(WORDS, k=rng.randint(5, 30))
    return [
        "".join(rng.choices(LETTERS, k=7)) if rng.random() < NEW_WORDS else word for word in words
    ]


class Connection:
    """A minimal HTTP/1.1 client, so that the clients use little CPU time."""

    def __init__(self, port: int) -> None:
        self.port = port

    async def __aenter__(self) -> "Connection":
        self.reader, self.writer = await asyncio.open_connection("127.0.0.1", self.port)
        return self

    async def __aexit__(self, *error: object) -> None:
        self.writer.close()

    async def ask(self, request: Request) -> tuple[int, bytes]:
        """Send a request; return the status and the body of the response."""
        body = json.dumps(request.body, separators=(",", ":")).encode()
        head = (
            f"POST {request.path} HTTP/1.1\r\nHost: localhost\r\nAccept: {request.accept}\r\n"
            f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
        )
        self.writer.write(head.encode() + body)
        header = (await self.reader.readuntil(b"\r\n\r\n")).decode().casefold()
        length = re.search(r"content-length: (\d+)", header)
        if length:
            content = await self.reader.readexactly(int(length[1]))
        else:
            content = b"".join([chunk async for chunk in self._read_chunks()])
        return int(header.split()[1]), content

    async def _read_chunks(self) -> AsyncIterator[bytes]:
        while length := int(await self.reader.readline(), 16):
            yield await self.reader.readexactly(length)
            await self.reader.readline()
        await self.reader.readline()


@asynccontextmanager
async def server(model: Path, *settings: str) -> AsyncIterator[int]:
    """Run `elmo serve` in its own process on a free port, within the context."""
    command = [sys.executable, "-m", "elmo", "serve", "-m", str(model), "--port", "0"]
    for setting in settings:
        command += ["--set", setting]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        line = await asyncio.to_thread(process.stdout.readline)
        port = int(line.rstrip("/\n").rsplit(":", 1)[1])
        for _ in range(600):
            try:
                async with Connection(port) as connection:
                    await connection.ask(draw_request(random.Random(0)))
                break
            except ConnectionError:
                await asyncio.sleep(0.1)
        yield port
    finally:
        process.terminate()
        process.wait(30)


async def run_client(port: int, number: int, ends_at: float, load: Load, elmo: Elmo) -> None:
    """Send requests one by one until the time is over; check one response in a hundred."""
    rng = random.Random(number)
    async with Connection(port) as connection:
        while time.perf_counter() < ends_at:
            request = draw_request(rng)
            started_at = time.perf_counter()
            status, content = await asyncio.wait_for(connection.ask(request), TIMEOUT_SECONDS)
            elapsed = time.perf_counter() - started_at
            load.seconds[request.size].append(elapsed)
            load.by_route[request.path].append(elapsed)
            if status != 200:
                load.errors.append(f"{status} {content[:200]!r}")
                continue
            load.n_tokens += request.n_tokens
            if rng.random() < 0.01:
                difference = compare(request, content, elmo)
                load.worst_difference = max(load.worst_difference, difference)


def compare(request: Request, content: bytes, elmo: Elmo) -> float:
    """The largest difference of a response from the library's result."""
    if request.path == "/api/embed":
        expected = np.concatenate([e.vectors(1) for e in elmo.embed_tokens(request.body["texts"])])
        return float(np.abs(np.load(io.BytesIO(content)) - expected).max())
    if request.path == "/api/score":
        found = json.loads(content)["texts"]
        return max(
            float(np.abs(np.array(text["sentences"][0]["log_probs"][r]) - words).max())
            for text, scored in zip(found, elmo.score_tokens(request.body["texts"]), strict=True)
            for r, words in scored.sentences[0].log_probs.items()
        )
    substitutes = elmo.substitutes(request.body["sentence"], request.body["position"])
    found = [one["log_probs"]["combined"] for one in json.loads(content)["substitutes"]]
    expected = [one.log_probs["combined"] for one in substitutes]
    return float(np.abs(np.array(found) - expected).max())


async def watch_memory(port: int, load: Load) -> None:
    """Record the server's memory every few seconds."""
    while True:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        writer.write(b"GET /metrics HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
        told = (await reader.read()).decode()
        writer.close()
        found = re.search(r"process_resident_memory_bytes ([\d.e+]+)", told)
        if found:
            load.memory.append(float(found[1]) / 1e6)
        await asyncio.sleep(MEMORY_SECONDS)


async def measure(
    model: Path, elmo: Elmo, n_clients: int, seconds: float, *settings: str
) -> dict[str, Any]:
    """Load one server for `seconds` and summarize the run."""
    load = Load()
    async with server(model, *settings) as port:
        started_at = time.perf_counter()
        watcher = asyncio.create_task(watch_memory(port, load))
        ends_at = started_at + seconds
        await asyncio.gather(
            *(run_client(port, number, ends_at, load, elmo) for number in range(n_clients))
        )
        elapsed = time.perf_counter() - started_at
        watcher.cancel()
    for error in load.errors[:3]:
        print(error, file=sys.stderr)
    return load.summary(elapsed)


async def measure_health(model: Path) -> dict[str, Any]:
    """The slowest of many responses of /health, in ms, during each of the hard requests."""
    results = {}
    async with server(model) as port:
        for name, (path, body) in HARD_REQUESTS.items():
            request = Request("", path, body, "application/json", 0)
            async with Connection(port) as hard:
                started_at = time.perf_counter()
                running = asyncio.create_task(hard.ask(request))
                slowest = 0.0
                while not running.done():
                    slowest = max(slowest, await _time_health(port))
                status, _ = await running
            results[name] = {
                "status": status,
                "seconds": round(time.perf_counter() - started_at, 2),
                "health_ms": round(1000 * slowest, 1),
            }
    return results


async def _time_health(port: int) -> float:
    started_at = time.perf_counter()
    reader, writer = await asyncio.open_connection("127.0.0.1", port)
    writer.write(b"GET /health HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n")
    await reader.read()
    writer.close()
    return time.perf_counter() - started_at


def _percentiles(seconds: list[float]) -> dict[str, float]:
    """Median and 99th percentile in milliseconds."""
    if not seconds:
        return {}
    p50, p99 = np.percentile(np.array(seconds) * 1000, [50, 99])
    return {"p50_ms": round(float(p50), 1), "p99_ms": round(float(p99), 1)}


def main() -> None:
    """Run the chosen measurements and store each."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("model", type=Path)
    parser.add_argument("--only", nargs="+", choices=[*RUNS, "health"], default=[*RUNS, "health"])
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--json", type=Path)
    chosen = parser.parse_args()
    elmo = Elmo.load(chosen.model)
    for name in chosen.only:
        before = conditions(seconds=chosen.seconds)
        if name == "health":
            result = asyncio.run(measure_health(chosen.model))
        else:
            n_clients, times, *settings = RUNS[name]
            seconds = times * chosen.seconds
            result = asyncio.run(measure(chosen.model, elmo, n_clients, seconds, *settings))
        store(chosen.json, name, {"environment": before, **result})


if __name__ == "__main__":
    main()
