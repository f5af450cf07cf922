"""A conversation's front door: send, stop, stream. One mailbox per conversation (DESIGN 5). Read this file first.

send ─▶ mailbox: one turn at a time ─▶ engine.begin (rows → frozen turn) ─▶ engine.run (a task of its own)
stream ─▶ live packets from the bus, else the journal        stop ─▶ a signal on the bus
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from weakref import WeakValueDictionary
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import structlog

from lamella.core.errors import InvalidRequest, LamellaError, NotFound, ServerStopping, TurnInProgress
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

CLOSE_SECONDS = 2.0
"""The most that a closing process waits for its turns to be saved."""


@dataclass(frozen=True, slots=True)
class Message:
    """What a user sends. `timezone` is an IANA name; `key` an Idempotency-Key; `model` None for the conversation's.

    `dynamic` are the blocks of the dynamic context; empty ones are left out (SPEC W4, W5).
    """

    text: str
    file_ids: tuple[str, ...] = ()
    timezone: str = "UTC"
    model: str | None = None
    key: str | None = None
    dynamic: tuple[str, ...] = ()


class Mailbox:
    """One conversation: at most one turn at a time. It lives as long as somebody begins or runs one."""

    def __init__(self) -> None:
        self.begin = asyncio.Lock()
        self.turn: asyncio.Task[None] | None = None


class Chat:
    """The conversations of one process."""

    def __init__(self, engine: TurnEngine, services: Services, journal: Journal, bus: StreamBus) -> None:
        self._engine = engine
        self._services = services
        self._journal = journal
        self._bus = bus
        self._mailboxes: WeakValueDictionary[str, Mailbox] = WeakValueDictionary()
        self._work: set[asyncio.Task[None]] = set()
        self._closing = False

    async def start(self) -> None:
        """Recover what a dead process left, then take messages."""
        await recover(self._services.store, self._services.clock, self._services.counter)
        self._journal.start()

    async def close(self) -> None:
        """Take no more messages, and end every running turn as interrupted, saved as far as it came.

        A turn that can't be saved in time is left to the recovery of the next start.
        """
        self._closing = True
        self._engine.interrupt()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_SECONDS):
                while self._work:
                    await asyncio.wait(self._work)
        for task in self._work:
            task.cancel()
        await asyncio.gather(*self._work, return_exceptions=True)
        await self._journal.close()

    async def send(self, caller: Caller, conversation_id: str, message: Message) -> str:
        """Begin a turn and give its id; it goes on whether or not anybody listens.

        With a key that was used before for the same message, gives that turn's id and begins nothing. Raises
        `InvalidRequest`, `NotFound`, `TurnInProgress`, `ContextLengthExceeded`, `IdempotencyMismatch` or
        `ServerStopping`; then nothing is stored.
        """
        if self._closing:
            raise ServerStopping("The server is stopping.", hint="Send the message again when it is back.")
        new = await self._new_turn(caller, conversation_id, message)
        if message.key is not None:
            new = replace(new, id=await self._claim(caller, new, message))
        # Whoever asked may leave: what has begun to be stored is stored whole, and runs.
        await asyncio.shield(self._track(self._begin(caller, new, message.key)))
        return new.id

    async def _claim(self, caller: Caller, new: NewTurn, message: Message) -> str:
        """Bind the message's key to the new turn's id, or give the id that the same message had before."""
        same = [new.conversation_id, message.text, message.file_ids, message.timezone, message.model, message.dynamic]
        store, now = self._services.store, self._services.clock.now()
        return await store.claim_key(caller, str(message.key), "turns", digest(encode(same)), new.id, now)

    def _track(self, work: Coroutine[None, None, None]) -> asyncio.Task[None]:
        task = asyncio.create_task(work)
        self._work.add(task)
        task.add_done_callback(self._work.discard)
        return task

    async def _begin(self, caller: Caller, new: NewTurn, key: str | None) -> None:
        box = self._mailboxes.setdefault(new.conversation_id, Mailbox())
        async with box.begin:
            try:
                if key is None or not await self._is_stored(caller, new.id):
                    await self._begin_in(box, caller, new)
            except LamellaError:
                if key is not None:
                    await self._services.store.release_key(caller, key)
                raise

    async def _begin_in(self, box: Mailbox, caller: Caller, new: NewTurn) -> None:
        if box.turn is not None and not box.turn.done():
            conversation = await self._services.store.conversation(caller, new.conversation_id)
            if conversation.running_turn is not None:
                raise _in_progress(conversation.running_turn)
            await asyncio.wait({box.turn})
        begun = await self._engine.begin(caller, new)
        box.turn = self._track(self._run(box, begun))

    async def _is_stored(self, caller: Caller, turn_id: str) -> bool:
        """Whether the turn that a key is bound to began; a process may have died in between."""
        try:
            await self._services.store.turn(caller, turn_id)
        except NotFound:
            return False
        return True

    async def _run(self, box: Mailbox, begun: Begun) -> None:
        """Hops 5 to 12; what follows a turn is called from here. Holding the box keeps it the conversation's."""
        await self._engine.run(begun)

    async def _new_turn(self, caller: Caller, conversation_id: str, message: Message) -> NewTurn:
        text = _checked(message)
        conversation = await self._services.store.conversation(caller, conversation_id)
        now = self._services.clock.now()
        return NewTurn(
            id=self._services.ids.new("turn"),
            conversation_id=conversation_id,
            user_message_id=self._services.ids.new("msg"),
            run_id=self._services.ids.new("run"),
            model=message.model or conversation.model,
            text=text,
            sent_at=_local(now, message.timezone),
            timezone=message.timezone,
            tokens=await asyncio.to_thread(self._services.counter.count, text),
            file_ids=message.file_ids,
            dynamic="\n\n".join(block for block in message.dynamic if block.strip()),
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
        async for batch in await self.follow(caller, turn_id, after):
            yield batch

    async def follow(self, caller: Caller, turn_id: str, after: int = 0) -> AsyncIterator[Batch]:
        """As `stream`, but raises at once what keeps the turn from being read."""
        if self._journal.owner(turn_id) == caller.user_id and self._bus.is_live(turn_id):
            return self._bus.follow(turn_id, after)
        turn = await self._services.store.turn(caller, turn_id)
        if self._bus.is_live(turn_id):
            return self._bus.follow(turn_id, after)
        stored = await self._services.store.journal(caller, turn_id, 0)
        waiting = [packet for packet in stored if packet[0] > after]
        if turn.finished_at is not None and not (stored and _ends(stored[-1][1])):
            waiting.append(_missing_end(turn, max(after, stored[-1][0] if stored else 0) + 1))
        return _one_batch(waiting)


async def _one_batch(packets: Batch) -> AsyncIterator[Batch]:
    if packets:
        yield packets


def _ends(data: bytes) -> bool:
    return isinstance(decode_packet(data), TurnFinished)


def _missing_end(turn: TurnRecord, n: int) -> tuple[int, bytes]:
    """The last packet of a turn whose rows were saved and whose journal was not."""
    usage = UsageBody.of(turn.usage)
    packet = TurnFinished(n=n, turn_id=turn.id, status=turn.status.value, usage=usage, cost=turn.cost)
    return n, encode_packet(packet)


def _in_progress(turn_id: str) -> TurnInProgress:
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
        raise InvalidRequest(
            f"A message can have {MAX_FILES} files at most.", hint="Send the others along next.", param="file_ids"
        )
    if len(set(message.file_ids)) != len(message.file_ids):
        raise InvalidRequest("A file is attached twice.", hint="Name each file once.", param="file_ids")
    return message.text


def _local(now: datetime, timezone: str) -> datetime:
    """The moment with the offset of the user's zone, so that nobody has to know the zone later."""
    try:
        return now.astimezone(ZoneInfo(timezone))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidRequest(
            f"“{timezone[:60]}” is no time zone.", hint="Use an IANA name such as Europe/Berlin.", param="timezone"
        ) from None
