"""The tree of a conversation's turns: its current path, its branches, and where it goes on from."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from datetime import datetime

from sqlalchemy import Connection, RowMapping, or_, select, update

from lamella.core.decisions import Decision
from lamella.core.errors import NotFound
from lamella.core.messages import TurnStatus
from lamella.core.records import (
    Branch,
    Caller,
    Conversation,
    NewRun,
    Page,
    PageQuery,
    Place,
    TurnOnPath,
)
from lamella.core.sessions import SessionReturn, SessionStep
from lamella.storage.conversations.conversations import find_conversation, turn_in_progress
from lamella.storage.conversations.decisions import Moment, decide
from lamella.storage.conversations.messages import beginning_of
from lamella.storage.conversations.paths import find_records, line_of
from lamella.storage.conversations.sessions import followed_run, move_to_session
from lamella.storage.conversations.turns import check_head
from lamella.storage.database import Rows, reads, writes
from lamella.storage.rows import find_row, owned_by, page_rows, record
from lamella.storage.tables import conversations, messages, runs, turns


def _path_rows(
    connection: Connection, caller: Caller, conversation: Conversation, query: PageQuery
) -> tuple[list[RowMapping], dict[str, str | None], bool]:
    """A page of the current path: rows of turns, the run that is followed in each, and whether there are more."""
    if query.order == "desc":
        place = conversation.place if query.after is None else _before(connection, caller, conversation, query.after)
        line = line_of(caller, place, None, most=query.limit + 1)
        order = line.c.depth.asc()
    else:
        line = line_of(caller, conversation.place, None)
        order = line.c.depth.desc()
    listed = select(*turns.c, line.c.followed, line.c.depth).join(line, line.c.id == turns.c.id).order_by(order)
    if query.order == "asc" and query.after is not None:
        depth = select(line.c.depth).where(line.c.id == query.after).scalar_subquery()
        listed = listed.where(line.c.depth < depth)
    rows = list(connection.execute(listed.limit(query.limit + 1)).mappings())
    shown = rows[: query.limit]
    return shown, {row["id"]: row["followed"] for row in shown}, len(rows) > query.limit


def _before(connection: Connection, caller: Caller, conversation: Conversation, turn_id: str) -> Place:
    """What a turn follows; nothing for one that is not here."""
    query = select(turns.c.parent_id, turns.c.parent_run_id).where(
        *owned_by(turns, caller, turn_id), turns.c.conversation_id == conversation.id
    )
    row = connection.execute(query).first()
    return Place(*row) if row is not None else Place()


def _siblings(
    connection: Connection, caller: Caller, conversation_id: str, rows: Sequence[RowMapping]
) -> dict[Place, tuple[str, ...]]:
    """The turns that follow the same answers as these do, the oldest first."""
    parents = {row["parent_id"] for row in rows if row["parent_id"] is not None}
    query = (
        select(turns.c.id, turns.c.parent_id, turns.c.parent_run_id)
        .where(turns.c.conversation_id == conversation_id, turns.c.owner == caller.user_id)
        .where(or_(turns.c.parent_id.in_(parents), turns.c.parent_id.is_(None)))
        .order_by(turns.c.started_at, turns.c.id)
    )
    found: defaultdict[Place, tuple[str, ...]] = defaultdict(tuple)
    for id, parent_id, parent_run_id in connection.execute(query).all():
        found[Place(parent_id, parent_run_id)] += (id,)
    return found


def _latest(connection: Connection, caller: Caller, conversation: Conversation, place: Place) -> Place:
    """The newest end of what follows a place; itself where nothing does."""
    line = (
        select(turns.c.id, turns.c.started_at)
        .where(turns.c.parent_id == place.turn_id, turns.c.parent_run_id == place.run_id)
        .where(turns.c.owner == caller.user_id)
        .cte("behind", recursive=True)
    )
    line = line.union_all(select(turns.c.id, turns.c.started_at).where(turns.c.parent_id == line.c.id))
    newest = select(line.c.id).order_by(line.c.started_at.desc(), line.c.id.desc()).limit(1)
    turn_id: str | None = connection.execute(newest).scalar_one_or_none()
    if turn_id is None:
        return place
    return Place(turn_id, followed_run(connection, caller, conversation, turn_id))


class BranchRows(Rows):
    """The tree of a conversation: its current path, and the place where it continues."""

    @reads
    def place_of(self, connection: Connection, caller: Caller, conversation_id: str, message_id: str) -> Place:
        """The place after a message or a run; after a user message, the place of the run that is followed."""
        conversation = find_conversation(connection, caller, conversation_id)
        of_message = select(messages.c.turn_id, messages.c.run_id).where(messages.c.id == message_id)
        of_run = select(runs.c.turn_id, runs.c.id).where(runs.c.id == message_id)
        row = connection.execute(of_message).first() or connection.execute(of_run).first()
        here = owned_by(turns, caller, row[0] if row is not None else "")
        query = select(turns.c.id).where(*here, turns.c.conversation_id == conversation_id)
        if row is None or connection.execute(query).first() is None:
            raise NotFound(
                f"There is no message {message_id[:80]} in this conversation.",
                hint="Its turns name their messages and runs.",
                param="parent_message_id",
            )
        turn_id, run_id = row
        if run_id is None:
            run_id = followed_run(connection, caller, conversation, turn_id)
        return Place(turn_id, run_id)

    @reads
    def turn_of_run(self, connection: Connection, caller: Caller, run_id: str) -> str:
        """The id of the turn that a run belongs to."""
        return str(find_row(connection, runs, caller, run_id, "run")["turn_id"])

    @reads
    def latest(self, connection: Connection, caller: Caller, conversation_id: str, place: Place) -> Place:
        """The newest end of what follows a place; itself where nothing does."""
        conversation = find_conversation(connection, caller, conversation_id)
        return _latest(connection, caller, conversation, place)

    @writes
    def go_to(
        self,
        connection: Connection,
        caller: Caller,
        conversation_id: str,
        expected: Place,
        place: Place,
        at: datetime,
        decided: Sequence[Decision],
        session: SessionStep | SessionReturn | None = None,
    ) -> Conversation:
        """Let a conversation go on from another place, in `session` if it is not in that one; what followed stays.

        Raises `HeadMoved` when it does not stand at `expected`, `SessionMoved`, `TurnInProgress` while another turn
        than that of `place` runs, `NotFound` for a run that is not the turn's; then nothing is stored.
        """
        conversation = find_conversation(connection, caller, conversation_id, lock=True)
        if conversation.running_turn not in (None, place.turn_id):
            raise turn_in_progress(str(conversation.running_turn))
        check_head(conversation, expected)
        this = (runs.c.id == place.run_id, runs.c.turn_id == place.turn_id, turns.c.id == runs.c.turn_id)
        query = select(runs.c.id).where(*this, turns.c.conversation_id == conversation_id)
        if connection.execute(query).first() is None:
            raise NotFound(f"There is no run {place.run_id} in turn {place.turn_id}.", param="run_id")
        if session is not None:
            move_to_session(connection, caller, conversation, session)
        connection.execute(
            update(conversations)
            .where(*owned_by(conversations, caller, conversation_id))
            .values(updated_at=at, head=place.turn_id, head_run_id=place.run_id, forked=True)
        )
        decide(connection, self._ids, caller, Moment(conversation_id, at, place.turn_id), decided)
        return find_conversation(connection, caller, conversation_id)

    @reads
    def turns_on_path(
        self, connection: Connection, caller: Caller, conversation_id: str, query: PageQuery
    ) -> Page[TurnOnPath]:
        """The turns of the current path, the newest first unless asked otherwise."""
        conversation = find_conversation(connection, caller, conversation_id)
        rows, followed, has_more = _path_rows(connection, caller, conversation, query)
        records = find_records(connection, caller, rows)
        siblings = _siblings(connection, caller, conversation_id, rows) if conversation.forked else {}
        found = tuple(
            TurnOnPath(record, followed[record.id], siblings.get(record.parent, (record.id,))) for record in records
        )
        return Page(found, has_more)

    @reads
    def tree(self, connection: Connection, caller: Caller, conversation_id: str, query: PageQuery) -> Page[Branch]:
        """Every turn of a conversation, in whatever branch, by id."""
        all_turns = (
            select(*turns.c, messages.c.parts)
            .join(messages, (messages.c.turn_id == turns.c.id) & (messages.c.seq == 0))
            .where(turns.c.conversation_id == conversation_id, turns.c.owner == caller.user_id)
        )
        find_conversation(connection, caller, conversation_id)
        rows = page_rows(connection, all_turns, turns.c.id, query)
        of = select(runs.c.id, runs.c.turn_id, runs.c.model, runs.c.status).order_by(runs.c.number)
        of = of.where(runs.c.turn_id.in_([row["id"] for row in rows.data]), runs.c.owner == caller.user_id)
        made: defaultdict[str, tuple[tuple[NewRun, TurnStatus], ...]] = defaultdict(tuple)
        for id, turn_id, model, status in connection.execute(of).all():
            made[turn_id] += ((NewRun(id, model), status),)
        data = tuple(
            record(
                Branch,
                row,
                parent=Place(row["parent_id"], row["parent_run_id"]),
                text=beginning_of(row),
                runs=made[row["id"]],
            )
            for row in rows.data
        )
        return Page(data, rows.has_more)
