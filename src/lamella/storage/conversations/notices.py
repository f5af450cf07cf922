"""What a conversation shows and no model reads (SPEC L12, L16), and what it came to."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, RowMapping, case, func, insert, or_, select

from lamella.core.errors import NotFound
from lamella.core.records import Caller, Notice, NoticeKind, Page, PageQuery, QueueStatus, Totals
from lamella.storage.columns import HEAD, json_of, json_text, moment_text, word_of
from lamella.storage.conversations.branches import beginning_of
from lamella.storage.conversations.conversations import find_conversation
from lamella.storage.conversations.queue import take_queued
from lamella.storage.database import Verbs, reads, writes
from lamella.storage.mapping import Row
from lamella.storage.pages import page
from lamella.storage.tables import messages, notices, requests, sessions


def _row(owner: str, notice: Notice) -> Row:
    return {
        "id": notice.id,
        "owner": owner,
        "conversation_id": notice.conversation_id,
        "turn_id": notice.turn_id,
        "kind": notice.kind.value,
        "name": notice.name,
        "argument": notice.argument,
        "text": notice.text,
        "data": json_text(notice.data),
        "at": moment_text(notice.at),
    }


def _of(row: RowMapping) -> Notice:
    what = f"notice {row['id']}"
    return Notice(
        id=row["id"],
        conversation_id=row["conversation_id"],
        turn_id=row["turn_id"],
        kind=word_of(NoticeKind, row["kind"], what),
        at=datetime.fromisoformat(row["at"]),
        text=row["text"],
        name=row["name"],
        argument=row["argument"],
        data=json_of(HEAD, row["data"], what),
    )


class NoticeVerbs(Verbs):
    """The verbs of `Store` about notices and totals."""

    @writes
    def add_notice(
        self,
        connection: Connection,
        caller: Caller,
        notice: Notice,
        queued_ids: Sequence[str] = (),
        status: QueueStatus = QueueStatus.BEGUN,
    ) -> None:
        """Store what a conversation shows beside its messages, and take what it tells of out of the queue."""
        find_conversation(connection, caller, notice.conversation_id)
        take_queued(connection, caller, notice.conversation_id, queued_ids, None, status)
        connection.execute(insert(notices), _row(caller.user_id, notice))

    @reads
    def notice(self, connection: Connection, caller: Caller, notice_id: str) -> Notice:
        """One notice."""
        query = select(notices).where(notices.c.id == notice_id, notices.c.owner == caller.user_id)
        row = connection.execute(query).mappings().first()
        if row is None:
            raise NotFound(f"There is no notice {notice_id}.", param="notice_id")
        return _of(row)

    @reads
    def notices(self, connection: Connection, caller: Caller, conversation_id: str, query: PageQuery) -> Page[Notice]:
        """The notices of a conversation."""
        rows = select(notices).where(notices.c.conversation_id == conversation_id, notices.c.owner == caller.user_id)
        find_conversation(connection, caller, conversation_id)
        found, has_more = page(connection, rows, notices.c.id, query)
        return Page(tuple(map(_of, found)), has_more)

    @reads
    def totals(self, connection: Connection, caller: Caller, conversation_id: str) -> Totals:
        """What the conversation cost, and what each of its sessions holds."""
        cost = select(func.coalesce(func.sum(requests.c.cost), 0.0)).where(
            requests.c.conversation_id == conversation_id, requests.c.owner == caller.user_id
        )
        guessed = select(requests.c.id).where(
            requests.c.conversation_id == conversation_id,
            requests.c.owner == caller.user_id,
            requests.c.usage_estimated.is_(True),
        )
        of_bases = or_(messages.c.made_from != "[]", messages.c.results.contains("knowledge_base"))
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
            .where(messages.c.role == "user")
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
