"""Routes for clients of other servers: OpenAI's embeddings, and /embed_all of TEI.

In: their request bodies. Out: their response bodies. The vector of a text is the mean of its token
vectors, scaled to length 1 like OpenAI's. TEI is Hugging Face's text-embeddings-inference.
Shapes: N tokens, D width.
"""

import asyncio
import base64
import json
import time
from collections.abc import Iterator
from itertools import pairwise

import numpy as np
from fastapi import APIRouter, Request
from numpy.typing import NDArray
from starlette.responses import JSONResponse, Response

from elmo.errors import ConfigError
from elmo.inference.results import layer_weights
from elmo.serve import codec, schemas
from elmo.serve.middleware import RequestError
from elmo.serve.routes import ERRORS, Backend, LimitedRoute, Responses, errors

DEFAULT_LAYERS = "average"


def _openai(responses: Responses) -> Responses:
    return {
        status: {**response, "model": schemas.OpenAIErrorResponse}
        for status, response in responses.items()
    }


def openai_routes(backend: Backend) -> APIRouter:
    """`/v1/embeddings` and `/v1/models`."""
    router = APIRouter(prefix="/v1", tags=["OpenAI"], route_class=LimitedRoute)
    name, elmo = backend.service.name, backend.service.elmo
    suffixes = ["", ":average", ":top", *(f":{layer}" for layer in range(elmo.n_layers))]
    models = {
        name + suffix: {
            "id": name + suffix,
            "object": "model",
            "created": int(time.time()),
            "owned_by": "elmo",
        }
        for suffix in suffixes
    }

    @router.post(
        "/embeddings",
        response_model=schemas.OpenAIEmbeddingsResponse,
        responses=_openai(ERRORS),
    )
    async def embeddings(body: schemas.OpenAIEmbeddingsBody, request: Request) -> Response:
        """One vector per text: the mean of its token vectors, scaled to length 1."""
        if body.dimensions not in (None, elmo.output_dim):
            raise RequestError(422, f"dimensions {body.dimensions}, expected {elmo.output_dim}")
        weights = _model_weights(body.model, name, elmo.n_layers)
        texts = [body.input] if isinstance(body.input, str) else body.input
        embedded = await backend.embed(request, texts, weights)
        vectors = await asyncio.to_thread(pool, embedded)
        return await asyncio.to_thread(_encode_embeddings, vectors, body, embedded)

    @router.get(
        "/models",
        response_model=schemas.OpenAIModelsResponse,
        responses=_openai(errors(401, 421)),
    )
    async def list_models() -> Response:
        """The model, once for each choice of layers."""
        return JSONResponse({"object": "list", "data": list(models.values())})

    @router.get(
        "/models/{model:path}",
        response_model=schemas.OpenAIModel,
        responses=_openai(errors(401, 404, 421)),
    )
    async def retrieve_model(model: str) -> Response:
        """One of the models that /v1/models lists."""
        if model not in models:
            raise RequestError(404, f"unknown model {model[:80]!r}, expected {', '.join(models)}")
        return JSONResponse(models[model])

    return router


def tei_routes(backend: Backend) -> APIRouter:
    """`/embed_all` of text-embeddings-inference."""
    router = APIRouter(tags=["text-embeddings-inference"], route_class=LimitedRoute)
    weights = layer_weights(DEFAULT_LAYERS, backend.service.elmo.n_layers)

    @router.post("/embed_all", response_model=list[list[list[float]]], responses=ERRORS)
    async def embed_all(body: schemas.EmbedAllBody, request: Request) -> Response:
        """One vector per token of each text: the average of the layers."""
        texts = [body.inputs] if isinstance(body.inputs, str) else body.inputs
        embedded = await backend.embed(request, texts, weights)
        return await asyncio.to_thread(_encode_all, embedded)

    return router


def pool(embedded: codec.EmbeddedTexts) -> NDArray[np.float32]:
    """One vector of length 1 per text, (texts, D): the mean over its tokens."""
    ends = embedded.ends()
    for number, (start, stop) in enumerate(pairwise(ends)):
        if start == stop:
            raise RequestError(422, f"input {number} is empty, expected at least one token")
    sums = np.add.reduceat(embedded.vectors[0].astype(np.float64), ends[:-1], axis=0)  # (texts, D)
    lengths = np.linalg.norm(sums, axis=1, keepdims=True)
    return (sums / np.where(lengths > 0, lengths, 1)).astype(np.float32)


def _model_weights(model: str, name: str, n_layers: int) -> NDArray[np.float32]:
    """Weights (1, L+1) for a model name such as `english` or `english:top`."""
    prefix, separator, layers = model.rpartition(":")
    if model == name:
        layers = DEFAULT_LAYERS
    elif not separator or prefix != name or layers == "all" or "," in layers:
        raise RequestError(404, f"unknown model {model[:80]!r}, expected {name} or {name}:LAYER")
    try:
        return layer_weights(layers, n_layers)
    except ConfigError as error:
        raise RequestError(404, f"unknown model {model[:80]!r}: {error}") from error


def _encode_embeddings(
    vectors: NDArray[np.float32],
    body: schemas.OpenAIEmbeddingsBody,
    embedded: codec.EmbeddedTexts,
) -> Response:
    n_tokens = embedded.vectors.shape[1]
    usage = {"prompt_tokens": n_tokens, "total_tokens": n_tokens}
    rest = json.dumps({"object": "list", "model": body.model, "usage": usage})

    def blocks() -> Iterator[str]:
        yield f'{rest[:-1]}, "data": ['
        for index, row in enumerate(vectors):
            yield f'{", " if index else ""}{{"object": "embedding", "index": {index}, "embedding": '
            if body.encoding_format == "base64":
                yield f'"{base64.b64encode(row.astype("<f4")).decode()}"'
            else:
                yield from codec.encode_json(row)
            yield "}"
        yield "]}"

    return codec.respond_json(blocks(), vectors.size)


def _encode_all(embedded: codec.EmbeddedTexts) -> Response:
    def blocks() -> Iterator[str]:
        yield "["
        for number, vectors in enumerate(embedded.by_text()):
            yield ", " if number else ""
            yield from codec.encode_json(vectors[0])
        yield "]"

    return codec.respond_json(blocks(), embedded.vectors.size)
