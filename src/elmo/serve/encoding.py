"""Vectors on the wire: JSON, NumPy's .npy or safetensors, as the request's Accept header asks.

In: the texts of a request and their vectors. Out: a response.
Shapes: K chosen layers or mixes, N tokens of all texts one after the other, D width.
"""

import io
import json
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save
from starlette.responses import Response

from elmo.serve.guard import Refusal
from elmo.text.tokenizer import Sentence

JSON, NPY, SAFETENSORS = "application/json", "application/x-npy", "application/vnd.safetensors"
Array = NDArray[Any]


@dataclass(frozen=True)
class EmbeddedTexts:
    """The sentences of texts, and a vector for each of their tokens."""

    texts: list[list[Sentence]]
    vectors: Array  # (K, N, D)
    has_layers: bool  # all layers were asked for, not one sum of them


def choose_encoding(accept: str) -> str:
    """The first encoding of ours that an Accept header names; JSON if it takes anything."""
    wanted = [part.split(";")[0].strip().casefold() for part in accept.split(",")]
    for name in wanted:
        if name in (JSON, NPY, SAFETENSORS):
            return name
        if name in ("", "*/*", "application/*"):
            return JSON
    raise Refusal(406, f"Accept is {accept[:80]!r}, expected {JSON}, {NPY} or {SAFETENSORS}")


def encode(embedded: EmbeddedTexts, encoding: str) -> Response:
    """The answer in an encoding; .npy holds vectors alone, the others tell the tokens too."""
    vectors = embedded.vectors if embedded.has_layers else embedded.vectors[0]
    if encoding == NPY:
        content = io.BytesIO()
        np.save(content, vectors)
        return Response(content.getvalue(), media_type=NPY)
    texts = [describe(text) for text in embedded.texts]
    if encoding == SAFETENSORS:
        # json.dumps keeps to ASCII, so that any text fits into the header.
        metadata = {"texts": json.dumps(texts)}
        return Response(
            save({"vectors": np.ascontiguousarray(vectors)}, metadata), media_type=SAFETENSORS
        )
    # Six digits: more than float32 sums agree on, and a third of the bytes.
    rounded = np.round(vectors.astype(np.float64), 6)
    ends = np.cumsum([0, *(len(text["tokens"]) for text in texts)])
    for text, (start, stop) in zip(texts, pairwise(ends), strict=True):
        text["vectors"] = rounded[..., start:stop, :].tolist()
    return Response(json.dumps({"texts": texts}), media_type=JSON)


def describe(text: Sequence[Sentence]) -> dict[str, Any]:
    """The tokens of a text, where they stand in it, and which of them are a sentence."""
    ends = np.cumsum([0, *(len(sentence.tokens) for sentence in text)]).tolist()
    is_raw = any(sentence.offsets for sentence in text)
    return {
        "tokens": [token for sentence in text for token in sentence.tokens],
        "offsets": [pair for sentence in text for pair in sentence.offsets] if is_raw else None,
        "sentences": list(pairwise(ends)),
    }
