"""The ASGI application: all wires and the admin calls over one simulator."""

from __future__ import annotations

from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route

from lamella_simulator.admin import AdminRoutes, Unfit, unfit
from lamella_simulator.anthropic.routes import AnthropicRoutes
from lamella_simulator.embeddings.routes import EmbeddingsRoutes
from lamella_simulator.openai.routes import OpenAIRoutes
from lamella_simulator.responses.routes import ResponsesRoutes
from lamella_simulator.settings import Settings
from lamella_simulator.state import Simulator


def create_app(settings: Settings | None = None) -> Starlette:
    """A fresh simulator with its own cache, clock and scripts."""
    return app_of(Simulator(settings or Settings()))


def app_of(simulator: Simulator) -> Starlette:
    """The application over a simulator that is there already."""
    anthropic, openai, admin = AnthropicRoutes(simulator), OpenAIRoutes(simulator), AdminRoutes(simulator)
    responses, embeddings = ResponsesRoutes(simulator), EmbeddingsRoutes(simulator)

    async def models(http: Request) -> Response:
        return await (anthropic if "anthropic-version" in http.headers else openai).models(http)

    return Starlette(
        routes=[
            Route("/v1/messages", anthropic.messages, methods=["POST"]),
            Route("/v1/messages/count_tokens", anthropic.count_tokens, methods=["POST"]),
            Route("/v1/chat/completions", openai.chat, methods=["POST"]),
            Route("/v1/responses", responses.responses, methods=["POST"]),
            Route("/v1/responses/compact", responses.compact, methods=["POST"]),
            Route("/v1/responses/input_tokens", responses.input_tokens, methods=["POST"]),
            Route("/v1/embeddings", embeddings.embeddings, methods=["POST"]),
            Route("/v1/models", models),
            Route("/_sim/replies", admin.replies, methods=["POST"]),
            Route("/_sim/faults", admin.faults, methods=["GET", "POST"]),
            Route("/_sim/prices", admin.prices, methods=["GET", "POST"]),
            Route("/_sim/clock", admin.clock, methods=["GET", "POST"]),
            Route("/_sim/ledger", admin.ledger),
            Route("/_sim/requests", admin.requests),
            Route("/_sim/settings", admin.settings, methods=["GET", "POST"]),
            Route("/_sim/reset", admin.reset, methods=["POST"]),
        ],
        exception_handlers={Unfit: unfit, HTTPException: absent},
    )


async def absent(http: Request, error: Exception) -> Response:
    """A path or a method that there is not, in the shape that the SDKs of the asker show."""
    if not isinstance(error, HTTPException):
        raise error
    paths = [str(getattr(route, "path", "")) for route in http.app.routes]
    admin = http.url.path.startswith("/_sim/")
    known = ", ".join(path for path in paths if path.startswith("/_sim/") == admin)
    message = f"{http.method} {http.url.path} is not simulated. There are {known}"
    if error.status_code == 405:
        message = f"{http.url.path} takes {(error.headers or {}).get('Allow', '')}, not {http.method}"
    body: dict[str, Any] = {"error": message}
    if not admin:
        body = {"type": "error", "error": {"type": "not_found_error", "message": message, "code": None, "param": None}}
    return JSONResponse(body, status_code=error.status_code, headers=error.headers)
