"""The ASGI application: all wires and the admin calls over one simulator."""

from __future__ import annotations

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from lamella.simulator.admin import AdminRoutes
from lamella.simulator.anthropic.routes import AnthropicRoutes
from lamella.simulator.embeddings.routes import EmbeddingsRoutes
from lamella.simulator.openai.routes import OpenAIRoutes
from lamella.simulator.responses.routes import ResponsesRoutes
from lamella.simulator.settings import Settings
from lamella.simulator.state import Simulator


def create_app(settings: Settings | None = None) -> Starlette:
    """A fresh simulator with its own cache, clock and scripts."""
    simulator = Simulator(settings or Settings())
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
        ]
    )
