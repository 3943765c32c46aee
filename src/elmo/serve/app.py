"""The app: every address of the server, each a few lines between a body and the model's thread.

In: a `Service` (a model and what was loaded beside it), the settings, a token perhaps. Out: an ASGI
app, guarded and counted.
"""

import asyncio
import dataclasses
from collections.abc import Sequence
from typing import Any

import numpy as np
from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import JSONResponse, Response
from starlette.types import ASGIApp

from elmo import __version__
from elmo.errors import ElmoError
from elmo.inference.occurrence import Occurrence
from elmo.inference.results import Scored, ScoredSentence, layer_weights
from elmo.serve import bodies, encoding
from elmo.serve.desk import Desk
from elmo.serve.guard import Guard, Refusal
from elmo.serve.intake import TooLargeError, cut_sentence, cut_texts, refuse_over
from elmo.serve.metrics import CountRequests, Metrics
from elmo.serve.operations import Embedding, Expectation, Neighborhood, Service
from elmo.serve.page import Page
from elmo.serve.serve_config import ServeConfig
from elmo.text.tokenizer import Sentence

REFUSALS: dict[int | str, dict[str, Any]] = {
    status: {"model": bodies.ErrorAnswer, "description": description}
    for status, description in {
        400: "The body cannot be parsed.",
        401: "A token is needed.",
        404: "Nothing of that name is served here.",
        408: "The body did not come in time.",
        413: "Over a limit; the message names it.",
        421: "Called by a name that is not this machine's.",
        422: "The body is not what is expected; the message says where.",
        429: "Too many requests from this address at a time.",
        503: "Too many requests in all, out of time, or stopping.",
    }.items()
}
VECTORS: dict[int | str, dict[str, Any]] = {
    200: {
        "description": "Vectors as JSON; or those of all tokens in one array, as .npy or as "
        "safetensors, whose metadata tell the tokens.",
        "content": {encoding.NPY: {}, encoding.SAFETENSORS: {}},
    },
    406: {"model": bodies.ErrorAnswer, "description": "No encoding of ours is accepted."},
}


def create_app(service: Service, config: ServeConfig, token: str | None = None) -> ASGIApp:
    """The whole server as an ASGI app."""
    metrics = Metrics()
    desk = Desk(service, config.limits, metrics)
    api = FastAPI(
        title="elmo",
        version=__version__,
        description="ELMo: one vector per word that changes with its context.",
        docs_url=None,  # FastAPI's page loads its scripts from elsewhere; ours is static/docs.html
        redoc_url=None,
        lifespan=desk.open,
    )
    _add_page(api)
    _add_embedding(api, desk)
    _add_probabilities(api, desk)
    _add_facts(api, desk, metrics)
    _add_errors(api)
    if config.allow_origins:
        api.add_middleware(
            CORSMiddleware,
            allow_origins=config.allow_origins,
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type"],
        )
    return CountRequests(Guard(api, config, token), metrics)


def _add_page(api: FastAPI) -> None:
    page = Page()

    @api.get("/", include_in_schema=False)
    async def explorer() -> Response:
        return page.answer("index.html")

    @api.get("/docs", include_in_schema=False)
    async def docs() -> Response:
        return page.answer("docs.html")

    @api.get("/static/{name}", include_in_schema=False)
    async def static(name: str) -> Response:
        return page.answer(name)


def _add_facts(api: FastAPI, desk: Desk, metrics: Metrics) -> None:
    facts = _describe_service(desk)

    @api.get("/info", response_model=bodies.InfoAnswer, responses=_refusals(401, 421))
    async def info() -> Response:
        """What is served, and how much of it at a time."""
        return JSONResponse(facts)

    @api.get("/health", response_model=bodies.HealthAnswer, responses=_refusals(421))
    async def health() -> Response:
        """Whether the server lives."""
        return JSONResponse({"status": "ok"})

    @api.get("/metrics", responses=_refusals(401, 421) | {200: {"content": {"text/plain": {}}}})
    async def prometheus() -> Response:
        """What the server has done so far, for Prometheus."""
        return Response(metrics.render(), media_type=CONTENT_TYPE_LATEST)


def _add_embedding(api: FastAPI, desk: Desk) -> None:
    elmo, index, limits = desk.service.elmo, desk.service.index, desk.limits

    @api.post("/embed", response_model=bodies.EmbedAnswer, responses=REFUSALS | VECTORS)
    async def embed(body: bodies.EmbedBody, request: Request) -> Response:
        """One vector for each token of each text."""
        answer = encoding.choose_encoding(request.headers.get("accept", ""))
        weights = layer_weights(body.layers, elmo.n_layers)
        texts = await asyncio.to_thread(cut_texts, body.texts, limits)
        sentences = [sentence.tokens for text in texts for sentence in text]
        n_values = sum(map(len, sentences)) * len(weights) * elmo.output_dim
        refuse_over(limits, "max_vector_values", n_values, "numbers to answer with")
        found = await desk.ask(
            request,
            "embed",
            [Embedding(tokens, weights) for tokens in sentences],
            _sizes(sentences),
        )
        nothing = np.empty((len(weights), 0, elmo.output_dim), np.float32)
        embedded = encoding.EmbeddedTexts(
            texts, np.concatenate([nothing, *found], axis=1), has_layers=body.layers == "all"
        )
        return await asyncio.to_thread(encoding.encode, embedded, answer)

    @api.post("/neighbors", response_model=bodies.NeighborsAnswer, responses=REFUSALS)
    async def neighbors(body: bodies.NeighborsBody, request: Request) -> Response:
        """Where the indexed text uses a word alike, and what is merely spelt alike."""
        occurrence = Occurrence(cut_sentence(body.sentence, limits), body.position)
        if index is not None:  # here, since in a batch it would refuse the others too
            index.mix_weights(body.layers, any_word=body.any_word)
        piece = Neighborhood(occurrence, body.k, body.layers, body.any_word)
        found = await desk.ask(request, "neighbors", [piece], _sizes([occurrence.tokens]))
        return JSONResponse({"tokens": occurrence.tokens, **found[0].to_mapping()})

    @api.post("/predict/{task}", response_model=bodies.PredictAnswer, responses=REFUSALS)
    async def predict(task: str, body: bodies.TextsBody, request: Request) -> Response:
        """A label for each token, by a task model that was loaded."""
        texts = await asyncio.to_thread(cut_texts, body.texts, limits)
        sentences = [sentence.tokens for text in texts for sentence in text]
        found = iter(await desk.ask(request, f"predict/{task}", sentences, _sizes(sentences)))
        return JSONResponse(
            {
                "texts": [
                    encoding.describe(text)
                    | {"labels": [label for _ in text for label in next(found)]}
                    for text in texts
                ]
            }
        )


def _add_probabilities(api: FastAPI, desk: Desk) -> None:
    limits = desk.limits

    @api.post("/score", response_model=bodies.ScoreAnswer, responses=REFUSALS)
    async def score(body: bodies.TextsBody, request: Request) -> Response:
        """How expected each word is, given all before it, all after it, and both."""
        texts = await asyncio.to_thread(cut_texts, body.texts, limits)
        sentences = [sentence.tokens for text in texts for sentence in text]
        found = await desk.ask(request, "score", sentences, _sizes(sentences))
        return await asyncio.to_thread(_answer_scores, texts, found)

    @api.post("/substitutes", response_model=bodies.SubstitutesAnswer, responses=REFUSALS)
    async def substitutes(body: bodies.SubstitutesBody, request: Request) -> Response:
        """The words that both sides of a place make one expect there, whatever stands there."""
        occurrence = Occurrence(cut_sentence(body.sentence, limits), body.position)
        piece = Expectation(occurrence, body.k)
        found = await desk.ask(request, "substitutes", [piece], _sizes([occurrence.tokens]))
        words = [
            {"word": word.word, "log_probabilities": dict(word.log_probabilities)}
            for word in found[0]
        ]
        return JSONResponse({"tokens": occurrence.tokens, "substitutes": words})


def _add_errors(api: FastAPI) -> None:
    """Every refusal has the same body: what was found, what was expected, what to do."""

    @api.exception_handler(Refusal)
    async def refuse(request: Request, error: Refusal) -> Response:
        return error.response

    @api.exception_handler(ElmoError)
    async def refuse_data(request: Request, error: ElmoError) -> Response:
        return JSONResponse({"error": str(error)}, 422)

    @api.exception_handler(TooLargeError)
    async def refuse_size(request: Request, error: TooLargeError) -> Response:
        return JSONResponse({"error": str(error)}, 413)

    @api.exception_handler(RequestValidationError)
    async def refuse_body(request: Request, error: RequestValidationError) -> Response:
        # What was found is not repeated: it may be of any size, or not even text.
        problems = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:3]]
        return JSONResponse({"error": "; ".join(problems)}, 422)

    @api.exception_handler(HTTPException)
    async def refuse_http(request: Request, error: HTTPException) -> Response:
        known = {
            400: "the body cannot be parsed, expected JSON in UTF-8; correct it",
            404: "nothing is served at this address; /docs tells what is",
        }
        message = known.get(error.status_code, str(error.detail))
        return JSONResponse({"error": message}, error.status_code, error.headers)

    @api.exception_handler(Exception)
    async def fail(request: Request, error: Exception) -> Response:
        # uvicorn logs the error itself.
        return JSONResponse({"error": "the server failed; its log tells why"}, 500)


def _answer_scores(texts: list[list[Sentence]], found: list[ScoredSentence]) -> Response:
    remaining = iter(found)
    answers = [
        Scored([dataclasses.replace(next(remaining), offsets=s.offsets or None) for s in text])
        for text in texts
    ]
    return JSONResponse({"texts": [answer.to_mapping() for answer in answers]})


def _describe_service(desk: Desk) -> dict[str, Any]:
    service = desk.service
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
        "limits": dataclasses.asdict(desk.limits),
    }


def _refusals(*statuses: int) -> dict[int | str, dict[str, Any]]:
    return {status: REFUSALS[status] for status in statuses}


def _sizes(sentences: Sequence[Sequence[str]]) -> list[int]:
    """What the model reads of each sentence: its tokens and two markers."""
    return [len(tokens) + 2 for tokens in sentences]
