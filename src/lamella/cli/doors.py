"""Two ways to the same conversations: the app in this process, or a server that already holds the data folder."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import httpx2

from lamella.app.app import LOCAL_OWNER, App, open_app
from lamella.app.demonstration import NOTICE
from lamella.chat import Message
from lamella.core.errors import ConfigurationError, InvalidRequest, LamellaError
from lamella.core.packets import AnyPacket, decode_packet
from lamella.settings import Settings

ADDRESS_FILE = "server.url"
"""In the data folder: where the server is that holds it."""

PIECE = 1 << 16


class RemoteError(LamellaError):
    """What a server answered."""

    def __init__(self, error: dict[str, Any]) -> None:
        super().__init__(str(error.get("message")), hint=error.get("hint"), param=error.get("param"))


@dataclass(frozen=True, slots=True)
class Uploaded:
    """A file as the terminal needs it; `problem` says why it can't be sent or is only listed."""

    id: str
    name: str
    ready: bool
    problem: str | None


class Door(Protocol):
    """What the terminal asks of Lamella."""

    notice: str | None
    model: str

    async def conversation(self, id: str | None, model: str | None) -> str:
        """The id of a known conversation, or of a new one."""
        ...

    async def upload(self, path: Path) -> Uploaded:
        """Take a file in."""
        ...

    def send(self, conversation_id: str, text: str, file_ids: tuple[str, ...], zone: str) -> AsyncIterator[AnyPacket]:
        """Send a message and follow its turn."""
        ...

    async def stop(self, turn_id: str) -> None:
        """Ask a turn to stop."""
        ...

    async def passage(self, file_id: str, start: int, end: int) -> str:
        """A piece of a file's text."""
        ...


class LocalDoor:
    """The app in this process."""

    def __init__(self, app: App) -> None:
        self._app = app
        self.notice = NOTICE if app.models.is_demonstration else None
        self.model = app.models.default

    async def conversation(self, id: str | None, model: str | None) -> str:
        """See `Door`."""
        if id is not None:
            return (await self._app.store.conversation(LOCAL_OWNER, id)).id
        return (await self._app.create_conversation(LOCAL_OWNER, model=model)).id

    async def upload(self, path: Path) -> Uploaded:
        """See `Door`."""
        file = await self._app.intake.receive(LOCAL_OWNER, path.name, _pieces(path))
        return Uploaded(file.id, file.name, file.status == "ready", file.reason)

    async def send(
        self, conversation_id: str, text: str, file_ids: tuple[str, ...], zone: str
    ) -> AsyncIterator[AnyPacket]:
        """See `Door`."""
        turn_id = await self._app.chat.send(LOCAL_OWNER, conversation_id, Message(text, file_ids, zone))
        async for batch in self._app.chat.stream(LOCAL_OWNER, turn_id):
            for _, data in batch:
                yield decode_packet(data)

    async def stop(self, turn_id: str) -> None:
        """See `Door`."""
        await self._app.chat.stop(LOCAL_OWNER, turn_id)

    async def passage(self, file_id: str, start: int, end: int) -> str:
        """See `Door`."""
        return (await self._app.store.file_text(LOCAL_OWNER, file_id) or "")[start:end]


class RemoteDoor:
    """A server's native API."""

    def __init__(self, client: httpx2.AsyncClient, status: dict[str, Any]) -> None:
        self._client = client
        self.notice: str | None = status["notice"]
        self.model: str = status["model"]

    async def _json(self, method: str, path: str, **options: Any) -> dict[str, Any]:
        answer = await self._client.request(method, f"/api/v1{path}", **options)
        body: dict[str, Any] = answer.json()
        if answer.is_error:
            raise RemoteError(body["error"])
        return body

    async def conversation(self, id: str | None, model: str | None) -> str:
        """See `Door`."""
        if id is not None:
            found = await self._json("GET", f"/conversations/{id}")
        else:
            found = await self._json("POST", "/conversations", json={"model": model})
        return str(found["id"])

    async def upload(self, path: Path) -> Uploaded:
        """See `Door`."""
        with _opened(path) as file:
            found = await self._json("POST", "/files", files={"file": (path.name, file)})
        return Uploaded(found["id"], found["name"], found["status"] == "ready", found["reason"])

    async def send(
        self, conversation_id: str, text: str, file_ids: tuple[str, ...], zone: str
    ) -> AsyncIterator[AnyPacket]:
        """See `Door`."""
        body = {"text": text, "file_ids": list(file_ids), "timezone": zone}
        path = f"/api/v1/conversations/{conversation_id}/turns"
        async with self._client.stream("POST", path, json=body) as answer:
            if answer.is_error:
                await answer.aread()
                raise RemoteError(answer.json()["error"])
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    yield decode_packet(line[6:].encode())

    async def stop(self, turn_id: str) -> None:
        """See `Door`."""
        await self._json("POST", f"/turns/{turn_id}/stop")

    async def passage(self, file_id: str, start: int, end: int) -> str:
        """See `Door`."""
        found = await self._json("GET", f"/files/{file_id}/content")
        return str(found["text"])[start:end]


def _opened(path: Path) -> Any:
    try:
        return path.open("rb")
    except OSError as error:
        raise InvalidRequest(f"{path} can't be read: {error.strerror}.", param=str(path)) from None


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    with _opened(path) as file:
        while piece := file.read(PIECE):
            yield piece


@asynccontextmanager
async def open_door(settings: Settings) -> AsyncIterator[Door]:
    """The server of this data folder if one runs, else the app itself."""
    async with AsyncExitStack() as stack:
        remote = await _running_server(settings.data, stack)
        yield remote or LocalDoor(await stack.enter_async_context(open_app(settings)))


async def _running_server(data: Path, stack: AsyncExitStack) -> RemoteDoor | None:
    address = data / ADDRESS_FILE
    if not address.is_file():
        return None
    client = httpx2.AsyncClient(
        base_url=address.read_text().strip(), timeout=httpx2.Timeout(120, connect=2), trust_env=False
    )
    await stack.enter_async_context(client)
    try:
        answer = await client.get("/api/v1/status")
        status = answer.json()
    except (httpx2.HTTPError, ValueError):
        return None
    return RemoteDoor(client, status) if status.get("data_dir") == str(data) else None


@asynccontextmanager
async def announced(data: Path, url: str) -> AsyncIterator[None]:
    """Leave the server's address in the data folder while it runs."""
    address = data / ADDRESS_FILE
    try:
        address.write_text(url)
    except OSError as error:
        raise ConfigurationError(f"{address} can't be written: {error.strerror}.") from error
    try:
        yield
    finally:
        address.unlink(missing_ok=True)


def local_zone() -> str:
    """The IANA name of this machine's time zone, or UTC when it does not tell."""
    named = os.environ.get("TZ", "").lstrip(":")
    if "/" in named and _is_zone(named):
        return named
    link = Path("/etc/localtime")
    if link.is_symlink():
        _, found, name = str(link.readlink()).partition("zoneinfo/")
        if found and _is_zone(name):
            return name
    return "UTC"


def _is_zone(name: str) -> bool:
    try:
        ZoneInfo(name)
    except (ZoneInfoNotFoundError, ValueError, OSError):
        return False
    return True
