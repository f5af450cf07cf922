"""The native API as the terminal uses it: of the server that holds a data folder, else of the app in this process.

Every command of the terminal speaks HTTP. If no server runs over the folder, the requests go to the same routes without
a socket (`own_server.py`), so a message is the same by either way:

    async with open_api(read_settings()) as api:
        conversation = await api.conversation()
        async for packet in api.send(conversation, "What is a tide?", timezone="Europe/Berlin"):
            ...
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from importlib import import_module
from pathlib import Path

import httpx2

from lamella.client import Client, refusal
from lamella.core.errors import ConfigurationError
from lamella.settings import Settings

ADDRESS_FILE = "server.url"
"""File in the data folder: the address of the server that uses the folder."""

TOKEN_FILE = "first-run.token"
"""In the same folder, readable by its owner only, until accounts are set up: who can open the folder has all of it."""

NOTICES = 100
"""How many notices are asked for at once."""

LONGEST_REASON = 2_000
"""Characters of why a call was refused."""


async def _nothing_runs(conversation_id: str) -> None:
    """A server goes on without this process."""


class Api(Client):
    """The client, with what the terminal alone asks for.

    `settled` waits until no compaction of a conversation runs in this process: it would end with the process.
    """

    def __init__(self, http: httpx2.AsyncClient, settled: Callable[[str], Awaitable[None]] = _nothing_runs) -> None:
        super().__init__(http)
        self.wait_until_idle = settled

    async def forget(self, conversation_id: str) -> None:
        """Remove a conversation."""
        await self.ask("DELETE", f"/conversations/{conversation_id}")

    async def flush(self, conversation_id: str) -> None:
        """Wait no longer for more messages: answer those that wait."""
        await self.post(f"/conversations/{conversation_id}/queue/flush")

    async def notifications(self, conversation_id: str, after: str | None) -> tuple[str | None, list[str]]:
        """The texts of the notifications after the notice `after`, and the id of the newest notice."""
        query = {"limit": NOTICES, "order": "asc", "after": after} if after else {"limit": NOTICES, "order": "desc"}
        found = (await self.get(f"/conversations/{conversation_id}/commands", **query))["data"]
        newest = max((str(notice["id"]) for notice in found), default=after)
        return newest, [str(notice["text"]) for notice in found if notice["object"] == "notification"]

    async def usages(self) -> Mapping[str, str]:
        """How each command is typed, by its name."""
        found = (await self.get("/commands"))["data"]
        return {str(command["name"]): str(command["usage"]) for command in found}

    async def abort(self, conversation_id: str) -> None:
        """Stop what is answered, or about to be."""
        await self.post(f"/conversations/{conversation_id}/commands", {"text": "/abort"})

    async def approve(self, turn_id: str, call_id: str, *, approved: bool, reason: str = "") -> None:
        """See `Client.approve`; what is typed is cut to what the server takes."""
        await super().approve(turn_id, call_id, approved=approved, reason=reason[:LONGEST_REASON])

    async def passage(self, file_id: str, start: int, end: int) -> str:
        """A piece of a file's text."""
        found = await self.get(f"/files/{file_id}/text")
        return str(found["text"])[start:end]


def _with_key(settings: Settings) -> dict[str, str]:
    """The header of the key that the terminal asks with, if it has one."""
    return {} if settings.key is None else {"authorization": f"Bearer {settings.key.get_secret_value()}"}


async def _running_server(settings: Settings, stack: AsyncExitStack, *, as_nobody: bool) -> Api | None:
    """The server of this data folder, if one runs; raises what it says of a missing or wrong key."""
    address = settings.data / ADDRESS_FILE
    if not address.is_file():
        return None
    client = httpx2.AsyncClient(
        base_url=address.read_text().strip(),
        headers=_with_key(settings),
        timeout=httpx2.Timeout(120, connect=2),
        trust_env=False,
    )
    await stack.enter_async_context(client)
    try:
        answer = await client.get("/api/v1/status")
        status = answer.json()
    except (httpx2.HTTPError, ValueError):
        return None
    if answer.status_code in (401, 403) and "error" in status:
        if as_nobody:
            return Api(client)
        raise refusal(status["error"])
    return Api(client) if status.get("data_dir") == str(settings.data) else None


@asynccontextmanager
async def open_api(settings: Settings, *, as_nobody: bool = False) -> AsyncIterator[Api]:
    """The API of the server that runs over this data folder, else of the app, opened here without a socket.

    `as_nobody` is for what may be asked without a key: a server that wants one is taken as it is.
    """
    async with AsyncExitStack() as stack:
        found = await _running_server(settings, stack, as_nobody=as_nobody)
        if found is not None:
            yield found
            return
        # A terminal that asks a running server does not wait until the whole engine is loaded.
        own = await asyncio.to_thread(import_module, "lamella.cli.own_server")
        yield Api(*await stack.enter_async_context(own.own_client(settings, _with_key(settings))))


@asynccontextmanager
async def announced(data: Path, url: str, token: str | None = None) -> AsyncIterator[None]:
    """Leave the server's address, and its first-run token, in the data folder while it runs."""
    address, secret = data / ADDRESS_FILE, data / TOKEN_FILE
    try:
        secret.unlink(missing_ok=True)
        if token is not None:
            secret.touch(mode=0o600)
            secret.write_text(token)
        address.write_text(url)
    except OSError as error:
        raise ConfigurationError(f"{error.filename} can't be written: {error.strerror}.") from error
    try:
        yield
    finally:
        address.unlink(missing_ok=True)
        secret.unlink(missing_ok=True)


def first_run_token(data: Path) -> str | None:
    """The token that the server of this data folder left there, if it did."""
    try:
        return (data / TOKEN_FILE).read_text()
    except OSError:
        return None
