"""Doors: the paths of other vendors' APIs. What a client sends there is forwarded, unless it is meant for the engine.

A request to `/v1/responses` is the engine's if it has fields of Lamella, names a conversation (`conversation`, or
the header `X-Conversation-Id`; `new` begins one), goes on from a response of the engine, or names no model.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from fastapi import FastAPI
from starlette.requests import Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lamella.app.app import App
from lamella.core.errors import LamellaError, NotFound
from lamella.core.json import Json
from lamella.gateway.dialects import Dialect
from lamella.gateway.errors import error_body
from lamella.gateway.relay import Gateway, Sent, fields_of, read_body
from lamella.server.routes import responses
from lamella.server.routes.responses import CONVERSATION_HEADER, RESPONSE, TURN

RESPONSES = "/v1/responses"

RECORDED = {
    "/v1/messages": Gateway(Dialect.MESSAGES),
    "/v1/chat/completions": Gateway(Dialect.CHAT),
}
FORWARDED = {
    "/v1/messages/count_tokens": Gateway(Dialect.MESSAGES, "/count_tokens"),
    "/v1/responses/input_tokens": Gateway(Dialect.RESPONSES, "/input_tokens"),
    "/v1/responses/compact": Gateway(Dialect.RESPONSES, "/compact"),
    "/v1/embeddings": Gateway(Dialect.EMBEDDINGS, records=False),
}
ASTRAY = {
    "/messages": Dialect.MESSAGES,
    "/v1/v1/messages": Dialect.MESSAGES,
    "/chat/completions": Dialect.CHAT,
    "/responses": Dialect.RESPONSES,
}
"""Where a client asks whose base URL has one `/v1` too few or too many: its libraries differ in who adds it."""

PATHS = "|".join((*RECORDED, *FORWARDED, RESPONSES))
"""Where bodies may be as long as vendors take them."""


class ResponsesDoor:
    """`POST /v1/responses`: to the engine's route, or on to the upstream."""

    def __init__(self, engine: Route) -> None:
        self._engine = engine
        self._gateway = Gateway(Dialect.RESPONSES)

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            body = await read_body(request)
            fields = fields_of(body)
            is_ours = await _is_ours(request, fields, scope["state"]["lamella"])
        except LamellaError as error:
            await Sent(send).refuse(Dialect.RESPONSES, error)
            return
        again = _again(body, receive)
        if not is_ours:
            await self._gateway(scope, again, send)
            return
        _, child = self._engine.matches(scope)
        scope.update(child)
        await self._engine.handle(scope, again, send)


async def _is_ours(request: Request, fields: Mapping[str, Json], app: App) -> bool:
    """Whether a request is the engine's to answer."""
    metadata = fields.get("metadata")
    if isinstance(metadata, Mapping) and any(name.startswith("lamella.") for name in metadata):
        return True
    if "lamella" in fields or fields.get("conversation") is not None or fields.get("model") is None:
        return True
    previous = fields.get("previous_response_id")
    if isinstance(previous, str) and previous.startswith(RESPONSE):
        caller = request.scope["state"]["identity"].caller
        try:
            await app.store.turns.turn(caller, TURN + previous.removeprefix(RESPONSE))
        except NotFound:
            return False
        return True
    return CONVERSATION_HEADER in request.headers


def _again(body: bytes, receive: Receive) -> Receive:
    """Gives a body that was read already, then what else comes."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receiving() -> Message:
        return waiting.pop() if waiting else await receive()

    return receiving


async def _models(request: Request) -> JSONResponse:
    """The models to choose from, in one list that the libraries of both vendors read."""
    app: App = request.scope["state"]["lamella"]
    names = list(dict.fromkeys([*app.gateway.names, *app.models.names()]))
    data: list[dict[str, Any]] = [
        {
            "id": name,
            "object": "model",
            "type": "model",
            "display_name": name,
            "created": 0,
            "created_at": "1970-01-01T00:00:00Z",
            "owned_by": "lamella",
        }
        for name in names
    ]
    found = re.fullmatch(r"/v1/models/(.+)", request.url.path)
    if found is None:
        ends = {"first_id": names[0] if names else None, "last_id": names[-1] if names else None}
        return JSONResponse({"object": "list", "data": data, "has_more": False, **ends})
    one = next((model for model in data if model["id"] == found[1]), None)
    if one is None:
        raise NotFound(f"There is no model “{found[1][:80]}”.", param="model")
    return JSONResponse(one)


async def _astray(request: Request) -> Response:
    path = request.url.path
    right = f"/v1/{path.removeprefix('/v1/v1/').removeprefix('/')}"
    many = path.startswith("/v1/")
    error = NotFound(f"There is no {path} here, but {right}: the base URL has one /v1 too {'many' if many else 'few'}.")
    return Response(error_body(ASTRAY[path], error), 404, media_type="application/json")


async def _no_socket(request: Request) -> JSONResponse:
    """Codex asks for a WebSocket first. After this answer it uses HTTP; after any other it asks five times more."""
    if request.headers.get("upgrade", "").lower() != "websocket":
        return JSONResponse({"error": {"message": "Method Not Allowed"}}, 405, {"allow": "POST"})
    told = {"message": "Use HTTP: there are no WebSockets here.", "type": "invalid_request_error"}
    return JSONResponse({"error": told}, 426, {"upgrade": "HTTP/1.1"})


def add_doors(api: FastAPI) -> None:
    """Put the doors in front of the routes of the application."""
    [engine] = (route for route in responses.router.routes if isinstance(route, Route) and route.path == RESPONSES)
    doors: dict[str, ASGIApp] = {**RECORDED, **FORWARDED, RESPONSES: ResponsesDoor(engine)}
    for path, door in doors.items():
        api.router.routes.insert(0, Route(path, door, methods=["POST"]))
    for path in ASTRAY:
        api.router.routes.insert(0, Route(path, _astray, methods=["POST"]))
    api.router.routes.insert(0, Route(RESPONSES, _no_socket, methods=["GET"]))
    for path in ("/v1/models", "/v1/models/{name:path}"):
        api.router.routes.insert(0, Route(path, _models, methods=["GET"]))
