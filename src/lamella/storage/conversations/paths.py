"""Turns as they are read: one by one with their messages, or in a row as the path to a place.

A conversation is a tree: a turn follows the answer of one run. The path to a place is the line of turns up to it, and
the decisions that hold there are those that were made on it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from datetime import datetime

from sqlalchemy import CTE, ColumnElement, Connection, RowMapping, Select, func, literal, or_, select

from lamella.core.handover import folded
from lamella.core.messages import Attachment, Turn
from lamella.core.records import Caller, Conversation, Place, TurnRecord
from lamella.storage.conversations.messages import MESSAGE, Attached, turn_of, turn_record_of
from lamella.storage.failures import damaged
from lamella.storage.files import attachment_of, file_of, find_contents
from lamella.storage.grants import records_held_back, turns_held_back
from lamella.storage.rows import find_row
from lamella.storage.tables import attachments, conversations, files, messages, runs, turns

Id = str | ColumnElement[str] | None
"""An id, or where it stands."""


def line_of(caller: Caller, place: Place, after: str | None, most: int | None = None) -> CTE:
    """The turns from `place` back to the first, or to the one after `after`, at most `most`.

    `depth` counts from the place; `followed` is the run whose answer the next turn of the line follows.
    """
    return _line(caller, place.turn_id, place.run_id, after, most)


def _line(caller: Caller, turn_id: Id, run_id: Id, after: Id, most: int | None = None) -> CTE:
    owned_by = select(turns.c.id, turns.c.parent_id, turns.c.parent_run_id, turns.c.status)
    owned_by = owned_by.where(turns.c.owner == caller.user_id)
    followed = run_id if isinstance(run_id, ColumnElement) else literal(run_id, turns.c.parent_run_id.type)
    line = owned_by.add_columns(literal(0).label("depth"), followed.label("followed"))
    line = line.where(turns.c.id == turn_id)
    line_cte = (line if after is None else line.where(turns.c.id != after)).cte("line", recursive=True)
    older = owned_by.add_columns(line_cte.c.depth + 1, line_cte.c.parent_run_id).where(
        turns.c.id == line_cte.c.parent_id
    )
    if after is not None:
        older = older.where(turns.c.id != after)
    if most is not None:
        older = older.where(line_cte.c.depth + 1 < most)
    return line_cte.union_all(older)


_TurnIds = Select[tuple[str]]


def find_turn(connection: Connection, caller: Caller, turn_id: str) -> RowMapping:
    """The row of the caller's turn."""
    return find_row(connection, turns, caller, turn_id, "turn")


def _attachments(connection: Connection, caller: Caller, turn_ids: _TurnIds) -> Callable[[], Attached]:
    """Asks for the attachments of these turns by message, each file's text or picture loaded once."""
    query = (
        select(attachments.c.message_id, attachments.c.document, attachments.c.use, *files.c)
        .join(files, files.c.id == attachments.c.file_id)
        .join(messages, messages.c.id == attachments.c.message_id)
        .where(messages.c.turn_id.in_(turn_ids), attachments.c.owner == caller.user_id)
        .order_by(attachments.c.message_id, attachments.c.position)
    )
    asked = connection.execute(query).mappings()

    def attached() -> Attached:
        rows = asked.all()
        of = [file_of(row) for row in rows]
        contents = find_contents(connection, caller, of)
        found: defaultdict[str, tuple[Attachment, ...]] = defaultdict(tuple)
        for row, file in zip(rows, of, strict=True):
            found[row["message_id"]] += (attachment_of(file, row["document"], row["use"], contents),)
        return found

    return attached


def _by_turn(rows: Sequence[RowMapping]) -> Mapping[str, list[RowMapping]]:
    found: defaultdict[str, list[RowMapping]] = defaultdict(list)
    for row in rows:
        found[row["turn_id"]].append(row)
    return found


def find_records(connection: Connection, caller: Caller, rows: Sequence[RowMapping]) -> tuple[TurnRecord, ...]:
    """The turns of these rows, with their messages, as the caller may read them."""
    return records_held_back(connection, caller, stored_records(connection, caller, rows))


def stored_records(connection: Connection, caller: Caller, rows: Sequence[RowMapping]) -> tuple[TurnRecord, ...]:
    """The turns of these rows as they are stored."""
    return ask_stored(connection, caller, select(turns.c.id).where(turns.c.id.in_([row["id"] for row in rows])))(rows)


def ask_stored(
    connection: Connection, caller: Caller, turn_ids: _TurnIds
) -> Callable[[Sequence[RowMapping]], tuple[TurnRecord, ...]]:
    """Asks for turns as they are stored; the answer needs their rows."""
    query = (
        select(*MESSAGE)
        .where(messages.c.turn_id.in_(turn_ids), messages.c.owner == caller.user_id)
        .order_by(messages.c.turn_id, messages.c.seq)
    )
    of_runs = select(runs).where(runs.c.turn_id.in_(turn_ids), runs.c.owner == caller.user_id).order_by(runs.c.number)
    asked, asked_runs = connection.execute(query).mappings(), connection.execute(of_runs).mappings()
    attachments_of = _attachments(connection, caller, turn_ids)

    def found(rows: Sequence[RowMapping]) -> tuple[TurnRecord, ...]:
        by_turn, runs_of, attached = _by_turn(asked.all()), _by_turn(asked_runs.all()), attachments_of()
        return tuple(
            turn_record_of(row, runs_of.get(row["id"], ()), by_turn.get(row["id"], ()), attached) for row in rows
        )

    return found


def ask_sent(connection: Connection, caller: Caller, turn_id: Id, most: int) -> Callable[[], tuple[datetime, ...]]:
    """Asks when the messages were sent that lead to this turn, its own included: the newest so many, the oldest
    first.
    """
    if turn_id is None:
        return tuple
    line = _line(caller, turn_id, None, None, most)
    query = (
        select(messages.c.sent_at)
        .join(line, line.c.id == messages.c.turn_id)
        .where(messages.c.owner == caller.user_id, messages.c.run_id.is_(None), messages.c.parts != ())
        .order_by(line.c.depth.desc())
    )
    asked = connection.execute(query).scalars()
    return lambda: tuple(sent for sent in asked if sent)


def find_path(
    connection: Connection, caller: Caller, conversation_id: str, place: Place, after: str | None = None
) -> tuple[Turn, ...]:
    """The turns to a place, canonical, the running one included: all, or those after the turn `after`.

    Of each turn there are the steps of the run that is followed, and its status is that run's. What lies before `after`
    is not read, however much it is; but of a turn that is continued after it, all is.
    """
    if place.turn_id is None or place.turn_id == after:
        return ()
    stored = _ask_turns(connection, caller, place.turn_id, place.run_id, after)()
    return _found(connection, caller, conversation_id, place, after, stored)


def ask_window(
    connection: Connection, caller: Caller, conversation_id: str, start: ColumnElement[str]
) -> Callable[[Conversation, str | None], tuple[Turn, ...]]:
    """Asks for the turns after `start` to where a conversation stands, of one that was never forked.

    The answer needs what was asked for along with them: the conversation, and the value of `start`.
    """
    here = (conversations.c.id == conversation_id, conversations.c.owner == caller.user_id, ~conversations.c.forked)
    head, run_id = (
        select(column).where(*here).scalar_subquery() for column in (conversations.c.head, conversations.c.head_run_id)
    )
    asked = _ask_turns(connection, caller, head, run_id, func.coalesce(start, ""))

    def path(conversation: Conversation, after: str | None) -> tuple[Turn, ...]:
        place = conversation.place
        if place.turn_id is None or place.turn_id == after:
            return ()
        return _found(connection, caller, conversation.id, place, after, asked())

    return path


def _found(
    connection: Connection,
    caller: Caller,
    conversation_id: str,
    place: Place,
    after: str | None,
    stored: Sequence[Turn],
) -> tuple[Turn, ...]:
    """The path of these stored turns. More is read of a turn that is continued after `after`."""
    if not stored or stored[-1].id != place.turn_id:
        raise damaged(f"conversation {conversation_id}", "its turns are missing")
    while after is not None and stored[0].user.continues:
        after = find_turn(connection, caller, after)["parent_id"]
        stored = _ask_turns(connection, caller, place.turn_id, place.run_id, after)()
    return turns_held_back(connection, caller, folded(stored))


def _ask_turns(connection: Connection, caller: Caller, turn_id: Id, run_id: Id, after: Id) -> Callable[[], list[Turn]]:
    """Asks for turns as they are stored: those that continue another are rows of their own."""
    line = _line(caller, turn_id, run_id, after)
    query = (
        select(*MESSAGE, func.coalesce(runs.c.status, line.c.status).label("status"))
        .join(line, line.c.id == messages.c.turn_id)
        .join(runs, runs.c.id == line.c.followed, isouter=True)
        .where(messages.c.owner == caller.user_id)
        .where(or_(messages.c.run_id.is_(None), messages.c.run_id == line.c.followed))
        .order_by(line.c.depth.desc(), messages.c.seq)
    )
    asked = connection.execute(query).mappings()
    attachments_of = _attachments(connection, caller, select(line.c.id))

    def found() -> list[Turn]:
        by_turn, attached = _by_turn(asked.all()), attachments_of()
        return [turn_of(turn_id, rows[0]["status"], rows, attached) for turn_id, rows in by_turn.items()]

    return found
