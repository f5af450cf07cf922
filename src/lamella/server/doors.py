"""Doors: the paths of other vendors' APIs. What a client sends there is forwarded, unless it is meant for the engine.

A request that names an agent as its model (`agent:NAME`) is answered by that agent. Another request to `/v1/responses`
is the engine's if it has fields of Lamella, names a conversation (`conversation`, or the header `X-Conversation-Id`;
`new` begins one), goes on from a response of the engine, or names no model.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Mapping
from typing import Any
from urllib.parse import unquote

from fastapi import FastAPI
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from lamella.app.app import App
from lamella.core.errors import InvalidRequest, LamellaError, NotFound
from lamella.core.json import Json
from lamella.gateway.dialects import Dialect
from lamella.gateway.errors import ANTHROPIC_HEADER, error_body
from lamella.gateway.relay import Gateway, Sent, fields_of, read_body
from lamella.server.agent_door import answered, counted, is_agent, is_placed
from lamella.server.failures import check_text
from lamella.server.routes import responses
from lamella.server.routes.responses import CONVERSATION_HEADER, is_own

RESPONSES = "/v1/responses"

FORWARDED = {
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

MOST_MODELS = 1_000
"""The most models of one page."""

Answer = Callable[[Request, Dialect, bytes, Send], Awaitable[None]]


class Door:
    """A path at which an agent may be named as the model: to the agent, to `engine` if it is the engine's, or on to the
    upstream.
    """

    def __init__(self, gateway: Gateway, dialect: Dialect, by_agent: Answer, engine: Route | None = None) -> None:
        self._gateway, self._dialect, self._by_agent, self._engine = gateway, dialect, by_agent, engine

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request = Request(scope, receive)
        try:
            body = await read_body(request)
            fields = fields_of(body)
            by_agent = is_agent(fields.get("model"))
            engine = None if by_agent else self._engine
            if engine is not None and not _is_ours(request, fields):
                engine = None
            placed = self._by_agent is answered and self._engine is None and is_placed(request)
            if engine is not None or by_agent or placed:
                await check_text(body)  # what goes to an upstream is the upstream's to refuse
        except ClientDisconnect:
            return
        except LamellaError as error:
            await Sent(send).refuse(self._dialect, error)
            return
        if engine is not None:
            _, child = engine.matches(scope)
            scope.update(child)
            await engine.handle(scope, _again(body, receive), send)
        elif by_agent or placed:
            await self._by_agent(request, self._dialect, body, send)
        else:
            await self._gateway(scope, _again(body, receive), send)


def _doors(engine: Route) -> dict[str, Door]:
    """The doors of agents. `engine` is its route for responses."""
    messages, chat, responses = Dialect.MESSAGES, Dialect.CHAT, Dialect.RESPONSES
    return {
        "/v1/messages": Door(Gateway(messages), messages, answered),
        "/v1/chat/completions": Door(Gateway(chat), chat, answered),
        RESPONSES: Door(Gateway(responses), responses, answered, engine),
        "/v1/messages/count_tokens": Door(Gateway(messages, "/count_tokens"), messages, counted),
        "/v1/responses/input_tokens": Door(Gateway(responses, "/input_tokens"), responses, counted),
    }


[_ENGINE] = (route for route in responses.router.routes if isinstance(route, Route) and route.path == RESPONSES)
DOORS: Mapping[str, ASGIApp] = {**_doors(_ENGINE), **FORWARDED}

PATHS = "|".join(DOORS)
"""Where bodies may be as long as vendors take them."""


def _is_ours(request: Request, fields: Mapping[str, Json]) -> bool:
    """Whether a request is the engine's to answer."""
    metadata = fields.get("metadata")
    if isinstance(metadata, Mapping) and any(name.startswith("lamella.") for name in metadata):
        return True
    if "lamella" in fields or fields.get("conversation") is not None or fields.get("model") is None:
        return True
    previous = fields.get("previous_response_id")
    if isinstance(previous, str) and is_own(previous):
        return True
    return CONVERSATION_HEADER in request.headers


def _again(body: bytes, receive: Receive) -> Receive:
    """Gives a body that was read already, then what else comes."""
    waiting: list[Message] = [{"type": "http.request", "body": body, "more_body": False}]

    async def receiving() -> Message:
        return waiting.pop() if waiting else await receive()

    return receiving


async def _models(request: Request) -> JSONResponse:
    """The models to choose from, as objects that the libraries of both vendors read."""
    app: App = request.scope["state"]["lamella"]
    shown = {name: name for name in (*app.gateway.names, *app.models.names())}
    caller = request.scope["state"]["identity"].caller
    shown |= {one.name: one.agent.name for one in await app.agents.listed(caller)}
    found = re.fullmatch(r"/v1/models/(.+)", request.url.path)
    if found is not None:
        name = next((name for name in (found[1], unquote(found[1])) if name in shown), None)
        if name is None:
            raise NotFound(f"There is no model “{found[1][:80]}”.", param="model")
        return JSONResponse(_model(app, name, shown[name]))
    names, has_more = list(shown), False
    if ANTHROPIC_HEADER in request.headers:
        names, has_more = _page_of_models(request, names)
    ends = {"first_id": names[0] if names else None, "last_id": names[-1] if names else None}
    data = [_model(app, name, shown[name]) for name in names]
    return JSONResponse({"object": "list", "data": data, "has_more": has_more, **ends})


def _model(app: App, name: str, display_name: str) -> dict[str, Any]:
    facts = app.models.facts(name) if name in app.models.names() else None
    return {
        "id": name,
        "object": "model",
        "type": "model",
        "display_name": display_name,
        "created": 0,
        "created_at": "1970-01-01T00:00:00Z",
        "owned_by": "lamella",
        "lifecycle": "active",
        "max_input_tokens": facts.window if facts is not None else None,
        "max_tokens": facts.max_output if facts is not None else None,
    }


def _page_of_models(request: Request, names: list[str]) -> tuple[list[str], bool]:
    """The page that Anthropic's API asks for. Raises `InvalidRequest`."""
    limit = request.query_params.get("limit", "20")
    if not limit.isascii() or not limit.isdigit() or not 1 <= int(limit[:5]) <= MOST_MODELS:
        raise InvalidRequest(f"“limit” is a number from 1 to {MOST_MODELS}.", hint="Send one.", param="limit")
    first, last = 0, len(names)
    for param in ("after_id", "before_id"):
        named = request.query_params.get(param)
        if named is None:
            continue
        if named not in names:
            raise InvalidRequest(f"There is no model “{named[:80]}” in the list.", hint="Leave it out.", param=param)
        if param == "after_id":
            first = names.index(named) + 1
        else:
            last = names.index(named)
    within = names[first:last]
    is_backwards = "before_id" in request.query_params
    return (within[-int(limit) :] if is_backwards else within[: int(limit)]), len(within) > int(limit)


async def _astray(request: Request) -> Response:
    path = request.url.path
    right = f"/v1/{path.removeprefix('/v1/v1/').removeprefix('/')}"
    many = path.startswith("/v1/")
    error = NotFound(f"There is no {path} here, but {right}: the base URL has one /v1 too {'many' if many else 'few'}.")
    return Response(error_body(ASTRAY[path], error), 404, media_type="application/json")


async def _no_socket(request: Request) -> Response:
    """Codex asks for a WebSocket first. After this answer it uses HTTP; after any other it asks five times more."""
    if request.headers.get("upgrade", "").lower() != "websocket":
        error = InvalidRequest("Method Not Allowed.", hint="Send a response's request with POST.")
        return Response(error_body(Dialect.RESPONSES, error), 405, {"allow": "POST"}, media_type="application/json")
    told = {"message": "Use HTTP: there are no WebSockets here.", "type": "invalid_request_error"}
    return JSONResponse({"error": told}, 426, {"upgrade": "HTTP/1.1"})


def add_doors(api: FastAPI) -> None:
    """Put the doors in front of the routes of the application."""
    for path, door in DOORS.items():
        api.router.routes.insert(0, Route(path, door, methods=["POST"]))
    for path in ASTRAY:
        api.router.routes.insert(0, Route(path, _astray, methods=["POST"]))
    api.router.routes.insert(0, Route(RESPONSES, _no_socket, methods=["GET"]))
    for path in ("/v1/models", "/v1/models/{name:path}"):
        api.router.routes.insert(0, Route(path, _models, methods=["GET"]))
