"""Passages of conversations: how they are stored, counted and forgotten, and what each is of."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, delete, select, update

from lamella.core.errors import NotFound
from lamella.core.knowledge import WITHHELD, WITHHELD_ANSWER, WITHHELD_SUMMARY, bases_of, held_back
from lamella.core.messages import Text, ToolResult
from lamella.core.recall import Passage, Source, Speaker
from lamella.core.records import Caller
from lamella.storage.database import insert_missing
from lamella.storage.grants import closed_bases
from lamella.storage.passages import SAID, NewEntry, forget_words
from lamella.storage.rows import values
from lamella.storage.tables import messages, recall_entries, recall_versions, sessions, turns


def recall_version(connection: Connection, caller: Caller) -> int:
    """How often passages of this owner were changed or removed."""
    query = select(recall_versions.c.changed).where(recall_versions.c.owner == caller.user_id)
    found = connection.execute(query).scalar_one_or_none()
    return 0 if found is None else int(found)


def touch_recall(connection: Connection, caller: Caller) -> None:
    """Passages were changed or removed, or belong to another session now."""
    insert_missing(connection, recall_versions, [{"owner": caller.user_id, "changed": 0}])
    connection.execute(
        update(recall_versions)
        .where(recall_versions.c.owner == caller.user_id)
        .values(changed=recall_versions.c.changed + 1)
    )


def forget_said(connection: Connection, caller: Caller, which: ColumnElement[bool]) -> None:
    """Remove some of an owner's passages: those of a conversation, or of a source that is no longer what it was."""
    gone = delete(recall_entries).where(recall_entries.c.owner == caller.user_id, which).returning(recall_entries.c.id)
    entries = list(connection.execute(gone).scalars())
    if entries:
        forget_words(connection, (caller.user_id, 0), entries)
        touch_recall(connection, caller)


def forget_source(connection: Connection, caller: Caller, source_id: str) -> None:
    """Remove the passages of a message or a summary that is no longer what it was."""
    forget_said(connection, caller, recall_entries.c.source_id == source_id)


def _entry_row(owner: str, conversation_id: str, passage: Passage) -> dict[str, Any]:
    of = {"owner": owner, "conversation_id": conversation_id, "source_id": passage.id, "length": len(passage.terms)}
    row = values(recall_entries, passage, **of)
    del row["id"]
    return row


def add_passages(
    connection: Connection, caller: Caller, conversation_id: str, passages: Sequence[Passage], model: str
) -> None:
    """Store passages with their words, and the vectors that they bring."""
    new = [
        NewEntry(_entry_row(caller.user_id, conversation_id, passage), passage.terms, passage.vector)
        for passage in passages
    ]
    if new:
        SAID.add(connection, (caller.user_id, 0), new, model)


_MESSAGES = (
    select(
        messages.c.id,
        messages.c.turn_id,
        messages.c.seq,
        messages.c.parts,
        messages.c.results,
        messages.c.made_from,
        messages.c.session_id,
        messages.c.sent_at,
        turns.c.conversation_id,
        turns.c.started_at,
        sessions.c.number,
    )
    .join(turns, turns.c.id == messages.c.turn_id)
    .join(sessions, sessions.c.id == messages.c.session_id)
)


def find_sources(
    connection: Connection, caller: Caller, entries: Sequence[int] | Select[tuple[int]]
) -> dict[int, tuple[Source, int, int]]:
    """What passages are of, by entry, each with from where to where it goes; without those that are gone."""
    its = (recall_entries.c.id.in_(entries), recall_entries.c.owner == caller.user_id)
    asked = connection.execute(select(recall_entries).where(*its)).mappings()
    ids = select(recall_entries.c.source_id).where(*its)
    of_messages = _MESSAGES.where(messages.c.id.in_(ids), messages.c.owner == caller.user_id)
    of_sessions = select(sessions).where(sessions.c.id.in_(ids), sessions.c.owner == caller.user_id)
    asked_messages, asked_sessions = (connection.execute(one).mappings() for one in (of_messages, of_sessions))
    rows = asked.all()
    said = {row["id"]: row for row in asked_messages}
    of = {row["id"]: row for row in asked_sessions}
    closed = _closed(connection, caller, list(said.values()), list(of.values()))
    summaries = {id: _summary_of(row, closed) for id, row in of.items()}
    found = {}
    for row in rows:
        message = said.get(row["source_id"])
        source = (
            _message_of(message, row["call_id"], closed) if message is not None else summaries.get(row["source_id"])
        )
        # What is held back is not found either: that words stand in it would tell something.
        if source is not None and source.content not in (WITHHELD, WITHHELD_ANSWER, WITHHELD_SUMMARY):
            source = replace(source, speaker=row["speaker"])
            found[row["id"]] = (source, row["start"], row["end"])
    return found


def find_source(connection: Connection, caller: Caller, conversation_id: str | None, reference: str) -> Source:
    """Something in full, by its message id, its call id or both. Raises `NotFound`."""
    message_id, _, call_id = reference.partition("/")
    if message_id and not call_id:
        call = (recall_entries.c.call_id == message_id, recall_entries.c.call_id != "")
        owned_by = (recall_entries.c.owner == caller.user_id, *call)
        newest = select(recall_entries.c.source_id).where(*owned_by).order_by(recall_entries.c.id.desc()).limit(1)
        if conversation_id is not None:
            newest = newest.where(recall_entries.c.conversation_id == conversation_id)
        of = connection.execute(newest).scalar_one_or_none()
        if of is not None:
            message_id, call_id = of, message_id
    query = _MESSAGES.where(messages.c.id == message_id, messages.c.owner == caller.user_id)
    if conversation_id is not None:
        query = query.where(turns.c.conversation_id == conversation_id)
    row = connection.execute(query).mappings().first()
    closed = _closed(connection, caller, [row] if row is not None else [])
    found = _message_of(row, call_id, closed) if row is not None else None
    if found is None:
        raise NotFound(f"There is no message {reference[:80]}.", param="id")
    return found


def readable_summaries(connection: Connection, caller: Caller, rows: Sequence[RowMapping]) -> tuple[Source, ...]:
    """The summaries of these sessions, without those of which something is closed to the caller."""
    closed = _closed(connection, caller, summaries=rows)
    return tuple(summary for row in rows if closed.isdisjoint((summary := _summary_of(row)).made_from))


def readable_sessions(connection: Connection, caller: Caller, session_ids: Sequence[str]) -> frozenset[str]:
    """Of these sessions, those whose summary may be read: by what is held back nothing is found."""
    query = select(sessions.c.id, sessions.c.made_from)
    query = query.where(sessions.c.id.in_(session_ids), sessions.c.owner == caller.user_id)
    rows = connection.execute(query).mappings().all()
    closed = _closed(connection, caller, summaries=rows)
    return frozenset(row["id"] for row in rows if closed.isdisjoint(_made_from(row)))


def _results_of(row: RowMapping) -> list[ToolResult]:
    return [part for part in row["results"] if isinstance(part, ToolResult)]


def _made_from(row: RowMapping) -> frozenset[str]:
    return frozenset(row["made_from"])


def _closed(
    connection: Connection, caller: Caller, rows: Sequence[RowMapping] = (), summaries: Sequence[RowMapping] = ()
) -> frozenset[str]:
    """The bases that are closed to the caller, of those that these messages and sessions have something of."""
    named = frozenset().union(*(bases_of(result) for row in rows for result in _results_of(row)))
    return closed_bases(connection, caller, named.union(*map(_made_from, (*rows, *summaries))))


def _message_of(row: RowMapping, call_id: str, closed: frozenset[str]) -> Source | None:
    """A message, or the result of a call of it; None when it has no such call. What came from `closed` is held back."""
    name, speaker = "", Speaker.ASSISTANT if row["seq"] else Speaker.USER
    # Attachments of a user's message are listed next to it: the words are the user's own.
    made_from = _made_from(row) if row["seq"] else frozenset[str]()
    is_closed = not made_from.isdisjoint(closed)
    if call_id:
        result = next((held_back(one, closed) for one in _results_of(row) if one.call_id == call_id), None)
        if result is None:
            return None
        made_from |= bases_of(result)
        content, name, speaker = WITHHELD if is_closed else result.content, result.name, Speaker.TOOL
    elif is_closed:
        content = WITHHELD_ANSWER
    else:
        content = "".join(part.text for part in row["parts"] if isinstance(part, Text))
    return Source(
        conversation_id=row["conversation_id"],
        session_id=row["session_id"],
        session=row["number"],
        turn_id=row["turn_id"],
        id=row["id"],
        call_id=call_id,
        speaker=speaker,
        name=name,
        at=row["sent_at"] or row["started_at"],
        content=content,
        made_from=tuple(sorted(made_from - closed)),
    )


def _summary_of(row: RowMapping, closed: frozenset[str] = frozenset()) -> Source:
    made_from = _made_from(row)
    return Source(
        conversation_id=row["conversation_id"],
        session_id=row["id"],
        session=row["number"],
        turn_id=None,
        id=row["id"],
        call_id="",
        speaker=Speaker.SUMMARY,
        name="",
        at=row["closed_at"] or row["opened_at"],
        content=(row["summary"] or "") if made_from.isdisjoint(closed) else WITHHELD_SUMMARY,
        made_from=tuple(sorted(made_from)),
    )
