"""The routes of the API under /api/.

In: validated request bodies. Out: responses with the results of the model's thread.
Shapes: K chosen layers or mixes, N tokens of all texts, D width.
"""

import asyncio
import dataclasses
import json
import re
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from fastapi import APIRouter, Request
from fastapi.routing import APIRoute
from numpy.typing import NDArray
from starlette.responses import JSONResponse, Response

from elmo import __version__
from elmo.inference.occurrence import Occurrence
from elmo.inference.results import Scored, ScoredSentence, layer_weights
from elmo.serve import codec, schemas
from elmo.serve.config import Limits
from elmo.serve.middleware import RequestError
from elmo.serve.operations import EmbedItem, NeighborsItem, Service, SubstitutesItem
from elmo.serve.predictions import PAIR_KINDS, describe_pair, describe_text, read_examples
from elmo.serve.scheduler import RequestDispatcher
from elmo.text.inputs import Text
from elmo.text.tokenizer import Sentence

# As FastAPI decides it.
JSON_TYPE = re.compile(r"application/([^/]+\+)?json", re.IGNORECASE)
Responses = dict[int | str, dict[str, Any]]
ERRORS: Responses = {
    status: {"model": schemas.ErrorResponse, "description": description}
    for status, description in {
        400: "The body cannot be parsed.",
        401: "A token is required.",
        404: "Not found, or not loaded by this server.",
        408: "The body was not received in time.",
        413: "Over a limit; the message names it.",
        415: "The body is not declared as JSON.",
        421: "Unknown host name.",
        422: "The body is invalid; the message says where.",
        429: "Too many concurrent requests of this client.",
        503: "Too many concurrent requests, timeout, or shutting down.",
    }.items()
}
VECTORS: Responses = {
    200: {
        "description": "Vectors as JSON; or those of all tokens in one array, as .npy or as "
        "safetensors with the tokens in its metadata.",
        "content": {codec.NPY: {}, codec.SAFETENSORS: {}},
    },
    406: {"model": schemas.ErrorResponse, "description": "No supported encoding is accepted."},
}


def errors(*statuses: int) -> Responses:
    """The OpenAPI descriptions of these error responses."""
    return {status: ERRORS[status] for status in statuses}


@dataclass(frozen=True)
class Backend:
    """The service, dispatcher and limits that every route uses."""

    service: Service
    dispatcher: RequestDispatcher
    limits: Limits

    async def split(self, texts: Sequence[Text]) -> list[list[Sentence]]:
        """The sentences of each text; a long text does not block the event loop."""
        return await asyncio.to_thread(codec.split_texts, texts, self.limits)

    async def locate(self, body: schemas.SubstitutesBody) -> Occurrence:
        """The word in its sentence that a request refers to."""
        tokens = await asyncio.to_thread(codec.split_sentence, body.sentence, self.limits)
        return Occurrence(tokens, body.position)

    async def run(
        self,
        request: Request,
        operation: str,
        items: Sequence[Any],
        sentences: Sequence[Sequence[str]],
    ) -> list[Any]:
        """Run an operation on items, each about one sentence."""
        lengths = [len(tokens) + 2 for tokens in sentences]  # with two boundary markers
        return await self.dispatcher.submit(request, operation, items, lengths)

    async def embed(
        self, request: Request, texts: Sequence[Text], weights: NDArray[np.float32]
    ) -> codec.EmbeddedTexts:
        """The vectors of all tokens, for weights (K, L+1)."""
        split = await self.split(texts)
        sentences = [sentence.tokens for text in split for sentence in text]
        output_dim = self.service.elmo.output_dim
        n_values = sum(map(len, sentences)) * len(weights) * output_dim
        codec.check_limit(self.limits, "max_vector_values", n_values, "numbers in the vectors")
        items = [EmbedItem(tokens, weights) for tokens in sentences]
        found = await self.run(request, "embed", items, sentences)
        nothing = np.empty((len(weights), 0, output_dim), np.float32)
        vectors = await asyncio.to_thread(np.concatenate, [nothing, *found], axis=1)  # (K, N, D)
        return codec.EmbeddedTexts(split, vectors)


class LimitedRoute(APIRoute):
    """A route that checks the type and the counts of a JSON body before it is validated."""

    def get_route_handler(self) -> Callable[[Request], Coroutine[Any, Any, Response]]:
        handle = super().get_route_handler()

        async def handle_limited(request: Request) -> Response:
            limited = LimitedRequest(request.scope, request.receive)
            if await limited.body():
                _check_is_json(request.headers.get("content-type", ""))
            return await handle(limited)

        return handle_limited


def _check_is_json(content_type: str) -> None:
    if not JSON_TYPE.fullmatch(content_type.partition(";")[0].strip()):
        found = f"Content-Type is {content_type[:80]}" if content_type else "no Content-Type"
        raise RequestError(415, f"{found}, expected application/json")


class LimitedRequest(Request):
    """A request whose body is parsed outside of the event loop and checked for its counts."""

    async def json(self) -> Any:  # noqa: ANN401 - any JSON value
        value = await asyncio.to_thread(json.loads, await self.body())
        codec.check_counts(value, self.app.state.limits)
        return value


def embedding_routes(backend: Backend) -> APIRouter:
    """Routes for vectors, nearest neighbors and task predictions."""
    router = APIRouter(prefix="/api", tags=["elmo"], route_class=LimitedRoute)
    service = backend.service

    @router.post("/embed", response_model=schemas.EmbedResponse, responses=ERRORS | VECTORS)
    async def embed(body: schemas.EmbedBody, request: Request) -> Response:
        """One vector per token of each text."""
        encoding = codec.choose_encoding(request.headers.get("accept", ""))
        weights = layer_weights(body.layers, service.elmo.n_layers)
        embedded = await backend.embed(request, body.texts, weights)
        has_layers = body.layers == "all"
        return await asyncio.to_thread(codec.encode, embedded, encoding, has_layers=has_layers)

    @router.post("/neighbors", response_model=schemas.NeighborsResponse, responses=ERRORS)
    async def neighbors(body: schemas.NeighborsBody, request: Request) -> Response:
        """The nearest occurrences in the indexed text, and the nearest words without context."""
        occurrence = await backend.locate(body)
        if service.index is not None:  # checked now: in a batch, an error would affect other items
            service.index.mix_weights(body.layers, any_word=body.any_word)
        item = NeighborsItem(occurrence, body.k, body.layers, body.any_word)
        (found,) = await backend.run(request, "neighbors", [item], [occurrence.tokens])
        return JSONResponse({"tokens": occurrence.tokens, **found.to_mapping()})

    @router.post("/predict/{task}", response_model=schemas.PredictResponse, responses=ERRORS)
    async def predict(task: str, body: schemas.PredictBody, request: Request) -> Response:
        """Predictions of a task model for `texts`, or for `pairs` (nli, squad)."""
        return JSONResponse(await _predict(backend, request, task, body))

    return router


def probability_routes(backend: Backend) -> APIRouter:
    """Routes for the probabilities of words."""
    router = APIRouter(prefix="/api", tags=["elmo"], route_class=LimitedRoute)

    @router.post("/score", response_model=schemas.ScoreResponse, responses=ERRORS)
    async def score(body: schemas.TextsBody, request: Request) -> Response:
        """The log-probability of each word given the words before it, after it, and both."""
        texts = await backend.split(body.texts)
        sentences = [sentence.tokens for text in texts for sentence in text]
        found = await backend.run(request, "score", sentences, sentences)
        return await asyncio.to_thread(_encode_scores, texts, found)

    @router.post("/substitutes", response_model=schemas.SubstitutesResponse, responses=ERRORS)
    async def substitutes(body: schemas.SubstitutesBody, request: Request) -> Response:
        """The words that fit a position best, given the words before and after it."""
        occurrence = await backend.locate(body)
        item = SubstitutesItem(occurrence, body.k)
        (found,) = await backend.run(request, "substitutes", [item], [occurrence.tokens])
        words = [dataclasses.asdict(substitute) for substitute in found]
        return JSONResponse({"tokens": occurrence.tokens, "substitutes": words})

    @router.get("/info", response_model=schemas.InfoResponse, responses=errors(401, 421))
    async def info() -> Response:
        """The model, what is loaded for it, and the limits."""
        return JSONResponse(_describe_service(backend.service, backend.limits))

    return router


async def _predict(
    backend: Backend, request: Request, name: str, body: schemas.PredictBody
) -> dict[str, Any]:
    task = (backend.service.tasks or {}).get(name)
    if task is None:
        message = f"predict/{name} is not available; see /api/info for what is loaded"
        raise RequestError(404, message)
    expected = "pairs" if task.kind in PAIR_KINDS else "texts"
    if body.model_fields_set != {expected}:
        given = ", ".join(sorted(body.model_fields_set)) or "nothing"
        message = f"the body has {given}, expected only {expected} for task {name}"
        raise RequestError(422, message)
    texts = await backend.split(body.texts or [side for pair in body.pairs for side in pair])
    examples = await asyncio.to_thread(read_examples, task, texts, body.pairs)
    items = [example for some in examples for example in some]
    lengths = [task.length(example) for example in items]
    # The cost of an example may grow faster than its length.
    longest = max(lengths, default=0)
    codec.check_limit(backend.limits, "max_sentence_tokens", longest, "tokens in an example")
    operation = f"predict/{name}"
    found = await backend.dispatcher.submit(request, operation, items, [n + 2 for n in lengths])
    if body.pairs:
        return {"pairs": [describe_pair(prediction) for prediction in found]}
    remaining = iter(found)
    described = [
        codec.describe(text) | describe_text(task.kind, [next(remaining) for _ in some])
        for text, some in zip(texts, examples, strict=True)
    ]
    return {"texts": described}


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
        "tasks": {name: task.kind for name, task in sorted((service.tasks or {}).items())},
        "limits": dataclasses.asdict(limits),
    }
