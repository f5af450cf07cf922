"""A conversation's front door: send, stop, stream. One mailbox per conversation (DESIGN 5). Read this file first.

send ─▶ mailbox: one turn at a time ─▶ engine.begin (rows → frozen turn) ─▶ engine.run (a task of its own)
stream ─▶ live packets from the bus, else the journal        stop ─▶ a signal on the bus
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Coroutine
from contextlib import AsyncExitStack, suppress
from dataclasses import dataclass, field, replace
from datetime import datetime
from typing import TypeVar
from weakref import WeakValueDictionary
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import structlog

from lamella.commands.command import Reach
from lamella.commands.parse import Typed, parse
from lamella.commands.registry import Commands
from lamella.core.errors import InvalidRequest, LamellaError, NeedsCompaction, NotFound, ServerStopping, TurnInProgress
from lamella.core.json import digest, encode
from lamella.core.packets import CommandPacket, TurnFinished, UsageBody, decode_packet, encode_packet
from lamella.core.ports import Batch, StreamBus
from lamella.core.records import Caller, Choices, NewTurn, Notice, TurnRecord
from lamella.engine.journal import Journal
from lamella.engine.loop import Services
from lamella.engine.preview import Preview
from lamella.engine.recovery import recover
from lamella.engine.turn import Begun, TurnEngine
from lamella.sessions.sessions import Sessions

log = structlog.get_logger()

DoneT = TypeVar("DoneT")

MAX_FILES = 20
"""Files of one message."""

CLOSE_SECONDS = 2.0
"""The most that a closing process waits for its turns to be saved."""


@dataclass(frozen=True, slots=True)
class Message:
    """What a user sends. `timezone` is an IANA name; `key` an Idempotency-Key; `model` None for the conversation's.

    `dynamic` are the caller's blocks of the dynamic context, `blocks` the deployment's, which stand before them and may
    differ when a message is sent again; empty ones are left out (SPEC W4, W5). `choices` are for this
    message's turn only.
    """

    text: str
    file_ids: tuple[str, ...] = ()
    timezone: str = "UTC"
    model: str | None = None
    key: str | None = None
    dynamic: tuple[str, ...] = ()
    blocks: tuple[str, ...] = ()
    choices: Choices = field(default_factory=Choices)


class Mailbox:
    """One conversation: at most one turn at a time. It lives as long as somebody begins or runs one."""

    def __init__(self) -> None:
        self.begin = asyncio.Lock()
        self.command = asyncio.Lock()
        self.turn: asyncio.Task[None] | None = None


class Chat:
    """The conversations of one process."""

    def __init__(
        self, engine: TurnEngine, services: Services, journal: Journal, bus: StreamBus, sessions: Sessions
    ) -> None:
        self._engine = engine
        self._sessions = sessions
        self._services = services
        self._journal = journal
        self._bus = bus
        self.commands = Commands(Reach(services.store, sessions, self.stop), services.clock)
        self._mailboxes: WeakValueDictionary[str, Mailbox] = WeakValueDictionary()
        self._work: set[asyncio.Task[object]] = set()
        self._closing = False

    async def start(self) -> None:
        """Recover what a dead process left, then take messages."""
        await recover(self._services.store, self._services.clock, self._services.counter)
        self._journal.start()
        self._sessions.start()

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
        await self._sessions.close()
        await self._journal.close()

    async def send(self, caller: Caller, conversation_id: str, message: Message) -> str:
        """Begin a turn and give its id; it goes on whether or not anybody listens.

        With a key that was used before for the same message, gives that turn's id and begins nothing. Raises
        `InvalidRequest`, `NotFound`, `TurnInProgress`, `ContextLengthExceeded`, `IdempotencyMismatch` or
        `ServerStopping`; then nothing is stored.
        """
        if self._closing:
            raise _stopping("message")
        new = await self._new_turn(caller, conversation_id, message)
        if message.key is not None:
            new = replace(new, id=await self._claim(caller, new, message))
        # Whoever asked may leave: what has begun to be stored is stored whole, and runs.
        await asyncio.shield(self._track(self._begin(caller, new, message.key)))
        return new.id

    def read(self, message: Message) -> Message | Typed:
        """What a message is: a command, or words; of `//x` the words `/x`. Raises `InvalidRequest`, see `parse`."""
        parsed = parse(_checked(message), self.commands.names)
        if isinstance(parsed, str):
            return replace(message, text=parsed)
        if message.file_ids:
            raise InvalidRequest(f"/{parsed.name} takes no files.", hint="Send them with a message.", param="file_ids")
        return parsed

    async def command(self, caller: Caller, conversation_id: str, typed: Typed, *, key: str | None = None) -> Notice:
        """Run a command now, before and without any model; gives it with its answer, as it is stored.

        With a key that was used before for the same command, gives that answer and does nothing. Raises as
        `Commands.run` does, and `IdempotencyMismatch` or `ServerStopping`.
        """
        if self._closing:
            raise _stopping("command")
        return await asyncio.shield(self._track(self._command(caller, conversation_id, typed, key)))

    async def _command(self, caller: Caller, conversation_id: str, typed: Typed, key: str | None) -> Notice:
        box = self._mailboxes.setdefault(conversation_id, Mailbox())
        async with AsyncExitStack() as held:
            await held.enter_async_context(box.command)
            if not self.commands.is_at_once(typed.name):
                await held.enter_async_context(box.begin)
            notice_id = self._services.ids.new("note")
            if key is None:
                return await self.commands.run(caller, conversation_id, typed, notice_id)
            store, now = self._services.store, self._services.clock.now()
            same = digest(encode([conversation_id, typed]))
            notice_id = await store.claim_key(caller, key, "commands", same, notice_id, now)
            with suppress(NotFound):
                return await store.notice(caller, notice_id)
            try:
                return await self.commands.run(caller, conversation_id, typed, notice_id)
            except LamellaError:
                await store.release_key(caller, key)
                raise

    async def answer(self, caller: Caller, conversation_id: str, typed: Typed, key: str | None) -> AsyncIterator[Batch]:
        """As `command`, with the answer as the packets of a stream."""
        return _one_batch(_command_packet(await self.command(caller, conversation_id, typed, key=key)))

    async def _claim(self, caller: Caller, new: NewTurn, message: Message) -> str:
        """Bind the message's key to the new turn's id, or give the id that the same message had before."""
        same = [new.conversation_id, replace(message, key=None, blocks=())]
        store, now = self._services.store, self._services.clock.now()
        return await store.claim_key(caller, str(message.key), "turns", digest(encode(same)), new.id, now)

    async def preview(self, caller: Caller, conversation_id: str, message: Message) -> Preview:
        """The request that this message would make; nothing is stored and nothing is sent. Raises as `send` does."""
        read = self.read(message)
        if isinstance(read, Typed):
            raise InvalidRequest(f"/{read.name} is a command: no request would be made.", param="text")
        message = read
        return await self._engine.preview(caller, await self._new_turn(caller, conversation_id, message))

    def _track(self, work: Coroutine[None, None, DoneT]) -> asyncio.Task[DoneT]:
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
        box.turn = self._track(self._run(box, await self._fitting(caller, new)))

    async def _fitting(self, caller: Caller, new: NewTurn) -> Begun:
        """Begin the turn; a conversation that no longer fits the window is compacted first, and then sent (SPEC L6)."""
        try:
            return await self._engine.begin(caller, new, can_compact=True)
        except NeedsCompaction:
            why = "the next message would not fit the window"
            await self._sessions.compact(caller, new.conversation_id, who="engine", why=why)
        return await self._engine.begin(caller, new)

    async def _is_stored(self, caller: Caller, turn_id: str) -> bool:
        """Whether the turn that a key is bound to began; a process may have died in between."""
        try:
            await self._services.store.turn(caller, turn_id)
        except NotFound:
            return False
        return True

    async def _run(self, box: Mailbox, begun: Begun) -> None:
        """Hops 5 to 12; what follows a turn is called from here. Holding the box keeps it the conversation's."""
        finished = await self._engine.run(begun)
        try:
            await self._sessions.after(finished)
        except LamellaError as error:
            log.error("what follows a turn failed", turn_id=begun.input.turn.id, error=error.message)

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
            dynamic="\n\n".join(block for block in (*message.blocks, *message.dynamic) if block.strip()),
            choices=message.choices,
        )

    async def stop(self, caller: Caller, turn_id: str) -> TurnRecord:
        """Ask a turn to stop; one that has ended stays as it is. Raises `NotFound`."""
        turn = await self._services.store.turn(caller, turn_id)
        self._bus.stop(turn_id)
        return turn

    async def delete(self, caller: Caller, conversation_id: str) -> None:
        """Remove a conversation. Raises `TurnInProgress` while it answers."""
        await self._services.store.delete_conversation(caller, conversation_id)
        self._engine.openings.forget(conversation_id)

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


def _command_packet(notice: Notice) -> Batch:
    """The one packet that answers a command."""
    packet = CommandPacket(
        n=1,
        id=notice.id,
        name=notice.name,
        argument=notice.argument,
        answer=notice.text,
        data=dict(notice.data),
        at=notice.at.isoformat(),
    )
    return [(1, encode_packet(packet))]


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


def _stopping(what: str) -> ServerStopping:
    return ServerStopping("The server is stopping.", hint=f"Send the {what} again when it is back.")


def _in_progress(turn_id: str) -> TurnInProgress:
    return TurnInProgress(
        "This conversation is still answering.",
        hint=f"Wait for the turn to end or stop it: POST /api/v1/turns/{turn_id}/stop.",
    )


def _checked(message: Message) -> str:
    if not message.text.strip():
        raise InvalidRequest("The message is empty.", hint="Write something; files go with a message.", param="text")
    _must_be_unicode(message.text, "message", "text")
    for block in (*message.blocks, *message.dynamic):
        _must_be_unicode(block, "dynamic context", "dynamic_context")
    if len(message.file_ids) > MAX_FILES:
        raise InvalidRequest(
            f"A message can have {MAX_FILES} files at most.", hint="Send the others along next.", param="file_ids"
        )
    if len(set(message.file_ids)) != len(message.file_ids):
        raise InvalidRequest("A file is attached twice.", hint="Name each file once.", param="file_ids")
    return message.text


def _must_be_unicode(text: str, what: str, param: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        raise InvalidRequest(
            f"The {what} holds half of a surrogate pair, which is no text.", hint="Send valid Unicode.", param=param
        ) from None


def _local(now: datetime, timezone: str) -> datetime:
    """The moment with the offset of the user's zone, so that nobody has to know the zone later."""
    try:
        return now.astimezone(ZoneInfo(timezone))
    except (ZoneInfoNotFoundError, ValueError, OSError):
        raise InvalidRequest(
            f"“{timezone[:60]}” is no time zone.", hint="Use an IANA name such as Europe/Berlin.", param="timezone"
        ) from None
