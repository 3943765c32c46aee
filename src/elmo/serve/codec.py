"""Split requests into sentences, within the limits; encode vectors as JSON, .npy or safetensors.

In: texts or tokens of a request; vectors. Out: sentences; a response in the encoding that the
request's Accept header asks for.
Shapes: K chosen layers or mixes, N tokens of all texts concatenated, D width.
"""

import io
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray
from safetensors.numpy import save
from starlette.responses import Response, StreamingResponse

from elmo.serve.config import Limits
from elmo.serve.middleware import RequestError
from elmo.text.inputs import Text, as_sentence
from elmo.text.tokenizer import Sentence, count_tokens, iter_sentences

JSON, NPY, SAFETENSORS = "application/json", "application/x-npy", "application/vnd.safetensors"
Array = NDArray[Any]

MAX_KEYS = 20  # of a request body; no route has as many
# Numbers are encoded to JSON in blocks, as other threads wait for the GIL meanwhile.
BLOCK_VALUES = 10_000
# Longer JSON is streamed in chunks while it is encoded, and is never in memory as a whole.
MAX_UNCHUNKED_VALUES = 1_000_000
CHUNK_CHARACTERS = 500_000


@dataclass(frozen=True)
class EmbeddedTexts:
    """The sentences of texts, and a vector for each of their tokens."""

    texts: list[list[Sentence]]
    vectors: Array  # (K, N, D)

    def by_text(self) -> list[Array]:
        """The vectors of each text, (K, T, D)."""
        return [self.vectors[:, start:stop] for start, stop in pairwise(self.ends())]

    def ends(self) -> list[int]:
        """Token offsets of the texts: 0, then the end of each text."""
        lengths = [sum(len(sentence.tokens) for sentence in text) for text in self.texts]
        ends: list[int] = np.cumsum([0, *lengths]).tolist()
        return ends


def check_counts(body: object, limits: Limits) -> None:
    """Check the numbers of keys, texts and tokens of a parsed body before it is validated."""
    if not isinstance(body, dict):
        return
    if len(body) > MAX_KEYS:
        raise RequestError(422, f"{len(body):,} keys in the body, expected at most {MAX_KEYS}")
    for name, value in body.items():
        if not isinstance(value, list):
            continue
        if name == "sentence":
            check_limit(limits, "max_sentence_tokens", len(value), "tokens in a sentence")
            continue
        check_limit(limits, "max_sentences", len(value), f"items in {name}")
        lengths = [len(item) for item in value if isinstance(item, list)]
        check_limit(limits, "max_sentence_tokens", max(lengths, default=0), "tokens in a sentence")
        check_limit(limits, "max_tokens", sum(lengths), "tokens")


def split_texts(texts: Sequence[Text], limits: Limits) -> list[list[Sentence]]:
    """Split each text into sentences; raise a 413 error over a limit."""
    split: list[list[Sentence]] = []
    n_sentences = n_tokens = 0
    for text in texts:
        split.append([])
        if isinstance(text, str) and len(text) > limits.max_tokens:
            # Reject a text that is far too long before it is split. The count may differ from the
            # exact one by a few tokens at the ends of sentences.
            counted = count_tokens(text, 2 * limits.max_tokens)
            if counted == 2 * limits.max_tokens:
                check_limit(limits, "max_tokens", counted, "or more tokens")
        sentences = iter_sentences(text) if isinstance(text, str) else [as_sentence(text)]
        for sentence in sentences:
            split[-1].append(sentence)
            n_sentences += 1
            n_tokens += len(sentence.tokens)
            check_limit(limits, "max_sentences", n_sentences, "or more sentences")
            check_limit(limits, "max_tokens", n_tokens, "or more tokens")
            n_of_sentence = len(sentence.tokens)
            check_limit(limits, "max_sentence_tokens", n_of_sentence, "tokens in a sentence")
    return split


def split_sentence(sentence: Text, limits: Limits) -> list[str]:
    """The tokens of one sentence."""
    tokens = as_sentence(sentence).tokens
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


def encode(embedded: EmbeddedTexts, encoding: str, *, has_layers: bool) -> Response:
    """Encode the response; .npy has only vectors, the other encodings also have the tokens.

    `has_layers`: all layers were requested, so vectors stay (K, N, D); else they are (N, D).
    """
    vectors = embedded.vectors if has_layers else embedded.vectors[0]
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
    return respond_json(_encode_texts(texts, embedded, has_layers=has_layers), vectors.size)


def _encode_texts(
    texts: Sequence[dict[str, Any]], embedded: EmbeddedTexts, *, has_layers: bool
) -> Iterator[str]:
    yield '{"texts": ['
    for number, (text, vectors) in enumerate(zip(texts, embedded.by_text(), strict=True)):
        yield f'{", " if number else ""}{json.dumps(text)[:-1]}, "vectors": '
        yield from encode_json(vectors if has_layers else vectors[0])
        yield "}"
    yield "]}"


def respond_json(blocks: Iterable[str], n_values: int) -> Response:
    """A response of JSON blocks, streamed in chunks if it has many numbers."""
    if n_values > MAX_UNCHUNKED_VALUES:
        return StreamingResponse(_join_blocks(blocks), media_type=JSON)
    return Response("".join(blocks), media_type=JSON)


def _join_blocks(blocks: Iterable[str]) -> Iterator[str]:
    chunk: list[str] = []
    n_characters = 0
    for block in blocks:
        chunk.append(block)
        n_characters += len(block)
        if n_characters > CHUNK_CHARACTERS:
            yield "".join(chunk)
            chunk, n_characters = [], 0
    yield "".join(chunk)


def encode_json(values: Array) -> Iterator[str]:
    """Encode an array of any shape as blocks of JSON, rounded to six decimals.

    Six decimals exceed the precision of float32 sums, and take a third of the bytes.
    """
    if values.ndim > 1 and values.size > BLOCK_VALUES:
        for number, part in enumerate(values):
            yield ", " if number else "["
            yield from encode_json(part)
        yield "]"
    else:
        yield json.dumps(np.round(values.astype(np.float64), 6).tolist())


def describe(text: Sequence[Sentence]) -> dict[str, Any]:
    """The tokens of a text, their offsets, and the token spans of its sentences."""
    ends = np.cumsum([0, *(len(sentence.tokens) for sentence in text)]).tolist()
    is_raw = any(sentence.offsets for sentence in text)
    return {
        "tokens": [token for sentence in text for token in sentence.tokens],
        "offsets": [pair for sentence in text for pair in sentence.offsets] if is_raw else None,
        "sentences": list(pairwise(ends)),
    }
