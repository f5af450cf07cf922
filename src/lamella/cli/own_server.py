"""The server's API without a server: over the app, opened in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager

import httpx2

from lamella.app.app import open_app
from lamella.server.entrance import Entrance
from lamella.server.web import create_web
from lamella.settings import Settings


@asynccontextmanager
async def own_client(settings: Settings, headers: Mapping[str, str]) -> AsyncIterator[httpx2.AsyncClient]:
    """A client of the whole API, without a socket; `headers` go with each request."""
    async with open_app(settings) as app:
        transport = httpx2.ASGITransport(create_web(app, Entrance(app.accounts, holds_folder=True)))
        async with httpx2.AsyncClient(transport=transport, base_url="http://127.0.0.1", headers=headers) as client:
            yield client
