"""Copies the path to a place of one conversation into another, with all steps, documents and decisions."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, Table, func, insert, or_, select, update

from lamella.core.decisions import DecisionKind
from lamella.core.ids import Ids
from lamella.core.records import Caller, Conversation, Place
from lamella.storage.conversations.paths import line_of
from lamella.storage.rows import NO_BILL, UNKNOWN_BILL, Row, owned_by
from lamella.storage.tables import (
    attachments,
    conversations,
    decisions,
    document_numbers,
    found_documents,
    messages,
    runs,
    sessions,
    turns,
)

_WHERE = frozenset({DecisionKind.SESSION, DecisionKind.BRANCH, DecisionKind.PREFERRED})
"""Decisions about places in a tree, which a copied path does not have."""


def copied_path(
    connection: Connection, caller: Caller, ids: Ids, source: Conversation, place: Place, target: Conversation
) -> Place | None:
    """Copy the turns up to a place into an empty conversation. Returns the place there.

    Returns None, and copies nothing, if the source is in a later session: its window is more than its turns. Bills,
    requests and packets are not copied: they are of the turns that were answered.
    """
    its = (sessions.c.conversation_id == source.id, sessions.c.owner == caller.user_id)
    if connection.execute(select(func.count()).select_from(sessions).where(*its)).scalar_one() > 1:
        return None
    line = line_of(caller, place, None)
    path = select(*turns.c, line.c.followed).join(line, line.c.id == turns.c.id).order_by(line.c.depth.desc())
    copy, parent = _Copy(connection, caller, ids, source.id, target, {}), Place()
    for row in connection.execute(path).mappings().all():
        parent = copy.turn(row, parent)
    copy.documents()
    copy.decisions()
    there = {"head": parent.turn_id, "head_run_id": parent.run_id}
    connection.execute(update(conversations).where(*owned_by(conversations, caller, target.id)).values(**there))
    return parent


@dataclass(frozen=True, slots=True)
class _Copy:
    """Turns of one conversation on their way into another. `ids` are the new ids by the old ones."""

    connection: Connection
    caller: Caller
    made: Ids
    source: str
    target: Conversation
    ids: dict[str, str]

    def turn(self, row: RowMapping, parent: Place) -> Place:
        """Copy a turn with the run that is followed and its messages."""
        there = Place(self._new(row["id"]), self._new(row["followed"]))
        told = {name: value for name, value in row.items() if name in turns.c}
        placed = {"id": there.turn_id, "parent_id": parent.turn_id, "parent_run_id": parent.run_id, "expired": None}
        placed |= {"packets": None}
        self.connection.execute(insert(turns), {**told, "conversation_id": self.target.id, **placed, **NO_BILL})
        [run] = self._rows(runs, runs.c.id == row["followed"])
        own = {"id": there.run_id, "turn_id": there.turn_id, "number": 0}
        self.connection.execute(insert(runs), {**run, **own, **NO_BILL})
        of_run = or_(messages.c.run_id.is_(None), messages.c.run_id == row["followed"])
        for seq, message in enumerate(self._rows(messages, messages.c.turn_id == row["id"], of_run, by=messages.c.seq)):
            self._message(message, there, seq)
        return there

    def _message(self, message: Row, there: Place, seq: int) -> None:
        run_id = there.run_id if message["run_id"] is not None else None
        own = {"id": self._new(message["id"]), "turn_id": there.turn_id, "run_id": run_id, "seq": seq}
        placed = {**own, "session_id": self.target.session_id}
        self.connection.execute(insert(messages), {**message, **placed, **UNKNOWN_BILL})
        for attached in self._rows(attachments, attachments.c.message_id == message["id"]):
            self.connection.execute(insert(attachments), {**attached, "message_id": own["id"]})

    def documents(self) -> None:
        """Copy the documents and all numbers, so that a citation names the same document."""
        for row in self._rows(document_numbers, document_numbers.c.conversation_id == self.source):
            self.connection.execute(insert(document_numbers), {**row, "conversation_id": self.target.id})
        for row in self._rows(found_documents, found_documents.c.conversation_id == self.source):
            own = {"id": self._new(row["id"]), "conversation_id": self.target.id}
            self.connection.execute(insert(found_documents), {**row, **own})
        following = select(conversations.c.next_document).where(conversations.c.id == self.source).scalar_subquery()
        this = owned_by(conversations, self.caller, self.target.id)
        self.connection.execute(update(conversations).where(*this).values(next_document=following))

    def decisions(self) -> None:
        """Copy what was decided on the path, with the new ids."""
        for row in self._rows(decisions, decisions.c.conversation_id == self.source, by=decisions.c.id):
            if row["kind"] in _WHERE or (row["turn_id"] is not None and row["turn_id"] not in self.ids):
                continue
            told = {name: self._renamed(row[name]) for name in ("subject", "outcome", "first_changed")}
            own = {name: self.ids.get(row[name] or "") for name in ("turn_id", "run_id")}
            placed = {"id": self.made.new("dec"), "conversation_id": self.target.id}
            self.connection.execute(insert(decisions), {**row, **told, **own, **placed})

    def _new(self, id: str) -> str:
        if id not in self.ids:
            self.ids[id] = self.made.new(id.partition("_")[0])
        return self.ids[id]

    def _renamed(self, text: str | None) -> str | None:
        """A text with the new ids in place of the old ones."""
        return None if text is None else re.sub(r"\w+", lambda word: self.ids.get(word[0], word[0]), text)

    def _rows(self, table: Table, *which: ColumnElement[bool], by: ColumnElement[Any] | None = None) -> list[Row]:
        query = select(table).where(*which, table.c.owner == self.caller.user_id)
        found = self.connection.execute(query if by is None else query.order_by(by)).mappings()
        return [dict(row) for row in found]
