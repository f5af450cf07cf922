"""A conversation's front door: send, stop, stream. One mailbox per conversation (DESIGN 5). Read this file first.

send ─▶ mailbox: one turn at a time ─▶ engine.begin (rows → frozen turn) ─▶ engine.run (a task of its own)
stream ─▶ live packets from the bus, else the journal        stop ─▶ a signal on the bus
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import structlog

from lamella.core.errors import InvalidRequest, LamellaError, TurnInProgress
from lamella.core.json import digest, encode
from lamella.core.packets import TurnFinished, UsageBody, decode_packet, encode_packet
from lamella.core.ports import Batch, StreamBus
from lamella.core.records import Caller, NewTurn, TurnRecord
from lamella.engine.journal import Journal
from lamella.engine.loop import Services
from lamella.engine.recovery import recover
from lamella.engine.turn import Begun, TurnEngine

log = structlog.get_logger()

MAX_FILES = 20
"""Files of one message."""


@dataclass(frozen=True, slots=True)
class Message:
    """What a user sends. `timezone` is an IANA name; `key` an Idempotency-Key; `model` None for the conversation's."""

    text: str
    file_ids: tuple[str, ...] = ()
    timezone: str = "UTC"
    model: str | None = None
    key: str | None = None


class Mailbox:
    """One conversation: at most one turn at a time."""

    def __init__(self) -> None:
        self.begin = asyncio.Lock()
        self.turn: asyncio.Task[None] | None = None
        self.turn_id: str | None = None


class Chat:
    """The conversations of one process."""

    def __init__(self, engine: TurnEngine, services: Services, journal: Journal, bus: StreamBus) -> None:
        self._engine = engine
        self._services = services
        self._journal = journal
        self._bus = bus
        self._mailboxes: dict[str, Mailbox] = {}

    async def start(self) -> None:
        """Recover what a dead process left, then take messages."""
        await recover(self._services.store, self._services.clock, self._services.counter)
        self._journal.start()

    async def close(self) -> None:
        """End every running turn as interrupted, saved as far as it came."""
        tasks = [box.turn for box in self._mailboxes.values() if box.turn is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._journal.close()

    async def send(self, caller: Caller, conversation_id: str, message: Message) -> str:
        """Begin a turn and give its id; it goes on whether or not anybody listens.

        With a key that was used before for the same message, gives that turn's id and begins nothing. Raises
        `InvalidRequest`, `NotFound`, `TurnInProgress`, `ContextLengthExceeded` or `IdempotencyMismatch`; then nothing
        is stored.
        """
        turn_id = self._services.ids.new("turn")
        new = await self._new_turn(caller, conversation_id, turn_id, message)
        if message.key is None:
            await asyncio.shield(self._begin(caller, new))
            return turn_id
        fingerprint = digest(encode([conversation_id, message.text, list(message.file_ids), message.model]))
        store, now = self._services.store, self._services.clock.now()
        bound = await store.claim_key(caller, message.key, "turns", fingerprint, turn_id, now)
        if bound != turn_id:
            return bound
        try:
            await asyncio.shield(self._begin(caller, new))
        except LamellaError:
            await asyncio.shield(store.release_key(caller, message.key))
            raise
        return turn_id

    async def _begin(self, caller: Caller, new: NewTurn) -> None:
        box = self._mailboxes.setdefault(new.conversation_id, Mailbox())
        async with box.begin:
            if box.turn is not None and not box.turn.done():
                conversation = await self._services.store.conversation(caller, new.conversation_id)
                if conversation.running_turn is not None:
                    raise _in_progress(box.turn_id)
                await asyncio.wait({box.turn})
            begun = await self._engine.begin(caller, new)
            box.turn_id = new.id
            box.turn = asyncio.create_task(self._run(begun))

    async def _run(self, begun: Begun) -> None:
        """Hops 5 to 12; what follows a turn is called from here."""
        conversation_id = begun.input.conversation.id
        try:
            await self._engine.run(begun)
        finally:
            box = self._mailboxes.get(conversation_id)
            if box is not None and not box.begin.locked():
                del self._mailboxes[conversation_id]

    async def _new_turn(self, caller: Caller, conversation_id: str, turn_id: str, message: Message) -> NewTurn:
        text = _checked(message)
        conversation = await self._services.store.conversation(caller, conversation_id)
        now = self._services.clock.now()
        return NewTurn(
            id=turn_id,
            conversation_id=conversation_id,
            user_message_id=self._services.ids.new("msg"),
            run_id=self._services.ids.new("run"),
            model=message.model or conversation.model,
            text=text,
            sent_at=_local(now, message.timezone),
            timezone=message.timezone,
            tokens=self._services.counter.count(text),
            file_ids=message.file_ids,
        )

    async def stop(self, caller: Caller, turn_id: str) -> TurnRecord:
        """Ask a turn to stop; one that has ended stays as it is. Raises `NotFound`."""
        turn = await self._services.store.turn(caller, turn_id)
        self._bus.stop(turn_id)
        return turn

    async def delete(self, caller: Caller, conversation_id: str) -> None:
        """Remove a conversation. Raises `TurnInProgress` while it answers."""
        await self._services.store.delete_conversation(caller, conversation_id)
        self._engine.forget(conversation_id)

    async def stream(self, caller: Caller, turn_id: str, after: int = 0) -> AsyncIterator[Batch]:
        """The packets of a turn behind number `after`, as they come, to its end. Raises `NotFound`."""
        turn = await self._services.store.turn(caller, turn_id)
        if self._bus.is_live(turn_id):
            async for batch in self._bus.follow(turn_id, after):
                yield batch
            return
        stored = await self._services.store.journal(caller, turn_id, 0)
        waiting = [packet for packet in stored if packet[0] > after]
        if waiting:
            yield waiting
        if turn.finished_at is not None and not (stored and _ends(stored[-1][1])):
            yield [_missing_end(turn, max(after, stored[-1][0] if stored else 0) + 1)]


def _ends(data: bytes) -> bool:
    return isinstance(decode_packet(data), TurnFinished)


def _missing_end(turn: TurnRecord, n: int) -> tuple[int, bytes]:
    """The last packet of a turn whose rows were saved and whose journal was not."""
    usage = UsageBody.of(turn.usage)
    packet = TurnFinished(n=n, turn_id=turn.id, status=turn.status.value, usage=usage, cost=turn.cost)
    return n, encode_packet(packet)


def _in_progress(turn_id: str | None) -> TurnInProgress:
    return TurnInProgress(
        "This conversation is still answering.",
        hint=f"Wait for the turn to end or stop it: POST /api/v1/turns/{turn_id}/stop.",
    )


def _checked(message: Message) -> str:
    if not message.text.strip():
        raise InvalidRequest("The message is empty.", hint="Write something; files go with a message.", param="text")
    try:
        message.text.encode()
    except UnicodeEncodeError:
        raise InvalidRequest(
            "The message holds half of a surrogate pair, which is no text.", hint="Send valid Unicode.", param="text"
        ) from None
    if len(message.file_ids) > MAX_FILES:
        raise InvalidRequest(f"A message can have {MAX_FILES} files at most.", param="file_ids")
    if len(set(message.file_ids)) != len(message.file_ids):
        raise InvalidRequest("A file is attached twice.", param="file_ids")
    return message.text


def _local(now: datetime, timezone: str) -> datetime:
    """The moment with the offset of the user's zone, so that nobody has to know the zone later."""
    try:
        return now.astimezone(ZoneInfo(timezone))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidRequest(
            f"“{timezone[:60]}” is no time zone.", hint="Use an IANA name such as Europe/Berlin.", param="timezone"
        ) from None
