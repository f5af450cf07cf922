"""The terminal's way without a server: the app in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path

from lamella.app.accounts import LOCAL_IDENTITY
from lamella.app.app import App, open_app
from lamella.app.conversations import NewConversation
from lamella.app.demonstration import NOTICE
from lamella.chat import Message, Outgoing, Patience
from lamella.cli.door import NOTICES, Sending, Uploaded, opened
from lamella.commands.parse import Typed
from lamella.core.access import Identity
from lamella.core.packets import AnyPacket, decode_packet
from lamella.core.records import Choices, NoticeKind, PageQuery
from lamella.settings import Settings
from lamella.tooling.tool import Verdict

PIECE = 1 << 16


class LocalDoor:
    """The app in this process."""

    def __init__(self, app: App, identity: Identity) -> None:
        self._app = app
        self._identity = identity
        self._caller = identity.caller
        self.notice = NOTICE if app.models.is_demonstration else None
        self.model = app.models.default

    async def conversation(self, id: str | None, model: str | None) -> str:
        """See `Door`."""
        if id is not None:
            return (await self._app.store.conversation(self._caller, id)).id
        return (await self._app.conversations.create(self._caller, NewConversation(model=model))).id

    async def forget(self, conversation_id: str) -> None:
        """See `Door`."""
        await self._app.chat.delete(self._caller, conversation_id)

    async def upload(self, path: Path) -> Uploaded:
        """See `Door`."""
        file = await self._app.intake.receive(self._caller, path.name, _pieces(path))
        return Uploaded(file.id, file.name, file.status == "ready", file.reason)

    async def send(self, conversation_id: str, sending: Sending) -> AsyncIterator[AnyPacket]:
        """See `Door`."""
        chat = self._app.chat
        choices = Choices(thinking_effort=sending.effort)
        message = Message(sending.text, sending.file_ids, sending.zone, sending.models, choices=choices)
        asked = Outgoing(message, Patience(debounce=0 if sending.at_once else None))
        done = await chat.sender.send(self._identity, conversation_id, asked)
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

    async def usages(self) -> Mapping[str, str]:
        """See `Door`."""
        return self._app.chat.commands.usages

    async def abort(self, conversation_id: str) -> None:
        """See `Door`."""
        await self._app.chat.orders.submit(self._caller, conversation_id, Typed("abort"))

    async def stop(self, turn_id: str) -> None:
        """See `Door`."""
        await self._app.chat.stop(self._caller, turn_id)

    async def approve(self, turn_id: str, call_id: str, *, approved: bool, reason: str) -> None:
        """See `Door`."""
        await self._app.chat.approve(self._caller, turn_id, call_id, Verdict(approved, reason))

    async def passage(self, file_id: str, start: int, end: int) -> str:
        """See `Door`."""
        return (await self._app.store.file_text(self._caller, file_id) or "")[start:end]


async def _pieces(path: Path) -> AsyncIterator[bytes]:
    with opened(path) as file:
        while piece := file.read(PIECE):
            yield piece


@asynccontextmanager
async def open_local_door(settings: Settings) -> AsyncIterator[LocalDoor]:
    """The app, opened here.

    Whoever opens the data folder has all that is in it; with a key they are the user whose key it is.
    """
    async with open_app(settings) as app:
        who = LOCAL_IDENTITY if settings.key is None else await app.accounts.identify(settings.key.get_secret_value())
        yield LocalDoor(app, who)
