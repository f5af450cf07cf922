"""What waits in a conversation, and what is shown in it without being read by a model.

Messages wait for their turn, each with its own sender and time, in the order in which they came. Commands with their
answers, and notifications, are notices.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

from sqlalchemy import Connection, case, func, insert, or_, select, type_coerce, union_all, update
from sqlalchemy import Text as Stored

from lamella.core.errors import NotFound, NotWaiting, QueueFull
from lamella.core.json import JsonObject
from lamella.core.records import (
    Caller,
    Notice,
    Page,
    PageQuery,
    QueuedMessage,
    QueueStatus,
    Totals,
    queued_id_of,
    turn_id_of,
)
from lamella.storage.conversations.conversations import ask_conversation, find_conversation
from lamella.storage.conversations.messages import beginning_of
from lamella.storage.database import Rows, reads, writes
from lamella.storage.grants import bases_to_quote, may_quote, notices_held_back
from lamella.storage.replicas import ask_holder, tell_of_row
from lamella.storage.rows import find_row, owned_by, page, record, values
from lamella.storage.tables import messages, notices, requests, sessions, turns
from lamella.storage.tables import queued_messages as queue

_QUEUED = queue.c.status == QueueStatus.QUEUED


def _find(connection: Connection, caller: Caller, message_id: str) -> QueuedMessage:
    return record(QueuedMessage, find_row(connection, queue, caller, message_id, "queued message"))


def _left(message: QueuedMessage) -> NotWaiting:
    """The error for a message that does not wait any more."""
    match message.status:
        case QueueStatus.CANCELLED:
            hint = "It was cancelled; send it again."
        case QueueStatus.FAILED:
            hint = "It could not be answered; the conversation's notices say why."
        case _ if message.turn_id is None:
            hint = "It is a command, and ran; the conversation's notices have its answer."
        case _:
            hint = f"It is answered in turn {message.turn_id}; send a new message instead."
    return NotWaiting("This message is no longer in the queue.", hint=hint, param="message_id")


def _full(limit: int) -> QueueFull:
    return QueueFull(
        f"{limit} messages wait in this conversation: that is as many as may (LAMELLA_QUEUE_LIMIT).",
        hint="Wait until one is answered, or take some out: /queue lists them.",
    )


def _change(connection: Connection, caller: Caller, message_id: str, **changed: Any) -> QueuedMessage:
    """Change a message that still waits."""
    this = owned_by(queue, caller, message_id)
    changing = update(queue).where(*this, _QUEUED).values(**changed)
    ids = connection.execute(changing.returning(queue.c.id)).scalars()
    message = _find(connection, caller, message_id)
    if ids.first() is None:
        raise _left(message)
    return message


def take_unchanged(
    connection: Connection, caller: Caller, conversation_id: str, rows: Sequence[QueuedMessage], turn_id: str
) -> None:
    """As `take_queued`; raises `NotWaiting` also for a row that was changed since it was read."""
    taken = take_queued(connection, caller, conversation_id, [row.id for row in rows], turn_id)
    for row, now in zip(rows, taken, strict=True):
        if (now.text, now.payload) != (row.text, row.payload):
            raise NotWaiting("This message was changed meanwhile.", hint="Read it again.", param="message_id")


def take_same(connection: Connection, caller: Caller, turn_id: str) -> None:
    """Take the row of a message whose turn begins, if another process has queued it by the same Idempotency-Key."""
    this = owned_by(queue, caller, queued_id_of(turn_id))
    taken = update(queue).where(*this, _QUEUED).values(status=QueueStatus.BEGUN, turn_id=turn_id)
    connection.execute(taken)


def take_queued(
    connection: Connection,
    caller: Caller,
    conversation_id: str,
    message_ids: Sequence[str],
    turn_id: str | None,
    status: QueueStatus = QueueStatus.BEGUN,
) -> list[QueuedMessage]:
    """Take waiting messages of a conversation out of the queue, into a turn; raises `NotWaiting` for one that left."""
    taken = [_change(connection, caller, id, status=status, turn_id=turn_id) for id in message_ids]
    for row in taken:
        if row.conversation_id != conversation_id:
            raise NotFound(f"There is no queued message {row.id} in this conversation.", param="message_id")
    return taken


class QueueRows(Rows):
    """Messages that wait for their turn."""

    @writes
    def queue_message(
        self, connection: Connection, caller: Caller, message: QueuedMessage, limit: int | None = None
    ) -> QueuedMessage:
        """Append a message to the queue of its conversation. Returns it with its position.

        Raises `QueueFull` when `limit` of them wait, `NotWaiting` if the message has been here before:
        it waits, its turn has begun, or its command ran.
        """
        here = (queue.c.conversation_id == message.conversation_id, queue.c.owner == caller.user_id)
        waiting = select(func.count()).where(*here, _QUEUED)
        last = select(func.max(queue.c.seq)).where(*here)
        conversation_of = ask_conversation(connection, caller, message.conversation_id, lock=True)
        turn_id = turn_id_of(message)
        ids = (
            select(turns.c.id).where(*owned_by(turns, caller, turn_id)),
            select(notices.c.id).where(*owned_by(notices, caller, message.notice_id)),
            select(queue.c.id).where(*owned_by(queue, caller, message.id)),
        )
        known_of = connection.execute(union_all(*ids))
        waiting_of, last_of = connection.execute(waiting), connection.execute(last)
        process_id = self._database.process_id
        holder_of = ask_holder(connection, message.conversation_id) if process_id is not None else None
        conversation_of()
        if (known := known_of.scalar()) is not None:
            raise _left(replace(message, status=QueueStatus.BEGUN, turn_id=turn_id if known == turn_id else None))
        if limit is not None and waiting_of.scalar_one() >= limit:
            raise _full(limit)
        before = last_of.scalar_one()
        stored = replace(message, seq=1 if before is None else before + 1)
        connection.execute(insert(queue), values(queue, stored, owner=caller.user_id))
        if process_id is not None and holder_of is not None:
            signal_id, of = self._ids.new("signal"), message.conversation_id
            tell_of_row(connection, signal_id, process_id, caller.user_id, of, holder_of())
        return stored

    @reads
    def queued_message(self, connection: Connection, caller: Caller, message_id: str) -> QueuedMessage:
        """One message of the queue, whether or not it waits."""
        return _find(connection, caller, message_id)

    @reads
    def queued(self, connection: Connection, caller: Caller, conversation_id: str) -> tuple[QueuedMessage, ...]:
        """The messages of a conversation that wait, in order."""
        query = (
            select(queue)
            .where(queue.c.conversation_id == conversation_id, queue.c.owner == caller.user_id, _QUEUED)
            .order_by(queue.c.seq)
        )
        rows = connection.execute(query).mappings()
        find_conversation(connection, caller, conversation_id)
        return tuple(record(QueuedMessage, row) for row in rows)

    @writes
    def change_queued(
        self,
        connection: Connection,
        caller: Caller,
        message_id: str,
        *,
        text: str | None = None,
        payload: JsonObject | None = None,
    ) -> QueuedMessage:
        """Give a waiting message another text or payload; raises `NotWaiting` when it waits no more."""
        given = {"text": text, "payload": payload}
        changed = {name: value for name, value in given.items() if value is not None}
        return _change(connection, caller, message_id, **changed)

    @writes
    def cancel_queued(self, connection: Connection, caller: Caller, message_id: str) -> QueuedMessage:
        """Take a waiting message out of the queue; raises `NotWaiting` when it waits no more."""
        return _change(connection, caller, message_id, status=QueueStatus.CANCELLED)

    @reads
    def all_queued(self, connection: Connection) -> tuple[tuple[Caller, QueuedMessage], ...]:
        """The messages of every owner that wait, by conversation and in order: for recovery at start."""
        query = select(queue).where(_QUEUED).order_by(queue.c.conversation_id, queue.c.seq)
        rows = connection.execute(query).mappings().all()
        return tuple((Caller(row["owner"]), record(QueuedMessage, row)) for row in rows)


class NoticeRows(Rows):
    """Commands with their answers, and notifications."""

    @writes
    def add_notice(
        self,
        connection: Connection,
        caller: Caller,
        notice: Notice,
        queued_ids: Sequence[str] = (),
        status: QueueStatus = QueueStatus.BEGUN,
    ) -> None:
        """Store a notice of a conversation: a command with its answer, or a notification.

        The waiting rows `queued_ids` are what it tells of, and have this `status` from now on; raises `NotWaiting` when
        one waits no more, and then stores nothing.
        """
        find_conversation(connection, caller, notice.conversation_id)
        take_queued(connection, caller, notice.conversation_id, queued_ids, None, status)
        quoted = bases_to_quote(connection, caller, notice.conversation_id) if may_quote(notice) else ()
        connection.execute(insert(notices), values(notices, notice, owner=caller.user_id, made_from=quoted))

    @reads
    def notice(self, connection: Connection, caller: Caller, notice_id: str) -> Notice:
        """One notice; a fixed sentence in place of what its reader may not read any more."""
        found = record(Notice, find_row(connection, notices, caller, notice_id, "notice"))
        return notices_held_back(connection, caller, [found])[0]

    @reads
    def notices(self, connection: Connection, caller: Caller, conversation_id: str, query: PageQuery) -> Page[Notice]:
        """The notices of a conversation; fixed sentences in place of what their reader may not read any more."""
        rows = select(notices).where(notices.c.conversation_id == conversation_id, notices.c.owner == caller.user_id)
        find_conversation(connection, caller, conversation_id)
        found = page(connection, rows, notices.c.id, query, partial(record, Notice))
        return Page(notices_held_back(connection, caller, found.data), found.has_more)

    @reads
    def totals(self, connection: Connection, caller: Caller, conversation_id: str) -> Totals:
        """What the conversation cost, and how many messages each of its sessions has."""
        cost = select(func.coalesce(func.sum(requests.c.cost), 0.0)).where(
            requests.c.conversation_id == conversation_id, requests.c.owner == caller.user_id
        )
        guessed = select(requests.c.id).where(
            requests.c.conversation_id == conversation_id,
            requests.c.owner == caller.user_id,
            requests.c.usage_estimated.is_(True),
        )
        of_bases = or_(messages.c.made_from != (), type_coerce(messages.c.results, Stored).contains("knowledge_base"))
        counts = (
            select(
                messages.c.session_id,
                func.count(),
                func.sum(messages.c.tokens),
                func.max(case((of_bases, 1), else_=0)),
            )
            .join(sessions, sessions.c.id == messages.c.session_id)
            .where(sessions.c.conversation_id == conversation_id, sessions.c.owner == caller.user_id)
            .group_by(messages.c.session_id)
        )
        first = (
            select(func.min(messages.c.id))
            .join(sessions, sessions.c.id == messages.c.session_id)
            .where(sessions.c.conversation_id == conversation_id, sessions.c.owner == caller.user_id)
            .where(messages.c.role == "user", messages.c.parts != ())
            .group_by(messages.c.session_id)
        )
        asked = select(messages.c.id, messages.c.session_id, messages.c.parts).where(messages.c.id.in_(first))
        find_conversation(connection, caller, conversation_id)
        spent = connection.execute(cost).scalar_one()
        rows = connection.execute(counts).all()
        estimated = connection.execute(guessed.limit(1)).first() is not None
        questions = connection.execute(asked).mappings().all()
        return Totals(
            float(spent),
            {session_id: count for session_id, count, _, _ in rows},
            estimated,
            {session_id: tokens for session_id, _, tokens, of_base in rows if not of_base},
            {row["session_id"]: beginning_of(row) for row in questions},
        )
