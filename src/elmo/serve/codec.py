"""Requests to sentences, within the limits; vectors to JSON, .npy or safetensors.

In: texts or tokens of a request; vectors. Out: sentences; a response in the encoding that the
request's Accept header asks for.
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

from elmo.serve.config import Limits
from elmo.serve.middleware import RequestError
from elmo.text.tokenizer import Sentence, split_text, tokenize

JSON, NPY, SAFETENSORS = "application/json", "application/x-npy", "application/vnd.safetensors"
Array = NDArray[Any]
Text = str | Sequence[str]


@dataclass(frozen=True)
class EmbeddedTexts:
    """The sentences of texts, and a vector for each of their tokens."""

    texts: list[list[Sentence]]
    vectors: Array  # (K, N, D)
    has_layers: bool  # all layers were requested, not one weighted sum


def split_texts(texts: Sequence[Text], limits: Limits) -> list[list[Sentence]]:
    """The sentences of each text."""
    split: list[list[Sentence]] = []
    n_sentences = n_tokens = 0
    for text in texts:
        sentences = split_text(text) if isinstance(text, str) else [Sentence(list(text), [])]
        split.append(sentences)
        n_sentences += len(sentences)
        n_tokens += sum(len(sentence.tokens) for sentence in sentences)
        check_limit(limits, "max_sentences", n_sentences, "sentences or more")
        check_limit(limits, "max_tokens", n_tokens, "tokens or more")
        longest = max((len(sentence.tokens) for sentence in sentences), default=0)
        check_limit(limits, "max_sentence_tokens", longest, "tokens in a sentence")
    return split


def split_sentence(sentence: Text, limits: Limits) -> list[str]:
    """The tokens of one sentence."""
    tokens = tokenize(sentence).tokens if isinstance(sentence, str) else list(sentence)
    check_limit(limits, "max_sentence_tokens", len(tokens), "tokens in a sentence")
    return tokens


def check_limit(limits: Limits, name: str, found: int, what: str) -> None:
    """Raise a 413 error if `found` is over the limit."""
    most = getattr(limits, name)
    if found > most:
        raise RequestError(413, f"{found:,} {what}, expected at most {most:,} ({name})")


def choose_encoding(accept: str) -> str:
    """The first supported encoding in an Accept header; JSON if it accepts anything."""
    wanted = [part.split(";")[0].strip().casefold() for part in accept.split(",")]
    for name in wanted:
        if name in (JSON, NPY, SAFETENSORS):
            return name
        if name in ("", "*/*", "application/*"):
            return JSON
    raise RequestError(406, f"Accept is {accept[:80]!r}, expected {JSON}, {NPY} or {SAFETENSORS}")


def encode(embedded: EmbeddedTexts, encoding: str) -> Response:
    """The response; .npy holds only vectors, the other encodings also hold the tokens."""
    vectors = embedded.vectors if embedded.has_layers else embedded.vectors[0]
    if encoding == NPY:
        content = io.BytesIO()
        np.save(content, vectors)
        return Response(content.getvalue(), media_type=NPY)
    texts = [describe(text) for text in embedded.texts]
    if encoding == SAFETENSORS:
        metadata = {"texts": json.dumps(texts)}  # ASCII, which the header must be
        return Response(
            save({"vectors": np.ascontiguousarray(vectors)}, metadata), media_type=SAFETENSORS
        )
    # Six decimals: more than float32 sums agree on, and a third of the bytes.
    rounded = np.round(vectors.astype(np.float64), 6)
    ends = np.cumsum([0, *(len(text["tokens"]) for text in texts)])
    for text, (start, stop) in zip(texts, pairwise(ends), strict=True):
        text["vectors"] = rounded[..., start:stop, :].tolist()
    return Response(json.dumps({"texts": texts}), media_type=JSON)


def describe(text: Sequence[Sentence]) -> dict[str, Any]:
    """The tokens of a text, their offsets, and the token spans of its sentences."""
    ends = np.cumsum([0, *(len(sentence.tokens) for sentence in text)]).tolist()
    is_raw = any(sentence.offsets for sentence in text)
    return {
        "tokens": [token for sentence in text for token in sentence.tokens],
        "offsets": [pair for sentence in text for pair in sentence.offsets] if is_raw else None,
        "sentences": list(pairwise(ends)),
    }
