"""This package as a worker: `python elmo_worker.py MODEL SENTENCES [DTYPE]`."""

import functools
import itertools
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np
import torch
from protocol import peak_bytes, resident_bytes, serve

from elmo import Elmo
from elmo.network import kernels

bare_bytes = resident_bytes()
elmo = Elmo.load(sys.argv[1], dtype=sys.argv[3] if len(sys.argv) > 3 else "float32")


def read() -> Iterator[list[str]]:
    """Yield the sentences one by one: a list would count as memory of the model."""
    with open(sys.argv[2], encoding="utf-8") as lines:
        for line in lines:
            yield line.split()


@functools.cache
def sentences() -> list[list[str]]:
    """All sentences."""
    return list(read())


def embed(
    is_cold: bool = False,
    batch_size: int | None = None,
    n_sentences: int | None = None,
    out: str | None = None,
) -> None:
    """Embed all sentences and keep the arrays, as a user would."""
    model = Elmo(elmo.model) if is_cold else elmo  # the same weights, an empty cache of words
    embedded = model.embed_tokens(sentences()[:n_sentences], batch_size=batch_size)
    if out:
        np.savez(out, *(each.layers for each in embedded))


def embed_singly(is_cold: bool = False) -> None:
    """Embed one sentence at a time."""
    model = Elmo(elmo.model) if is_cold else elmo
    for words in sentences():
        model.embed_tokens(words)


def describe() -> dict[str, Any]:
    """Describe the kernels in use."""
    return {"kernels": kernels.describe()}


def weigh() -> dict[str, Any]:
    """Peak memory so far, above the bare process."""
    return {"bytes": peak_bytes() - bare_bytes}


def multiply(size: int = 3072) -> dict[str, Any]:
    """FLOP/s of a large square matrix product, as the limit of the machine."""
    a, b = torch.randn(size, size), torch.randn(size, size)
    best = min(_timed(lambda: torch.mm(a, b)) for _ in range(5))
    return {"flops": 2 * size**3 / best}


def recur(n_rows: int) -> dict[str, Any]:
    """FLOP/s of the LSTM layers alone, on cached words and sentences of equal length."""
    words = [word for sentence in sentences() for word in sentence]
    length = 30
    batch = [words[k * length : (k + 1) * length] for k in range(n_rows)]
    with torch.inference_mode():
        read = elmo.embedder.read(batch)
        best = min(_timed(lambda: elmo.bilm.contextualize(*read)) for _ in range(3))
    lstm = elmo.bilm.config.lstm
    n_tokens, n_words = sum(len(sentence) + 2 for sentence in batch), len(read[0])
    product = 4 * lstm.dim * lstm.projection_dim
    per_token = lstm.n_layers * (2 * product + lstm.dim * lstm.projection_dim)
    # The first layer's input product is computed only once per distinct word.
    n_multiplied = 2 * (n_tokens * per_token - (n_tokens - n_words) * product)
    return {"flops": 2 * n_multiplied / best}


def stream(n_tokens: int) -> dict[str, Any]:
    """Embed a stream of `n_tokens` tokens; return memory above the bare process over time."""
    endless = itertools.chain.from_iterable(read() for _ in itertools.repeat(None))
    most: list[int] = []
    n_read = 0
    mark = 0
    for embedded in elmo.stream_tokens(_take(endless, n_tokens)):
        n_read += len(embedded.tokens)
        if n_read >= mark:
            most.append(resident_bytes() - bare_bytes)
            mark += max(n_tokens // 20, 1)
    return {"n_tokens": n_read, "bytes": most, "peak": peak_bytes() - bare_bytes}


def _take(endless: Iterable[list[str]], n_tokens: int) -> Iterator[list[str]]:
    for sentence in endless:
        if n_tokens <= 0:
            return
        n_tokens -= len(sentence)
        yield sentence


def _timed(work: Callable[[], object]) -> float:
    started_at = time.perf_counter()
    work()
    return time.perf_counter() - started_at


if __name__ == "__main__":
    serve(
        {
            "describe": describe,
            "embed": embed,
            "embed_singly": embed_singly,
            "multiply": multiply,
            "recur": recur,
            "stream": stream,
            "weigh": weigh,
        }
    )
