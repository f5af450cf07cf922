"""Shared parts of routes: dependencies, and writing their results.

A route of `api_router` returns an API object. Its type is in the description, and it is encoded without validation. A
route that returns a `Response` describes its content in `responses`.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import wraps
from typing import Annotated, Any

from fastapi import APIRouter, Depends, Header, Query, Request, Response
from fastapi.dependencies.utils import get_typed_return_annotation
from fastapi.routing import APIRoute

from lamella.app.app import App
from lamella.core.access import Identity, Role
from lamella.core.errors import PermissionDenied
from lamella.core.json import encode
from lamella.core.records import Caller, PageQuery
from lamella.server.authentication import identity_of
from lamella.server.frontends import Frontends
from lamella.server.objects import PREFIX, PageParameters

Endpoint = Callable[..., Awaitable[Any]]

Answers = dict[int | str, dict[str, Any]]
"""The types of a route's answers, by status and content type."""

JSON = "application/json"


async def _app(request: Request) -> App:
    app: App = request.state.lamella
    return app


async def _frontends(request: Request) -> Frontends:
    frontends: Frontends = request.state.frontends
    return frontends


async def _identity(request: Request) -> Identity:
    return identity_of(request)


async def _caller(request: Request) -> Caller:
    return identity_of(request).caller


async def _admin(request: Request) -> Identity:
    identity = identity_of(request)
    if identity.role is not Role.ADMIN:
        raise PermissionDenied("Only an admin may do this.", hint="Ask an admin of this server.")
    return identity


async def _page(parameters: Annotated[PageParameters, Query()]) -> PageQuery:
    return PageQuery(parameters.limit, parameters.after, parameters.order)


TheApp = Annotated[App, Depends(_app)]
TheFrontends = Annotated[Frontends, Depends(_frontends)]
TheCaller = Annotated[Caller, Depends(_caller)]
TheIdentity = Annotated[Identity, Depends(_identity)]
TheAdmin = Annotated[Identity, Depends(_admin)]
ThePage = Annotated[PageQuery, Depends(_page)]
IdempotencyKey = Annotated[str | None, Header(alias="Idempotency-Key", max_length=200)]


class ObjectRoute(APIRoute):
    """A route whose answers are described: `answers` has the type of each by its status and kind of content."""

    answers: Answers

    def __init__(
        self,
        path: str,
        endpoint: Endpoint,
        *,
        status_code: int | None = None,
        responses: Answers | None = None,
        **options: Any,
    ) -> None:
        status = status_code or 200
        self.answers = responses or {}
        if not responses and status != 204:
            self.answers = {status: {JSON: get_typed_return_annotation(endpoint)}}
            endpoint = _written(endpoint, status)
        elif status == 204:
            self.answers = {204: {}}
        super().__init__(path, endpoint, status_code=status_code, **options | {"response_model": None})


def _written(endpoint: Endpoint, status: int) -> Endpoint:
    """The endpoint with its result encoded."""

    @wraps(endpoint)
    async def written(**asked: Any) -> Response:
        return Response(encode(await endpoint(**asked)), status, media_type=JSON)

    return written


def api_router(prefix: str = PREFIX) -> APIRouter:
    """A router for such routes."""
    return APIRouter(prefix=prefix, route_class=ObjectRoute)
