"""The app: all routes with their middleware.

In: a `Service` (a model with its index and task models), settings, an optional token. Out: an ASGI
app.
"""

import mimetypes
from collections.abc import Callable
from pathlib import Path
from typing import Any

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from prometheus_client import CONTENT_TYPE_LATEST
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.responses import FileResponse, JSONResponse, Response
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from elmo import __version__
from elmo.errors import ElmoError
from elmo.serve import schemas
from elmo.serve.compatible import openai_routes, tei_routes
from elmo.serve.config import ServeConfig
from elmo.serve.metrics import Metrics, RequestMonitor
from elmo.serve.middleware import CONTENT_POLICY, Guard, RequestError, error_response
from elmo.serve.operations import Service
from elmo.serve.predictions import PAIR_KINDS
from elmo.serve.routes import Backend, embedding_routes, errors, probability_routes
from elmo.serve.scheduler import RequestDispatcher

STATIC = Path(__file__).parent / "static"
SWAGGER_UI = STATIC / "swagger-ui"
# Swagger UI uses inline styles, and data: URLs for its icons.
DOCS_POLICY = CONTENT_POLICY.replace("style-src 'self'", "style-src 'self' 'unsafe-inline'")
DOCS_POLICY = DOCS_POLICY.replace("img-src 'self'", "img-src 'self' data:")
# By file extension. Python takes them from the registry on Windows, where programs often replace
# that of .js; with `nosniff`, browsers refuse a script of another type.
MEDIA_TYPES = {
    ".css": "text/css",
    ".html": "text/html",
    ".js": "text/javascript",
    ".svg": "image/svg+xml",
}
READ_METHODS = ["GET", "HEAD"]
SWAGGER_UI_TYPES = {"swagger-ui.css": "text/css", "swagger-ui-bundle.js": "text/javascript"}


def create_app(
    service: Service,
    config: ServeConfig,
    token: str | None = None,
    is_draining: Callable[[], bool] = lambda: False,
) -> ASGIApp:
    """Create the ASGI app of the server; `/ready` answers 503 while `is_draining()` is true."""
    metrics = Metrics()
    dispatcher = RequestDispatcher(service.operations(), config.limits, metrics)
    backend = Backend(service, dispatcher, config.limits)
    api = FastAPI(
        title="elmo",
        version=__version__,
        description="ELMo: contextual word vectors. [Explorer](/)",
        docs_url=None,  # FastAPI's page loads its scripts from a CDN
        redoc_url=None,
        lifespan=dispatcher.run,
    )
    api.state.limits = config.limits
    api.include_router(embedding_routes(backend))
    api.include_router(probability_routes(backend))
    api.include_router(openai_routes(backend))
    api.include_router(tei_routes(backend))
    _add_status(api, metrics, is_draining)
    _add_pages(api)
    _add_error_handlers(api)
    _add_description(api, backend, needs_token=token is not None)
    app: ASGIApp = Guard(api, config, token)
    if config.allow_origins:  # around the guard: a preflight has no token, and errors need headers
        app = CORSMiddleware(
            app,
            allow_origins=config.allow_origins,
            allow_methods=["GET", "POST"],
            allow_headers=["*"],
            expose_headers=["X-Request-Id", "Retry-After"],
        )
    return RequestMonitor(app, metrics)


def _add_pages(api: FastAPI) -> None:
    for extension, media_type in MEDIA_TYPES.items():
        mimetypes.add_type(media_type, extension)

    @api.api_route("/", methods=READ_METHODS, include_in_schema=False)
    async def explorer() -> Response:
        return FileResponse(STATIC / "index.html")

    @api.api_route("/docs", methods=READ_METHODS, include_in_schema=False)
    async def docs() -> Response:
        return FileResponse(STATIC / "docs.html", headers={"Content-Security-Policy": DOCS_POLICY})

    @api.api_route("/static/swagger-ui/{name}", methods=READ_METHODS, include_in_schema=False)
    async def swagger_ui(name: str) -> Response:
        if name not in SWAGGER_UI_TYPES:
            raise RequestError(404, "no such path; see /docs")
        return FileResponse(
            SWAGGER_UI / f"{name}.gz",
            media_type=SWAGGER_UI_TYPES[name],
            headers={"Content-Encoding": "gzip"},
        )

    api.mount("/static", StaticFiles(directory=STATIC))


def _add_status(api: FastAPI, metrics: Metrics, is_draining: Callable[[], bool]) -> None:
    # OpenAPI needs no HEAD: it is defined as GET without the body.
    @api.head("/health", include_in_schema=False)
    @api.get(
        "/health", response_model=schemas.HealthResponse, responses=errors(421), tags=["status"]
    )
    async def health() -> Response:
        """Whether the server is running."""
        return JSONResponse({"status": "ok"})

    @api.head("/ready", include_in_schema=False)
    @api.get(
        "/ready", response_model=schemas.ReadyResponse, responses=errors(421, 503), tags=["status"]
    )
    async def ready() -> Response:
        """Whether to send requests to this server: 503 while it shuts down."""
        if is_draining():
            raise RequestError(503, "the server is shutting down")
        return JSONResponse({"status": "ready"})

    text: dict[int | str, dict[str, Any]] = {200: {"content": {"text/plain": {}}}}

    @api.head("/metrics", include_in_schema=False)
    @api.get("/metrics", responses=errors(401, 421) | text, tags=["status"])
    async def prometheus() -> Response:
        """Metrics for Prometheus."""
        return Response(metrics.render(), media_type=CONTENT_TYPE_LATEST)


def _add_error_handlers(api: FastAPI) -> None:
    """Register handlers that convert every error with `error_response`."""

    @api.exception_handler(ElmoError)
    async def on_elmo_error(request: Request, error: ElmoError) -> Response:
        return error_response(request.url.path, 422, str(error))

    @api.exception_handler(RequestValidationError)
    async def on_invalid_body(request: Request, error: RequestValidationError) -> Response:
        # The value is not repeated: it may be of any size, or not valid Unicode.
        problems = [f"{'.'.join(map(str, e['loc']))}: {e['msg']}" for e in error.errors()[:3]]
        return error_response(request.url.path, 422, "; ".join(problems))

    @api.exception_handler(HTTPException)
    async def on_http_error(request: Request, error: HTTPException) -> Response:
        message = str(error.detail)
        if error.status_code == 400:
            message = "the body cannot be parsed, expected JSON in UTF-8"
        elif message == "Not Found":
            message = "no such path; see /docs"
        return error_response(request.url.path, error.status_code, message, error.headers)

    @api.exception_handler(Exception)
    async def on_failure(request: Request, error: Exception) -> Response:
        # uvicorn logs the traceback.
        return error_response(request.url.path, 500, "internal error; see the log of the server")


def _add_description(api: FastAPI, backend: Backend, *, needs_token: bool) -> None:
    """Add the limits, layers and tasks of this server to /openapi.json."""

    def describe() -> dict[str, Any]:
        if api.openapi_schema is None:
            schema = get_openapi(
                title=api.title,
                version=api.version,
                description=api.description,
                routes=api.routes,
            )
            for name, model in schema["components"]["schemas"].items():
                if name.endswith("Body"):
                    fields = model["properties"]
                    for field, value in fields.items():
                        _describe_field(field, value, backend)
                    examples = {n: v["examples"][0] for n, v in fields.items() if "examples" in v}
                    model["examples"] = [examples]
            if backend.service.tasks:
                task = schema["paths"]["/api/predict/{task}"]["post"]["parameters"][0]["schema"]
                task["enum"] = sorted(backend.service.tasks)
                _describe_inputs(schema["components"]["schemas"]["PredictBody"], backend)
            if needs_token:
                schemes = {"token": {"type": "http", "scheme": "bearer"}}
                schema["components"]["securitySchemes"] = schemes
                schema["security"] = [{"token": []}]
            api.openapi_schema = schema
        return api.openapi_schema

    api.openapi = describe  # type: ignore[method-assign]


def _describe_inputs(body: dict[str, Any], backend: Backend) -> None:
    """Require `texts` or `pairs`, as the loaded tasks need; either if there are both kinds."""
    tasks = (backend.service.tasks or {}).values()
    names = sorted({"pairs" if task.kind in PAIR_KINDS else "texts" for task in tasks})
    body["properties"] = {name: body["properties"][name] for name in names}
    for value in body["properties"].values():
        value.pop("default", None)
    body["oneOf"] = [{"required": [name]} for name in names]


def _describe_field(field: str, value: dict[str, Any], backend: Backend) -> None:
    limits, n_layers = backend.limits, backend.service.elmo.n_layers
    if field == "position":
        value["maximum"] = limits.max_sentence_tokens - 1
    if field == "model":
        value["examples"] = [backend.service.name]
    for choice in [value, *value.get("anyOf", [])]:
        kind = choice.get("type")
        if field == "layers" and kind == "array":
            choice["minItems"] = choice["maxItems"] = n_layers
        elif field == "layers" and kind == "integer":
            choice["maximum"] = n_layers - 1
        elif kind == "array":
            is_sentence = field == "sentence"
            choice["maxItems"] = limits.max_sentence_tokens if is_sentence else limits.max_sentences
