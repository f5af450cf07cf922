"""Erases what other readers' conversations hold of a knowledge base that its owner removed.

One conversation is erased in one transaction: fixed sentences take the place of texts, ids and counts stay. A
conversation that is erased is not found again, so a job that is cut off goes on with those that are left.

    messages, summaries, found documents, titles   fixed sentences, as their readers have got since the base is gone
    packets                                        rewritten by `core.withheld_packets`
    notices, errors of turns and requests          fixed sentences; ids, figures, types and codes stay
    request bodies                                 each block that only such requests hold is a fixed sentence
    passages for searches                          removed, with their words and vectors

Who owned the base keeps what was made of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import (
    Connection,
    LargeBinary,
    RowMapping,
    Table,
    Text,
    delete,
    insert,
    or_,
    select,
    type_coerce,
    update,
)
from sqlalchemy.sql.expression import ColumnElement

from lamella.core.counting import count_tokens
from lamella.core.json import digest, encode
from lamella.core.knowledge import (
    WITHHELD_ANSWER,
    WITHHELD_DOCUMENT,
    WITHHELD_REQUEST,
    WITHHELD_SUMMARY,
    WITHHELD_TITLE,
    error_held_back,
    with_held_back,
)
from lamella.core.messages import TurnStatus
from lamella.core.packets import decode_packet
from lamella.core.records import Caller, Notice, QueueStatus, StoredSegment
from lamella.core.withheld_packets import packets_held_back
from lamella.storage.conversations.messages import step_of
from lamella.storage.conversations.packets import stored_lines
from lamella.storage.conversations.paths import find_turn
from lamella.storage.conversations.requests import all_requests
from lamella.storage.database import Rows, reads, writes
from lamella.storage.grants import ask_bases_of_turn, bases_of_requests, notice_without_text
from lamella.storage.recall.sources import forget_source
from lamella.storage.rows import Row, owned_by, record, values
from lamella.storage.tables import (
    blocks,
    conversations,
    found_documents,
    jobs,
    journal,
    knowledge_documents,
    knowledge_shelves,
    messages,
    notices,
    queued_messages,
    requests,
    runs,
    sessions,
    turns,
)

_BLOCK = encode({"type": "text", "text": WITHHELD_REQUEST})
_TOLD = ("blocks", "whys", "hints", "made_from")
"""What a waiting message has besides its text."""


def _names(column: ColumnElement[object], base_id: str) -> ColumnElement[bool]:
    """Whether a column names a base: in a list of ids, or in what people see of a result."""
    return type_coerce(column, Text).contains(base_id)


def _told(base_id: str) -> ColumnElement[bool]:
    """Whether a waiting message had content of a base besides its text."""
    return _names(queued_messages.c.payload, base_id) & _names(queued_messages.c.payload, '"made_from":["')


def _of_bases(base_id: str) -> Sequence[tuple[ColumnElement[str], ColumnElement[str], ColumnElement[bool]]]:
    """The conversation and the owner of each row that holds something of a base, and the condition of such a row."""
    of_message = or_(_names(messages.c.made_from, base_id), _names(messages.c.results, base_id))
    not_erased = type_coerce(requests.c.head, LargeBinary) != b"{}"
    return (
        (turns.c.conversation_id, turns.c.owner, turns.c.id.in_(select(messages.c.turn_id).where(of_message))),
        (requests.c.conversation_id, requests.c.owner, _names(requests.c.made_from, base_id) & not_erased),
        (sessions.c.conversation_id, sessions.c.owner, _names(sessions.c.made_from, base_id)),
        (found_documents.c.conversation_id, found_documents.c.owner, _names(found_documents.c.made_from, base_id)),
        (conversations.c.id, conversations.c.owner, _names(conversations.c.title_made_from, base_id)),
        (queued_messages.c.conversation_id, queued_messages.c.owner, _told(base_id)),
        (notices.c.conversation_id, notices.c.owner, _names(notices.c.made_from, base_id)),
    )


class ErasureRows(Rows):
    """What is left of a removed base in conversations."""

    @reads
    def conversations_of_base(
        self, connection: Connection, caller: Caller, base_id: str
    ) -> tuple[tuple[Caller, str], ...]:
        """The conversations of others that hold something of a base that the caller owned, each with its owner."""
        found: set[tuple[str, str]] = set()
        for conversation_id, owner, which in _of_bases(base_id):
            query = select(owner, conversation_id).where(which, owner != caller.user_id).distinct()
            found.update((row[0], row[1]) for row in connection.execute(query))
        return tuple((Caller(owner), conversation_id) for owner, conversation_id in sorted(found))

    @writes
    def erase_base(self, connection: Connection, caller: Caller, conversation_id: str, base_id: str) -> bool:
        """Erase what a conversation of the caller's holds of a base; False while a turn runs or waits in it."""
        its = (turns.c.conversation_id == conversation_id, turns.c.owner == caller.user_id)
        running = select(turns.c.id).where(*its, turns.c.status == TurnStatus.RUNNING)
        queue = queued_messages.c
        waiting = select(queue.id).where(queue.conversation_id == conversation_id, queue.status == QueueStatus.QUEUED)
        if connection.execute(running).first() or connection.execute(waiting).first():
            return False
        _erase_requests(connection, caller, conversation_id, base_id)
        for turn_id in connection.execute(select(turns.c.id).where(*its)).scalars().all():
            _erase_turn(connection, caller, turn_id, base_id)
        _erase_beside(connection, caller, conversation_id, base_id)
        return True

    @reads
    def documents_left(self, connection: Connection, caller: Caller, base_id: str) -> tuple[str, ...]:
        """The documents of a removed base of the caller's of which something is still stored."""
        left = (
            select(knowledge_documents.c.id)
            .join(knowledge_shelves, knowledge_shelves.c.number == knowledge_documents.c.shelf)
            .where(knowledge_shelves.c.owner == caller.user_id, knowledge_shelves.c.name == base_id)
        )
        return tuple(connection.execute(left).scalars())

    async def scrub(self) -> bool:
        """Remove what was erased from the bytes of the database too; False if it is still being read."""
        return await self._database.scrub()


def _erase_requests(connection: Connection, caller: Caller, conversation_id: str, base_id: str) -> None:
    """Erase the bodies of requests; a block that another request holds too is not of the base, and stays."""
    found = all_requests(connection, caller, conversation_id)
    closed = [one for one in found if base_id in one.made_from]
    kept = {mark for one in found if base_id not in one.made_from for part in one.segments for mark in part.blocks}
    erased = {mark for one in closed for part in one.segments for mark in part.blocks} - kept
    of = (blocks.c.conversation_id == conversation_id, blocks.c.owner == caller.user_id)
    for mark in sorted(erased):
        connection.execute(update(blocks).where(*of, blocks.c.digest == mark).values(data=_BLOCK))
    rows = select(requests.c.id, requests.c.segments, requests.c.said, requests.c.error).where(
        requests.c.id.in_([one.id for one in closed]), requests.c.owner == caller.user_id
    )
    for row in connection.execute(rows).mappings().all():
        changed: Row = {
            "head": {},
            "notes": (),
            "segments": tuple(_unlabelled(one) for one in row["segments"]),
            "said": None if row["said"] is None else replace(row["said"], text=WITHHELD_ANSWER),
            "error": None if row["error"] is None else error_held_back(row["error"]),
        }
        connection.execute(update(requests).where(requests.c.id == row["id"]).values(**changed))


def _unlabelled(segment: StoredSegment) -> StoredSegment:
    return replace(segment, label=segment.kind)


def _erase_turn(connection: Connection, caller: Caller, turn_id: str, base_id: str) -> None:
    """Erase the packets and the messages of a turn of which anything was made from a base."""
    if base_id not in ask_bases_of_turn(connection, caller, turn_id)():
        return
    _erase_packets(connection, caller, turn_id, base_id)
    for table, which in ((turns, turns.c.id), (runs, runs.c.turn_id)):
        _erase_errors(connection, table, which == turn_id, table.c.owner == caller.user_id)
    owned = (messages.c.turn_id == turn_id, messages.c.owner == caller.user_id)
    for row in connection.execute(select(messages).where(*owned)).mappings().all():
        changed = _told_without(row, base_id) if row["seq"] == 0 else _step_without(row, base_id)
        if changed:
            connection.execute(update(messages).where(messages.c.id == row["id"]).values(**changed))
            if row["seq"]:
                forget_source(connection, caller, row["id"])


def _erase_errors(connection: Connection, table: Table, *which: ColumnElement[bool]) -> None:
    """Erase the texts of errors in some rows."""
    failed = select(table.c.id, table.c.error).where(*which, table.c.error.is_not(None))
    for id, error in connection.execute(failed).all():
        connection.execute(update(table).where(table.c.id == id).values(error=error_held_back(error)))


def _erase_packets(connection: Connection, caller: Caller, turn_id: str, base_id: str) -> None:
    lines = stored_lines(connection, caller, find_turn(connection, caller, turn_id))
    if not lines:
        return
    connection.execute(delete(journal).where(journal.c.turn_id == turn_id, journal.c.owner == caller.user_id))
    connection.execute(update(turns).where(*owned_by(turns, caller, turn_id)).values(packets=None))
    made_from = bases_of_requests(connection, caller, turn_id)
    given = list(packets_held_back(lines, {base_id}, made_from))
    first, last = decode_packet(lines[0]).n, decode_packet(lines[-1]).n
    kept = {"turn_id": turn_id, "owner": caller.user_id, "first": first, "last": last}
    connection.execute(insert(journal), {**kept, "data": b"\n".join(given)})


def _told_without(row: RowMapping, base_id: str) -> Row:
    """What changes of a user message; nothing where its dynamic context told nothing of the base."""
    return {"dynamic": "", "dynamic_whys": (), "made_from": ()} if base_id in row["made_from"] else {}


def _step_without(row: RowMapping, base_id: str) -> Row:
    """The changes of a step. Empty if it was not made from the base."""
    step = step_of(row)
    [held] = with_held_back([step], {base_id})
    if held == step:
        return {}
    return values(messages, held, made_from=tuple(base for base in held.made_from if base != base_id))


def _erase_beside(connection: Connection, caller: Caller, conversation_id: str, base_id: str) -> None:
    """Erase summaries, found documents, the title, and what commands answered and the queue held."""
    summary = {"summary": WITHHELD_SUMMARY, "summary_tokens": count_tokens(WITHHELD_SUMMARY), "summary_check": {}}
    summary |= {"made_from": (), "embedding": None, "embedding_model": None}
    for row in _rows_of(connection, caller, sessions, conversation_id):
        if base_id in row["made_from"]:
            connection.execute(update(sessions).where(sessions.c.id == row["id"]).values(**summary))
            forget_source(connection, caller, row["id"])
    for row in _rows_of(connection, caller, found_documents, conversation_id):
        if base_id in row["made_from"]:
            data = WITHHELD_DOCUMENT.format(number=row["document"]).encode()
            document = {"title": WITHHELD_TITLE, "url": None, "data": data, "digest": digest(row["id"].encode(), data)}
            this = found_documents.c.id == row["id"]
            connection.execute(update(found_documents).where(this).values(**document, made_from=()))
    of_conversation = conversations.c.id == conversation_id, conversations.c.owner == caller.user_id
    titled = connection.execute(select(conversations.c.title_made_from).where(*of_conversation)).scalar_one_or_none()
    if base_id in (titled or ()):
        untitled = update(conversations).where(*of_conversation)
        connection.execute(untitled.values(title=WITHHELD_TITLE, title_made_from=()))
    for row in _rows_of(connection, caller, queued_messages, conversation_id):
        if base_id in row["payload"].get("made_from", ()):
            payload = {name: [] if name in _TOLD else value for name, value in row["payload"].items()}
            connection.execute(update(queued_messages).where(queued_messages.c.id == row["id"]).values(payload=payload))
    for row in _rows_of(connection, caller, notices, conversation_id):
        if base_id in row["made_from"]:
            told = notice_without_text(record(Notice, row))
            left = tuple(base for base in row["made_from"] if base != base_id)
            changed_notice = {"text": told.text, "data": told.data, "made_from": left}
            connection.execute(update(notices).where(notices.c.id == row["id"]).values(**changed_notice))
    its_sessions = select(sessions.c.id).where(sessions.c.conversation_id == conversation_id)
    about = or_(jobs.c.subject == conversation_id, jobs.c.subject.in_(its_sessions))
    _erase_errors(connection, jobs, jobs.c.owner == caller.user_id, about)


def _rows_of(connection: Connection, caller: Caller, table: Table, conversation_id: str) -> Sequence[RowMapping]:
    query = select(table).where(table.c.conversation_id == conversation_id, table.c.owner == caller.user_id)
    return connection.execute(query).mappings().all()
