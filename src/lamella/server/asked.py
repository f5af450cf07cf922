"""What routes ask for: the app, who is calling, a page of a list, a key. And the prefix of the native API."""

from __future__ import annotations

from typing import Annotated

from fastapi import Depends, Header, Query, Request

from lamella.app.app import App
from lamella.core.access import Identity, Role
from lamella.core.errors import PermissionDenied
from lamella.core.records import Caller, PageQuery
from lamella.server.entrance import identity_of
from lamella.server.schemas import PageParameters

PREFIX = "/api/v1"


async def _app(request: Request) -> App:
    app: App = request.state.lamella
    return app


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
TheCaller = Annotated[Caller, Depends(_caller)]
TheIdentity = Annotated[Identity, Depends(_identity)]
TheAdmin = Annotated[Identity, Depends(_admin)]
ThePage = Annotated[PageQuery, Depends(_page)]
IdempotencyKey = Annotated[str | None, Header(alias="Idempotency-Key", max_length=200)]
