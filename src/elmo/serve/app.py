"""The app: all routes of the server.

In: a `Service` (a model with its index and task models), settings, an optional token. Out: an ASGI
app with its middleware.
"""

import asyncio
import dataclasses
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from elmo import __version__
from elmo.errors import ElmoError
from elmo.inference.occurrence import Occurrence
from elmo.inference.results import Scored, ScoredSentence, layer_weights
from elmo.serve import codec, schemas
from elmo.serve.config import Limits, ServeConfig
from elmo.serve.metrics import CountRequests, Metrics
from elmo.serve.middleware import Guard, error_response
from elmo.serve.operations import EmbedItem, NeighborsItem, Service, SubstitutesItem
from elmo.serve.scheduler import RequestDispatcher
from elmo.text.tokenizer import Sentence

STATIC = Path(__file__).parent / "static"
ERRORS: dict[int | str, dict[str, Any]] = {
    status: {"model": schemas.ErrorResponse, "description": description}
    for status, description in {
        400: "The body cannot be parsed.",
        401: "A token is required.",
        404: "Not found, or not loaded by this server.",
        408: "The body was not received in time.",
        413: "Over a limit; the message names it.",
        421: "Unknown host name.",
        422: "The body is invalid; the message says where.",
        429: "Too many concurrent requests of this client.",
        503: "Too many concurrent requests, timeout, or shutting down.",
    }.items()
}
VECTORS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Vectors as JSON; or those of all tokens in one array, as .npy or as "
        "safetensors with the tokens in its metadata.",
        "content": {codec.NPY: {}, codec.SAFETENSORS: {}},
    },
    406: {"model": schemas.ErrorResponse, "description": "No supported encoding is accepted."},
}


def create_app(service: Service, config: ServeConfig, token: str | None = None) -> ASGIApp:
    """The server as an ASGI app."""
    metrics = Metrics()
    dispatcher = RequestDispatcher(service.operations(), config.limits, metrics)
    api = FastAPI(
        title="elmo",
        version=__version__,
        description="ELMo: contextual word vectors.",
        docs_url=None,  # FastAPI's page loads its scripts from a CDN
        redoc_url=None,
        lifespan=dispatcher.run,
    )
    _add_pages(api)
    _add_embedding(api, service, dispatcher, config.limits)
    _add_probabilities(api, dispatcher, config.limits)
    _add_status(api, service, metrics, config.limits)
    _add_error_handlers(api)
    if config.allow_origins:
        api.add_middleware(
            CORSMiddleware,
            allow_origins=config.allow_origins,
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
        )
    return CountRequests(Guard(api, config, token), metrics)


def _add_pages(api: FastAPI) -> None:
    @api.get("/", include_in_schema=False)
    async def explorer() -> Response:
        return FileResponse(STATIC / "index.html")

    @api.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return FileResponse(STATIC / "docs.html")

    api.mount("/static", StaticFiles(directory=STATIC))


def _add_status(api: FastAPI, service: Service, metrics: Metrics, limits: Limits) -> None:
    description = _describe_service(service, limits)

    @api.get("/info", response_model=schemas.InfoResponse, responses=_errors(401, 421))
    async def info() -> Response:
        """The model, what is loaded for it, and the limits."""
        return JSONResponse(description)

    @api.get("/health", response_model=schemas.HealthResponse, responses=_errors(421))
    async def health() -> Response:
        """Whether the server is running."""
        return JSONResponse({"status": "ok"})

    @api.get("/metrics", responses=_errors(401, 421) | {200: {"content": {"text/plain": {}}}})
    async def prometheus() -> Response:
        """Metrics for Prometheus."""
        return Response(metrics.render(), media_type=CONTENT_TYPE_LATEST)


def _add_embedding(
    api: FastAPI, service: Service, dispatcher: RequestDispatcher, limits: Limits
) -> None:
    elmo, index = service.elmo, service.index

    @api.post("/embed", response_model=schemas.EmbedResponse, responses=ERRORS | VECTORS)
    async def embed(body: schemas.EmbedBody, request: Request) -> Response:
        """One vector per token of each text."""
        encoding = codec.choose_encoding(request.headers.get("accept", ""))
        weights = layer_weights(body.layers, elmo.n_layers)
        texts = await asyncio.to_thread(codec.split_texts, body.texts, limits)
        sentences = [sentence.tokens for text in texts for sentence in text]
        n_values = sum(map(len, sentences)) * len(weights) * elmo.output_dim
        codec.check_limit(limits, "max_vector_values", n_values, "numbers in the response")
        items = [EmbedItem(tokens, weights) for tokens in sentences]
        found = await dispatcher.submit(request, "embed", items, _sizes(sentences))
        nothing = np.empty((len(weights), 0, elmo.output_dim), np.float32)
        embedded = codec.EmbeddedTexts(
            texts, np.concatenate([nothing, *found], axis=1), has_layers=body.layers == "all"
        )
        return await asyncio.to_thread(codec.encode, embedded, encoding)

    @api.post("/neighbors", response_model=schemas.NeighborsResponse, responses=ERRORS)
    async def neighbors(body: schemas.NeighborsBody, request: Request) -> Response:
        """The nearest occurrences in the indexed text, and the nearest words without context."""
        occurrence = Occurrence(codec.split_sentence(body.sentence, limits), body.position)
        if index is not None:  # checked here: in a batch it would fail the other items too
            index.mix_weights(body.layers, any_word=body.any_word)
        item = NeighborsItem(occurrence, body.k, body.layers, body.any_word)
        sizes = _sizes([occurrence.tokens])
        (found,) = await dispatcher.submit(request, "neighbors", [item], sizes)
        return JSONResponse({"tokens": occurrence.tokens, **found.to_mapping()})

    @api.post("/predict/{task}", response_model=schemas.PredictResponse, responses=ERRORS)
    async def predict(task: str, body: schemas.TextsBody, request: Request) -> Response:
        """One label per token, by a task model."""
        texts = await asyncio.to_thread(codec.split_texts, body.texts, limits)
        sentences = [sentence.tokens for text in texts for sentence in text]
        sizes = _sizes(sentences)
        labels = iter(await dispatcher.submit(request, f"predict/{task}", sentences, sizes))
        return JSONResponse(
            {
                "texts": [
                    codec.describe(text)
                    | {"labels": [label for _ in text for label in next(labels)]}
                    for text in texts
                ]
            }
        )


def _add_probabilities(api: FastAPI, dispatcher: RequestDispatcher, limits: Limits) -> None:
    @api.post("/score", response_model=schemas.ScoreResponse, responses=ERRORS)
    async def score(body: schemas.TextsBody, request: Request) -> Response:
        """The log-probability of each word given the words before it, after it, and both."""
        texts = await asyncio.to_thread(codec.split_texts, body.texts, limits)
        sentences = [sentence.tokens for text in texts for sentence in text]
        found = await dispatcher.submit(request, "score", sentences, _sizes(sentences))
        return await asyncio.to_thread(_encode_scores, texts, found)

    @api.post("/substitutes", response_model=schemas.SubstitutesResponse, responses=ERRORS)
    async def substitutes(body: schemas.SubstitutesBody, request: Request) -> Response:
        """The most probable words at a position, given the words before and after it."""
        occurrence = Occurrence(codec.split_sentence(body.sentence, limits), body.position)
        item = SubstitutesItem(occurrence, body.k)
        sizes = _sizes([occurrence.tokens])
        (found,) = await dispatcher.submit(request, "substitutes", [item], sizes)
        words = [{"word": word.word, "log_probs": dict(word.log_probs)} for word in found]
        return JSONResponse({"tokens": occurrence.tokens, "substitutes": words})


def _add_error_handlers(api: FastAPI) -> None:
    """Every error has the same body."""

    @api.exception_handler(ElmoError)
    async def on_elmo_error(request: Request, error: ElmoError) -> Response:
        return error_response(422, str(error))

    @api.exception_handler(RequestValidationError)
    async def on_invalid_body(request: Request, error: RequestValidationError) -> Response:
        # The value is not repeated: it may be of any size, or not valid Unicode.
        problems = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:3]]
        return error_response(422, "; ".join(problems))

    @api.exception_handler(HTTPException)
    async def on_http_error(request: Request, error: HTTPException) -> Response:
        message = str(error.detail)
        if error.status_code == 400:
            message = "the body cannot be parsed, expected JSON in UTF-8"
        elif message == "Not Found":
            message = "no such path; see /docs"
        return error_response(error.status_code, message, error.headers)

    @api.exception_handler(Exception)
    async def on_failure(request: Request, error: Exception) -> Response:
        # uvicorn logs the traceback.
        return error_response(500, "internal error; see the log of the server")


def _encode_scores(texts: list[list[Sentence]], found: list[ScoredSentence]) -> Response:
    remaining = iter(found)
    scored = [
        Scored([dataclasses.replace(next(remaining), offsets=s.offsets or None) for s in text])
        for text in texts
    ]
    return JSONResponse({"texts": [text.to_mapping() for text in scored]})


def _describe_service(service: Service, limits: Limits) -> dict[str, Any]:
    vocabulary, bilm = service.elmo.model.vocabulary, service.elmo.bilm
    return {
        "version": __version__,
        "model": service.name,
        "layers": service.elmo.n_layers,
        "output_dim": service.elmo.output_dim,
        "directions": list(bilm.config.directions),
        "parameters": sum(parameter.numel() for parameter in bilm.parameters()),
        "words": len(vocabulary) if vocabulary is not None and service.has_head else None,
        "indexed_tokens": None if service.index is None else len(service.index),
        "tasks": sorted(service.tasks or {}),
        "limits": dataclasses.asdict(limits),
    }


def _errors(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: ERRORS[status] for status in statuses}


def _sizes(sentences: Sequence[Sequence[str]]) -> list[int]:
    """The number of tokens of each sentence with its two boundary markers."""
    return [len(tokens) + 2 for tokens in sentences]
