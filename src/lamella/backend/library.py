"""Lamella as a library: the same app and backend as the server's, without a door.

async with open_library(read_settings(data=folder)) as lamella:
    turn = await lamella.run(ExecutionRequest(text="What is a layout?"))
    print(turn.run.answer)
    for request in await lamella.maps(turn.id):
        print(request.why.text)
"""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

from lamella.app.app import open_app
from lamella.backend.backend import Backend, RequestMap
from lamella.backend.blocks import Blocks
from lamella.backend.registration import registered_blocks
from lamella.core.execution import ExecutionRequest
from lamella.settings import Settings, read_settings

__all__ = ["Backend", "ExecutionRequest", "RequestMap", "open_library", "read_settings"]


@asynccontextmanager
async def open_library(settings: Settings, *, blocks: Blocks | None = None, **parts: Any) -> AsyncIterator[Backend]:
    """The backend over a data folder, which no server may have open; without `blocks`, with the registered providers.

    `parts` are what `open_app` takes beside the settings, such as models or tools of one's own. Raises
    `ConfigurationError`.
    """
    found = registered_blocks(settings) if blocks is None else blocks
    async with open_app(settings, **parts) as app:
        yield Backend(app, found)
