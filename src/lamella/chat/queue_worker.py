"""Works through a conversation's queue in order: answers messages, runs commands."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from weakref import WeakValueDictionary

import structlog

from lamella.chat.mailbox import IncomingMessage, Mailbox, Mailboxes
from lamella.chat.message import local
from lamella.chat.queued import QueuedCommand, QueuedContent, QueuedGroup, QueuedItem, UnreadableRow, groups
from lamella.chat.turns import Turns
from lamella.commands.registry import Commands
from lamella.core.errors import LamellaError, LeaseLost, NotFound, NotWaiting, StoreFailed
from lamella.core.json import JsonObject
from lamella.core.records import (
    UNCHANGED,
    Caller,
    Choices,
    Conversation,
    NewRun,
    NewTurn,
    Notice,
    NoticeKind,
    QueuedMessage,
    QueueStatus,
    Unchanged,
    turn_id_of,
)
from lamella.turns.services import Services

log = structlog.get_logger()

ATTEMPTS = 3
"""How often an operation is tried that the store refuses."""

PAUSE = 1.0
"""Seconds before the store is tried again."""

SHOWN = 200
"""Characters of a message in the notice that it could not be answered; its data has all of it."""


@dataclass(frozen=True, slots=True)
class QueuePlace:
    """A conversation's owner and its mailbox."""

    box: Mailbox
    owner: Caller
    conversation_id: str


class QueueWorker:
    """One worker task for each conversation with a queue. Rows leave the queue in the transaction that stores their
    outcome.
    """

    def __init__(self, turns: Turns, services: Services, commands: Commands, mailboxes: Mailboxes) -> None:
        self._turns = turns
        self._mailboxes = mailboxes
        mailboxes.wake = lambda box, owner, conversation_id: self.wake(QueuePlace(box, owner, conversation_id))
        self._services = services
        self._store = services.store
        self._commands = commands
        self._left: WeakValueDictionary[str, asyncio.Event] = WeakValueDictionary()

    def wake(self, place: QueuePlace) -> None:
        """The queue was changed."""
        place.box.news.set()
        if place.box.keeper is None and not self._turns.closing:
            place.box.keeper = self._turns.track(self._keep(place))

    def leaving(self, message_id: str) -> asyncio.Event:
        """Set when a row leaves the queue, or the process ends. Ask for it before reading the row."""
        return self._left.setdefault(message_id, asyncio.Event())

    def tell(self, *message_ids: str) -> None:
        """Wake everybody who waits for these rows."""
        for message_id in message_ids:
            if (event := self._left.get(message_id)) is not None:
                event.set()

    @property
    def closing(self) -> bool:
        """Whether the process ends; the next one continues the queue."""
        return self._turns.closing

    def tell_all(self) -> None:
        """Wake everybody who waits for a row: the process ends."""
        self.tell(*self._left)

    async def _keep(self, place: QueuePlace) -> None:
        """Until nothing waits, or another process holds the conversation."""
        failures, held = 0, False
        while not self._turns.closing:
            place.box.news.clear()
            try:
                held = held or await self._mailboxes.holds(place.box, place.conversation_id)
                if not held:
                    if place.box.news.is_set():
                        continue
                    break
                empty = await self._next(place, failures)
                failures = 0
            except NotFound:
                empty = True  # The conversation was deleted, and its queue with it.
            except LeaseLost:
                held, empty = False, False
                await self._services.clock.sleep(PAUSE)
            except StoreFailed as error:
                failures, empty = failures + 1, False
                log.error("the queue waits for the store", conversation_id=place.conversation_id, error=error.message)
                await self._services.clock.sleep(PAUSE)
            except Exception:  # if this failed, nothing would process the queue any more
                failures, empty = failures + 1, False
                log.exception("the queue continues after an internal error", conversation_id=place.conversation_id)
                await self._services.clock.sleep(PAUSE)
            if empty and not place.box.news.is_set():
                break
        place.box.keeper = None
        if held:
            await self._mailboxes.let_go(place.box, place.owner, place.conversation_id)

    async def _next(self, place: QueuePlace, failures: int) -> bool:
        """Do the first item of the queue when it is due and the floor is free. Returns whether the queue is empty."""
        first = await self._first(place)
        if first is None:
            return True
        wait = first.waits(self._services.clock.now())
        if wait > 0:
            await self._pause(place.box.news, wait)
            return False
        await place.box.floor.acquire()
        begun = False
        try:
            async with place.box.rows:
                first = await self._first(place)
                if first is None or first.waits(self._services.clock.now()) > 0 or self._turns.closing:
                    return False
                place.box.taking = frozenset(first.ids)
            begun = await self._do(place, first, failures)
            self.tell(*first.ids)
        finally:
            place.box.taking = frozenset()
            if not begun:
                place.box.floor.release()
        return False

    async def _first(self, place: QueuePlace) -> QueuedGroup | None:
        found = groups(await self._store.queue.queued(place.owner, place.conversation_id))
        return found[0] if found else None

    async def _pause(self, news: asyncio.Event, seconds: float) -> None:
        """Wait so many seconds, or until the queue changes."""
        tasks = [asyncio.create_task(news.wait()), asyncio.create_task(self._services.clock.sleep(seconds))]
        try:
            await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
        finally:
            for task in tasks:
                task.cancel()

    async def _do(self, place: QueuePlace, group: QueuedGroup, failures: int) -> bool:
        """Answer messages, or run a command. Returns whether a turn began. A failure does not block later items.

        Raises `StoreFailed` if the operation will be tried again, and `LeaseLost` if another process will do it.
        """
        caller = Caller(group.rows[0].sender)
        if isinstance(group.sent, UnreadableRow):
            await self._fail(place, group, group.sent.error)
            return False
        try:
            if isinstance(group.sent, QueuedCommand):
                notice_id = group.rows[0].notice_id
                await self._commands.run(caller, place.conversation_id, group.sent.typed, notice_id, group.ids)
                return False
            arrival = IncomingMessage(is_message=True, turn_id=turn_id_of(group.rows[0]), stopped=group.sent.stopped)
            with place.box.expecting(arrival):
                new = await self._new_turn(caller, group, group.sent)
                arrival.turn_id = new.id
                await self._turns.begin(place.box, caller, new, arrival, group.rows)
            return True
        except NotWaiting:
            return False
        except LeaseLost:
            raise
        except LamellaError as error:
            if isinstance(error, StoreFailed) and failures + 1 < ATTEMPTS:
                raise
            await self._fail(place, group, error)
        except Exception as error:
            log.exception("what waited failed", conversation_id=place.conversation_id, exc_info=error)
            await self._fail(place, group, LamellaError("The server failed.", hint="The server's log has the cause."))
        return False

    async def _new_turn(self, caller: Caller, group: QueuedGroup, sent: QueuedContent) -> NewTurn:
        first, last = group.rows[0], group.rows[-1]
        conversation = await self._store.conversations.conversation(caller, first.conversation_id)
        turn_id = turn_id_of(first)
        if conversation.head is not None and turn_id < conversation.head:  # queued by a process whose clock is behind
            self._services.ids.follow(conversation.head)
            turn_id = self._services.ids.new("turn")
        _, _, suffix = turn_id.partition("_")
        return NewTurn(
            id=turn_id,
            conversation_id=first.conversation_id,
            user_message_id=f"msg_{suffix}",
            runs=tuple(
                NewRun(f"run_{suffix}_{index}" if index else f"run_{suffix}", model)
                for index, model in enumerate(sent.models)
            ),
            parent=sent.parent,
            text=group.text,
            sent_at=local(last.sent_at, last.timezone),
            timezone=last.timezone,
            tokens=await asyncio.to_thread(self._services.counter.count, group.text),
            file_ids=sent.file_ids,
            dynamic=sent.context,
            choices=Choices(
                layout=sent.layout,
                marker_policy=sent.marker_policy,
                agent_id=await self._agent(caller, conversation, sent),
                thinking_effort=sent.thinking_effort,
                knowledge_base_ids=sent.knowledge_base_ids,
            ),
        )

    async def _agent(self, caller: Caller, conversation: Conversation, sent: QueuedContent) -> str | Unchanged | None:
        """The agent at the time when the message was sent; a deleted one is ignored."""
        if not sent.agent_chosen:
            if conversation.agent_id == sent.agent_id:
                return UNCHANGED
            if sent.agent_id is not None:
                try:
                    await self._store.library.agent(caller, sent.agent_id)
                except NotFound:
                    return UNCHANGED
        return sent.agent_id

    async def _fail(self, place: QueuePlace, group: QueuedGroup, error: LamellaError) -> None:
        """Remove an item that can't be done from the queue, and notify the conversation."""
        caller = Caller(group.rows[0].sender)
        conversation = await self._store.conversations.conversation(caller, place.conversation_id)
        for row in group.rows:
            notice = _refusal(row, group.sent, error, conversation.head, self._services.clock.now())
            with suppress(NotWaiting):
                await self._store.notices.add_notice(caller, notice, (row.id,), QueueStatus.FAILED)


def _refusal(
    row: QueuedMessage, sent: QueuedItem | UnreadableRow, error: LamellaError, head: str | None, at: datetime
) -> Notice:
    """The notice of an item that could not be done: a command with the error as its answer, or a message with its
    text.
    """
    why = " ".join(part for part in (error.message, error.hint) if part)
    data: JsonObject = {"error": error.as_dict(), "message_id": row.id, "text": row.text}
    if isinstance(sent, QueuedCommand):
        kind, text, name, argument = NoticeKind.COMMAND, why, sent.name, sent.argument
    else:
        shown = row.text if len(row.text) <= SHOWN else f"{row.text[:SHOWN]}…"
        kind, text, name, argument = NoticeKind.NOT_ANSWERED, f"Not answered: “{shown}”. {why}", "", ""
    return Notice(row.notice_id, row.conversation_id, head, kind, at, text, name, argument, data)
