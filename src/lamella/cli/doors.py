"""Two ways to the same conversations: the app in this process, or a server that already holds the data folder."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from lamella.app.accounts import LOCAL_IDENTITY
from lamella.app.app import App, open_app
from lamella.app.conversations import NewConversation
from lamella.app.demonstration import NOTICE
from lamella.chat import Message, Patience, Queued
from lamella.cli.api import ADDRESS_FILE, Api, Object, refusal, running_server
from lamella.commands.parse import Typed
from lamella.core.errors import ConfigurationError, InvalidRequest
from lamella.core.packets import AnyPacket, decode_packet
from lamella.core.records import Caller, Choices, Notice, NoticeKind, PageQuery
from lamella.settings import Settings
from lamella.tools.tool import Verdict

PIECE = 1 << 16
NOTICES = 100
LONGEST_REASON = 2_000


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

    def send(
        self,
        conversation_id: str,
        text: str,
        file_ids: tuple[str, ...],
        zone: str,
        *,
        at_once: bool,
        effort: str | None = None,
        models: tuple[str, ...] = (),
    ) -> AsyncIterator[AnyPacket]:
        """Send a message and follow its turn, or a command and hear its answer; `at_once` waits for no more of them.

        `effort` is the thinking effort of this turn, in its one spelling; None leaves it to the conversation.
        """
        ...

    async def flush(self, conversation_id: str) -> None:
        """Wait no longer for more messages: answer those that wait."""
        ...

    async def settle(self, conversation_id: str) -> None:
        """Before the end: wait for what runs in the background of this process."""
        ...

    async def notifications(self, conversation_id: str, after: str | None) -> tuple[str | None, list[str]]:
        """The texts of the notifications behind the notice `after`, and the id of the newest notice."""
        ...

    async def stop(self, turn_id: str) -> None:
        """Ask a turn to stop."""
        ...

    async def approve(self, turn_id: str, call_id: str, *, approved: bool, reason: str) -> None:
        """Let a call that waits run, or not; the reason is told to the model."""
        ...

    async def passage(self, file_id: str, start: int, end: int) -> str:
        """A piece of a file's text."""
        ...


class LocalDoor:
    """The app in this process."""

    def __init__(self, app: App, caller: Caller) -> None:
        self._app = app
        self._caller = caller
        self.notice = NOTICE if app.models.is_demonstration else None
        self.model = app.models.default

    async def conversation(self, id: str | None, model: str | None) -> str:
        """See `Door`."""
        if id is not None:
            return (await self._app.store.conversation(self._caller, id)).id
        return (await self._app.conversations.create(self._caller, NewConversation(model=model))).id

    async def upload(self, path: Path) -> Uploaded:
        """See `Door`."""
        file = await self._app.intake.receive(self._caller, path.name, _pieces(path))
        return Uploaded(file.id, file.name, file.status == "ready", file.reason)

    async def send(
        self,
        conversation_id: str,
        text: str,
        file_ids: tuple[str, ...],
        zone: str,
        *,
        at_once: bool,
        effort: str | None = None,
        models: tuple[str, ...] = (),
    ) -> AsyncIterator[AnyPacket]:
        """See `Door`."""
        chat = self._app.chat
        read = chat.read(Message(text, file_ids, zone, models, choices=Choices(thinking_effort=effort)))
        done: str | Queued | Notice
        if isinstance(read, Typed):
            done = await chat.submit_command(self._caller, conversation_id, read)
        else:
            patience = Patience(debounce=0 if at_once else None)
            done = await chat.submit(self._caller, conversation_id, read, patience)
        async for batch in await chat.packets(self._caller, done):
            for _, data in batch:
                yield decode_packet(data)

    async def flush(self, conversation_id: str) -> None:
        """See `Door`."""
        await self._app.chat.flush(self._caller, conversation_id)

    async def settle(self, conversation_id: str) -> None:
        """See `Door`."""
        await self._app.sessions.settled(conversation_id)

    async def notifications(self, conversation_id: str, after: str | None) -> tuple[str | None, list[str]]:
        """See `Door`."""
        query = PageQuery(NOTICES, after, "asc" if after else "desc")
        found = (await self._app.store.notices(self._caller, conversation_id, query)).data
        newest = max((notice.id for notice in found), default=after)
        return newest, [notice.text for notice in found if notice.kind is not NoticeKind.COMMAND]

    async def stop(self, turn_id: str) -> None:
        """See `Door`."""
        await self._app.chat.stop(self._caller, turn_id)

    async def approve(self, turn_id: str, call_id: str, *, approved: bool, reason: str) -> None:
        """See `Door`."""
        await self._app.chat.approve(self._caller, turn_id, call_id, Verdict(approved, reason))

    async def passage(self, file_id: str, start: int, end: int) -> str:
        """See `Door`."""
        return (await self._app.store.file_text(self._caller, file_id) or "")[start:end]


class RemoteDoor:
    """A server's native API."""

    def __init__(self, api: Api, status: Object) -> None:
        self._api = api
        self.notice: str | None = status["notice"]
        self.model: str = status["model"]

    async def conversation(self, id: str | None, model: str | None) -> str:
        """See `Door`."""
        if id is not None:
            found = await self._api.get(f"/conversations/{id}")
        else:
            found = await self._api.post("/conversations", {"model": model})
        return str(found["id"])

    async def upload(self, path: Path) -> Uploaded:
        """See `Door`."""
        with _opened(path) as file:
            found = await self._api.ask("POST", "/files", files={"file": (path.name, file)})
        return Uploaded(found["id"], found["name"], found["status"] == "ready", found["reason"])

    async def send(
        self,
        conversation_id: str,
        text: str,
        file_ids: tuple[str, ...],
        zone: str,
        *,
        at_once: bool,
        effort: str | None = None,
        models: tuple[str, ...] = (),
    ) -> AsyncIterator[AnyPacket]:
        """See `Door`."""
        body = {"text": text, "file_ids": list(file_ids), "timezone": zone} | ({"debounce_ms": 0} if at_once else {})
        body |= {"thinking_effort": effort} if effort is not None else {}
        body |= {"models": list(models)} if models else {}
        path = f"/api/v1/conversations/{conversation_id}/turns"
        async with self._api.client.stream("POST", path, json=body) as answer:
            if answer.is_error:
                await answer.aread()
                raise refusal(answer.json()["error"])
            async for line in answer.aiter_lines():
                if line.startswith("data: "):
                    yield decode_packet(line[6:].encode())

    async def flush(self, conversation_id: str) -> None:
        """See `Door`."""
        await self._api.post(f"/conversations/{conversation_id}/queue/flush", {})

    async def settle(self, conversation_id: str) -> None:
        """See `Door`: the server goes on without this process."""

    async def notifications(self, conversation_id: str, after: str | None) -> tuple[str | None, list[str]]:
        """See `Door`."""
        query = {"limit": NOTICES, "order": "asc", "after": after} if after else {"limit": NOTICES, "order": "desc"}
        found = (await self._api.get(f"/conversations/{conversation_id}/commands", **query))["data"]
        newest = max((str(notice["id"]) for notice in found), default=after)
        return newest, [str(notice["text"]) for notice in found if notice["object"] == "notification"]

    async def stop(self, turn_id: str) -> None:
        """See `Door`."""
        await self._api.post(f"/turns/{turn_id}/stop", {})

    async def approve(self, turn_id: str, call_id: str, *, approved: bool, reason: str) -> None:
        """See `Door`."""
        said = {"approved": approved, "reason": reason[:LONGEST_REASON]}
        await self._api.post(f"/turns/{turn_id}/calls/{call_id}/approval", said)

    async def passage(self, file_id: str, start: int, end: int) -> str:
        """See `Door`."""
        found = await self._api.get(f"/files/{file_id}/text")
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
        found = await running_server(settings, stack)
        if found:
            yield RemoteDoor(*found)
            return
        app = await stack.enter_async_context(open_app(settings))
        # Whoever opens the data folder has all that is in it; with a key they are the user whose key it is.
        who = LOCAL_IDENTITY if settings.key is None else await app.accounts.identify(settings.key.get_secret_value())
        yield LocalDoor(app, who.caller)


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
