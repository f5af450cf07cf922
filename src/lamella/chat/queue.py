"""Operations on a conversation's queue: list, change, remove, follow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import suppress

import msgspec

from lamella.chat.mailbox import Mailbox, Mailboxes
from lamella.chat.message import Message, read_message
from lamella.chat.packets import (
    Queued,
    cancelled_answer,
    command_answer,
    failed_answer,
    queued_answer,
    stopping_answer,
)
from lamella.chat.queue_worker import QueuePlace, QueueWorker
from lamella.chat.queued import QueuedCommand, QueuedContent, groups, payload_of, sent_of
from lamella.commands.parse import TypedCommand
from lamella.commands.registry import Commands
from lamella.core.errors import InvalidRequest, NotFound, NotWaiting
from lamella.core.ports import Batch
from lamella.core.records import Caller, QueuedMessage, QueueStatus
from lamella.core.replicas import Signal, SignalKind
from lamella.storage import Store
from lamella.turns.services import Services

OUT_SECONDS = 0.5
"""How often a wait for a row looks whether another process took it out of the queue."""


class Queue:
    """The queues of all conversations. Each method raises `NotFound` for another user's conversation."""

    def __init__(
        self, keeper: QueueWorker, services: Services, mailboxes: Mailboxes, commands: Commands, limit: int
    ) -> None:
        self._keeper = keeper
        self._store: Store = services.store
        self._clock = services.clock
        self._box_of = mailboxes.of
        self._replica = mailboxes.replica
        self._commands = commands
        self._limit = limit

    async def add(self, caller: Caller, row: QueuedMessage) -> Queued:
        """Add a row to the queue. Raises `QueueFull`."""
        stored = await self._store.queue.queue_message(caller, row, self._limit)
        placed = await self.placed(caller, stored)
        self.woken(caller, row.conversation_id)
        return placed

    async def listed(self, caller: Caller, conversation_id: str) -> tuple[Queued, ...]:
        """The queue, in order. A message that is about to begin stays in it until its turn is stored."""
        rows = await self._store.queue.queued(caller, conversation_id)
        taking = self._box_of(conversation_id).taking
        return tuple(Queued(row, place, begins=row.id in taking) for place, row in enumerate(rows, start=1))

    async def waiting(self, caller: Caller, conversation_id: str) -> tuple[QueuedMessage, ...]:
        """The queue in order, without messages that are about to begin and those that were stopped."""
        rows = await self._store.queue.queued(caller, conversation_id)
        taking = self._box_of(conversation_id).taking
        return tuple(
            row
            for group in groups(rows)
            if not (isinstance(group.sent, QueuedContent) and group.sent.stopped)
            for row in group.rows
            if row.id not in taking
        )

    async def find(self, caller: Caller, conversation_id: str, message_id: str) -> Queued:
        """One message, whether or not it waits."""
        row = await self._store.queue.queued_message(caller, message_id)
        if row.conversation_id != conversation_id:
            raise NotFound(f"There is no queued message {message_id} in this conversation.", param="message_id")
        return await self.placed(caller, row)

    async def placed(self, caller: Caller, row: QueuedMessage) -> Queued:
        """A row with its place in the queue."""
        rows = await self._store.queue.queued(caller, row.conversation_id)
        place = next((place for place, one in enumerate(rows, start=1) if one.id == row.id), 0)
        alone = bool(place) and row.id in groups(rows)[0].ids
        box = self._box_of(row.conversation_id)
        busy = box.floor.locked()
        if alone and not busy and self._replica is not None:
            busy = await self._replica.is_elsewhere(row.conversation_id)
        return Queued(row, place, alone and not busy, row.id in box.taking)

    async def change(self, caller: Caller, conversation_id: str, message_id: str, text: str) -> Queued:
        """Change the text of a queued message. Raises `NotWaiting`, and `InvalidRequest` for an empty text or a
        command.
        """
        found = await self.find(caller, conversation_id, message_id)
        if isinstance(sent_of(found.row), QueuedCommand):
            raise InvalidRequest("A command in the queue can't be changed.", hint="Take it out and send another.")
        read = read_message(Message(text), self._commands.usages)
        if isinstance(read, TypedCommand):
            raise InvalidRequest("A message can't become a command.", hint="Send the command by itself.", param="text")
        box = self._box_of(conversation_id)
        async with box.rows:
            _must_wait(box, message_id)
            await self._store.queue.change_queued(caller, message_id, text=read.text)
        await self._news(caller, conversation_id)
        return await self.find(caller, conversation_id, message_id)

    async def cancel(self, caller: Caller, conversation_id: str, message_id: str) -> QueuedMessage:
        """Remove a message or command from the queue. Raises `NotWaiting`."""
        await self.find(caller, conversation_id, message_id)
        box = self._box_of(conversation_id)
        async with box.rows:
            _must_wait(box, message_id)
            row = await self._store.queue.cancel_queued(caller, message_id)
        self._keeper.tell(message_id)
        await self._news(caller, conversation_id)
        return row

    async def drop(self, caller: Caller, conversation_id: str, message_ids: Sequence[str]) -> tuple[QueuedMessage, ...]:
        """Remove several, unless they began meanwhile; returns the removed ones."""
        dropped = []
        for message_id in message_ids:
            with suppress(NotWaiting):
                dropped.append(await self.cancel(caller, conversation_id, message_id))
        return tuple(dropped)

    async def flush(self, caller: Caller, conversation_id: str) -> None:
        """Answer the queue as soon as the conversation is free: skip the wait for more messages."""
        box, now = self._box_of(conversation_id), self._clock.now()
        async with box.rows:
            for row in (await self._store.queue.queued(caller, conversation_id))[-1:]:
                sent = sent_of(row)
                if isinstance(sent, QueuedContent) and sent.due > now and row.id not in box.taking:
                    payload = payload_of(msgspec.structs.replace(sent, due=now))
                    with suppress(NotWaiting):  # another process began it meanwhile
                        await self._store.queue.change_queued(caller, row.id, payload=payload)
        await self._news(caller, conversation_id)

    async def stop_first(self, caller: Caller, conversation_id: str) -> bool:
        """Stop the messages that would be answered next, while no turn runs: their turn begins now and stops at once.

        Returns whether there were any. Later messages are kept. Raises `NotWaiting` if another process began them
        meanwhile.
        """
        box = self._box_of(conversation_id)
        async with box.rows:
            if box.stop_beginning() is not None:
                return True  # Its turn began while this waited for the rows.
            first = next(iter(groups(await self._store.queue.queued(caller, conversation_id))), None)
            if first is None or not isinstance(first.sent, QueuedContent):
                return False
            await self.stop(first.rows)
        return True

    async def stop(self, rows: Sequence[QueuedMessage]) -> None:
        """Begin the turn of these messages now and stop it at once. The caller holds the rows of the mailbox."""
        now = self._clock.now()
        for row in rows:
            sent = sent_of(row)
            if isinstance(sent, QueuedContent):
                payload = payload_of(msgspec.structs.replace(sent, due=now, stopped=True))
                await self._store.queue.change_queued(Caller(row.sender), row.id, payload=payload)
            self.woken(Caller(row.sender), row.conversation_id)
            await self._news(Caller(row.sender), row.conversation_id)

    async def packets(
        self, caller: Caller, queued: Queued, follow: Callable[[Caller, str], AsyncIterator[Batch]]
    ) -> AsyncIterator[Batch]:
        """A packet that says that it waits. Then the packets of its turn, a command's answer, or an error."""
        yield queued_answer(queued)
        row = await self._out(caller, queued.row)
        match row.status if row is not None else QueueStatus.CANCELLED:
            case QueueStatus.QUEUED:
                if self._replica is None:  # else it goes on in another process
                    yield stopping_answer()
            case QueueStatus.CANCELLED:
                yield cancelled_answer()
            case QueueStatus.FAILED:
                yield failed_answer(await self._store.notices.notice(caller, queued.row.notice_id))
            case QueueStatus.BEGUN if row is not None and row.turn_id is not None:
                async for batch in follow(caller, row.turn_id):
                    yield batch
            case _:
                yield command_answer(await self._store.notices.notice(caller, queued.row.notice_id))

    async def _out(self, caller: Caller, row: QueuedMessage) -> QueuedMessage | None:
        """The row after it left the queue, or when the process ends; None if its conversation was deleted."""
        left = self._keeper.leaving(row.id)
        with suppress(NotFound):
            row = await self._store.queue.queued_message(caller, row.id)
            while row.status is QueueStatus.QUEUED and not self._keeper.closing:
                with suppress(TimeoutError):
                    async with asyncio.timeout(None if self._replica is None else OUT_SECONDS):
                        await left.wait()
                left.clear()
                row = await self._store.queue.queued_message(caller, row.id)
            return row
        return None

    async def _news(self, caller: Caller, conversation_id: str) -> None:
        """Wake the queue's worker, in this process or in the one that holds the conversation."""
        self._box_of(conversation_id).news.set()
        if self._replica is not None:
            await self._replica.signal(Signal(SignalKind.QUEUE, conversation_id, {"owner": caller.user_id}))

    def woken(self, caller: Caller, conversation_id: str) -> None:
        """Wake the queue's worker here: a row was added."""
        self._keeper.wake(QueuePlace(self._box_of(conversation_id), caller, conversation_id))


def _must_wait(box: Mailbox, message_id: str) -> None:
    if message_id in box.taking:
        raise NotWaiting("This message is no longer in the queue.", hint="Its turn begins.", param="message_id")
