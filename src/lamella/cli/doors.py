"""What the terminal asks of Lamella, by either way: a server that holds the data folder, or the app in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager

from lamella.cli.api import running_server
from lamella.cli.door import Door
from lamella.cli.remote_door import RemoteDoor
from lamella.settings import Settings


@asynccontextmanager
async def open_door(settings: Settings) -> AsyncIterator[Door]:
    """The server of this data folder if one runs, else the app itself."""
    async with AsyncExitStack() as stack:
        found = await running_server(settings, stack)
        if found:
            yield RemoteDoor(*found)
            return
        # Loaded here: who speaks to a server does not wait for the whole engine to be loaded beside it.
        from lamella.cli.local_door import open_local_door  # noqa: PLC0415

        yield await stack.enter_async_context(open_local_door(settings))
