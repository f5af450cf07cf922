"""Lines of clients: found by their messages, and stored as conversations whose turns nobody continues here."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, delete, insert, select, update

from lamella.core.errors import HeadMoved, NotFound
from lamella.core.ids import Ids
from lamella.core.messages import Step, TurnStatus
from lamella.core.records import (
    Caller,
    Conversation,
    Line,
    NewRequest,
    NewRun,
    NewTurn,
    ObservedRequest,
    Page,
    PageQuery,
    Place,
    Replacement,
    ReplacementKind,
    RequestRecord,
    TurnRecord,
)
from lamella.core.sessions import Session, SessionCause
from lamella.core.tokens import Usage
from lamella.storage.conversations.conversations import find_conversation
from lamella.storage.conversations.messages import run_row, step_row, turn_row, user_message_row
from lamella.storage.conversations.paths import find_turn
from lamella.storage.conversations.requests import insert_request
from lamella.storage.conversations.turns import title_of
from lamella.storage.database import Rows, insert_missing, reads, rows_changed, writes
from lamella.storage.recall.sources import forget_said
from lamella.storage.rows import (
    NO_BILL,
    UNKNOWN_BILL,
    Row,
    find_row,
    owned_by,
    page_rows,
    record,
    usage_of,
    usage_row,
    values,
)
from lamella.storage.tables import (
    conversations,
    lines,
    messages,
    recall_entries,
    recall_turns,
    replacements,
    requests,
    runs,
    sessions,
    turns,
)

LOOKED_AT = 30
"""So many of the newest lines are compared message by message, if none ends as the request begins."""

_TOLD = select(*lines.c, conversations.c.title).join(conversations, conversations.c.id == lines.c.id)


def _lines(connection: Connection, caller: Caller, *which: ColumnElement[bool]) -> tuple[Line, ...]:
    query = _TOLD.where(lines.c.owner == caller.user_id, *which).order_by(lines.c.at.desc()).limit(LOOKED_AT)
    return tuple(record(Line, row, usage=usage_of(row)) for row in connection.execute(query).mappings())


MOST_KEYS = 10_000
"""Keys that one statement looks up; SQLite takes three times as many."""


def _replaced(connection: Connection, caller: Caller, *which: ColumnElement[bool]) -> tuple[Replacement, ...]:
    query = select(replacements).where(replacements.c.owner == caller.user_id, *which).order_by(replacements.c.id)
    return tuple(record(Replacement, row) for row in connection.execute(query).mappings())


class LineRows(Rows):
    """Lines of clients."""

    @reads
    def candidates(
        self, connection: Connection, caller: Caller, keys: Sequence[str], session: str | None, since: datetime
    ) -> tuple[Line, ...]:
        """The lines that a request with these message keys may go on, the newest first: those that end where it has
        been, and the newest others of its session, or without one those since a moment.
        """
        ended = _lines(connection, caller, lines.c.tip.in_(keys[-400:]), lines.c.at > since)
        which = lines.c.session == session if session is not None else lines.c.session.is_(None)
        others = _lines(connection, caller, which, lines.c.at > since, lines.c.tip != "")
        return tuple({line.id: line for line in (*ended, *others)}.values())

    @reads
    def line(self, connection: Connection, caller: Caller, line_id: str) -> Line:
        """One line."""
        row = find_row(connection, lines, caller, line_id, "line")
        [found] = _lines(connection, caller, lines.c.id == row["id"])
        return found

    @reads
    def lines(self, connection: Connection, caller: Caller, query: PageQuery) -> Page[Line]:
        """The caller's lines by id."""
        rows = page_rows(connection, _TOLD.where(lines.c.owner == caller.user_id), lines.c.id, query)
        return Page(tuple(record(Line, row, usage=usage_of(row)) for row in rows.data), rows.has_more)

    @reads
    def is_answered(self, connection: Connection, caller: Caller, request: RequestRecord) -> bool:
        """Whether an answer to this request of a line is stored, or a part of one."""
        find_turn(connection, caller, request.turn_id)
        its = messages.c.turn_id == request.turn_id, messages.c.owner == caller.user_id
        query = select(messages.c.id).where(*its, messages.c.seq == request.step + 1)
        return connection.execute(query).first() is not None

    @writes
    def add_request(self, connection: Connection, caller: Caller, observed: ObservedRequest) -> None:
        """Store a request with its turn and its answer, and the line as it is now.

        Raises `HeadMoved` if the line is another than the request was found to go on: look again.
        """
        line = observed.line
        if observed.was is not None and _lines(connection, caller, lines.c.id == line.id) != (observed.was,):
            raise HeadMoved("Another request of this line was recorded meanwhile.")
        if observed.is_new:
            self._begin(connection, caller, observed)
        session_id = find_conversation(connection, caller, line.id).session_id
        if observed.again is not None:
            _begin_again(connection, self._ids, caller, observed, observed.again)
        elif observed.begins is not None:
            _begin_turn(connection, caller, observed, session_id)
        else:
            _forget_passages(connection, caller, line.turn_id)
            if observed.results:
                _add_results(connection, caller, observed)
        insert_request(connection, self._ids, caller, observed.request)
        if observed.step is not None:
            _add_step(connection, caller, observed, observed.step, session_id)
        _bill(connection, caller, observed)
        row = values(lines, line, owner=caller.user_id, **usage_row(line.usage))
        if observed.is_new:
            connection.execute(insert(lines), row)
        else:
            connection.execute(update(lines).where(*owned_by(lines, caller, line.id)).values(**row))

    @writes
    def add_line(self, connection: Connection, caller: Caller, line: Line) -> None:
        """Store the line of a new conversation that the engine answers."""
        find_conversation(connection, caller, line.id)
        connection.execute(insert(lines), values(lines, line, owner=caller.user_id, **usage_row(line.usage)))

    @writes
    def add_turn(self, connection: Connection, caller: Caller, turn: TurnRecord) -> None:
        """Add a turn of such a conversation, which has ended, to its line."""
        row = find_row(connection, lines, caller, turn.conversation_id, "line")
        made = requests.c.turn_id == turn.id, requests.c.owner == caller.user_id, requests.c.run_id.is_not(None)
        sent = connection.execute(select(requests.c.id).where(*made).order_by(requests.c.at, requests.c.id)).scalars()
        ids = list(sent)
        changed = {
            "model": turn.model,
            "request_id": ids[-1] if ids else row["request_id"],
            "turn_id": turn.id,
            "run_id": turn.run.id,
            "at": turn.finished_at or turn.started_at,
            "requests": row["requests"] + len(ids),
            "turns": row["turns"] + bool(turn.text),  # results alone continue the turn before
            "cost": row["cost"] + turn.cost,
            **usage_row(usage_of(row) + turn.usage),
        }
        connection.execute(update(lines).where(*owned_by(lines, caller, turn.conversation_id)).values(**changed))

    @writes
    def note_break(self, connection: Connection, caller: Caller, line_id: str, lost: int, cost: float) -> None:
        """Count a request that did not read what was cached: `lost` tokens, for `cost` US dollars more."""
        find_row(connection, lines, caller, line_id, "line")
        this = owned_by(lines, caller, line_id)
        more = {"breaks": lines.c.breaks + 1, "lost": lines.c.lost + lost, "lost_cost": lines.c.lost_cost + cost}
        connection.execute(update(lines).where(*this).values(**more))

    @reads
    def replacements(
        self, connection: Connection, caller: Caller, dialect: str, keys: Sequence[str]
    ) -> tuple[Replacement, ...]:
        """What was replaced of messages that begin as these, the oldest first."""
        found: list[Replacement] = []
        for start in range(0, len(keys), MOST_KEYS):
            its = replacements.c.key.in_(keys[start : start + MOST_KEYS])
            found += _replaced(connection, caller, replacements.c.dialect == dialect, its)
        return tuple(sorted(found, key=lambda one: one.id))

    @reads
    def replacements_of_line(self, connection: Connection, caller: Caller, line_id: str) -> tuple[Replacement, ...]:
        """What was replaced for a line, the oldest first."""
        find_row(connection, lines, caller, line_id, "line")
        return _replaced(connection, caller, replacements.c.conversation_id == line_id)

    @writes
    def add_replacement(self, connection: Connection, caller: Caller, made: Replacement) -> Replacement:
        """Store a replacement. Returns the one that is there already if another request made it first."""
        insert_missing(connection, replacements, [values(replacements, made, owner=caller.user_id)])
        same = (replacements.c.key == made.key, replacements.c.kind == made.kind)
        [found] = _replaced(connection, caller, replacements.c.dialect == made.dialect, *same)
        return found

    @writes
    def use_replacement(
        self, connection: Connection, caller: Caller, replacement_id: str, line_id: str, request_id: str
    ) -> bool:
        """Note for which line it is, and its first request. Returns whether this is that request."""
        find_row(connection, lines, caller, line_id, "line")
        its = (*owned_by(replacements, caller, replacement_id), replacements.c.request_id.is_(None))
        used = update(replacements).where(*its).values(request_id=request_id, conversation_id=line_id)
        return rows_changed(connection, used) > 0

    @writes
    def undo_replacement(
        self, connection: Connection, caller: Caller, line_id: str, replacement_id: str
    ) -> Replacement:
        """Take a replacement back: its texts go, and of a summary stays that it was taken back."""
        row = find_row(connection, replacements, caller, replacement_id, "replacement")
        if row["conversation_id"] != line_id:
            raise NotFound(f"There is no replacement {replacement_id} in {line_id}.", param="replacement_id")
        [found] = _replaced(connection, caller, replacements.c.id == replacement_id)
        connection.execute(delete(replacements).where(*owned_by(replacements, caller, replacement_id)))
        if found.kind is ReplacementKind.PRUNE:
            return found
        undone = replace(
            found, kind=ReplacementKind.UNDONE, texts=(), summary="", tokens=0, check={}, carries=(), skipped=()
        )
        insert_missing(connection, replacements, [values(replacements, undone, owner=caller.user_id)])
        return undone

    @writes
    def add_side_request(
        self, connection: Connection, caller: Caller, request: NewRequest, saved: float, compactions: int
    ) -> None:
        """Store a request that was made for a line here, and its bill; `saved` and `compactions` are added as well."""
        insert_request(connection, self._ids, caller, request)
        this = owned_by(lines, caller, request.record.conversation_id)
        row = find_row(connection, lines, caller, request.record.conversation_id, "line")
        billed = usage_row(usage_of(row) + (request.record.usage or Usage()))
        billed |= {"cost": row["cost"] + (request.record.cost or 0.0)}
        billed |= {"compactions": row["compactions"] + compactions, "context_saved": row["context_saved"] + saved}
        connection.execute(update(lines).where(*this).values(**billed))

    def _begin(self, connection: Connection, caller: Caller, observed: ObservedRequest) -> None:
        line, request = observed.line, observed.request.record
        session = Session(self._ids.new("sess"), line.id, 1, request.at, SessionCause.CREATED)
        conversation = Conversation(
            id=line.id,
            title=title_of(observed.title) or line.label,
            model=request.model,
            layout=observed.layout,
            marker_policy="planner",
            system_prompt="",
            tools=(),
            created_at=request.at,
            updated_at=request.at,
            session_id=session.id,
            titled_by="words",
            observed=True,
        )
        owner = caller.user_id
        connection.execute(insert(conversations), values(conversations, conversation, owner=owner))
        connection.execute(insert(sessions), values(sessions, session, owner=owner))


def _begin_turn(connection: Connection, caller: Caller, observed: ObservedRequest, session_id: str) -> None:
    line, request, owner = observed.line, observed.request.record, caller.user_id
    head = connection.execute(
        select(conversations.c.head, conversations.c.head_run_id).where(*owned_by(conversations, caller, line.id))
    ).one()
    run = NewRun(line.run_id, request.model)
    turn = NewTurn(
        id=line.turn_id,
        conversation_id=line.id,
        user_message_id=f"{line.turn_id}_user",
        runs=(run,),
        text=observed.begins or "",
        sent_at=request.at,
        timezone="UTC",
        tokens=request.segments[-1].tokens if request.segments else 0,
    )
    ended = {"status": TurnStatus.FINISHED, "finished_at": observed.finished_at}
    place = Place(head.head, head.head_run_id)
    connection.execute(insert(turns), turn_row(owner, turn, place, request.at) | ended)
    connection.execute(insert(runs), run_row(owner, turn.id, 0, run) | ended)
    connection.execute(insert(messages), {**user_message_row(owner, turn), "session_id": session_id})
    connection.execute(
        update(conversations)
        .where(*owned_by(conversations, caller, line.id))
        .values(head=turn.id, head_run_id=run.id, updated_at=observed.finished_at)
    )


def _begin_again(connection: Connection, ids: Ids, caller: Caller, observed: ObservedRequest, turn_id: str) -> None:
    """Begin a turn next to another one: with its message, and with its steps before the one that is answered again.
    Their bill stays with that turn.
    """
    line, request = observed.line, observed.request.record
    ended = {"status": TurnStatus.FINISHED, "finished_at": observed.finished_at, "error": None, **NO_BILL}
    turn = connection.execute(select(turns).where(*owned_by(turns, caller, turn_id))).mappings().one()
    placed = {"id": line.turn_id, "started_at": request.at, "expired": None}
    connection.execute(insert(turns), {**turn, **placed, **ended})
    run = NewRun(line.run_id, request.model)
    connection.execute(insert(runs), {**run_row(caller.user_id, line.turn_id, 0, run), **ended})
    its = messages.c.turn_id == turn_id, messages.c.owner == caller.user_id, messages.c.seq <= request.step
    for row in connection.execute(select(messages).where(*its)).mappings().all():
        own = {"id": ids.new("msg"), "turn_id": line.turn_id, "run_id": row["run_id"] and line.run_id}
        connection.execute(insert(messages), {**row, **own, **UNKNOWN_BILL})
    there = {"head": line.turn_id, "head_run_id": line.run_id, "updated_at": observed.finished_at, "forked": True}
    connection.execute(update(conversations).where(*owned_by(conversations, caller, line.id)).values(**there))


def _forget_passages(connection: Connection, caller: Caller, turn_id: str) -> None:
    """Let a turn that goes on be indexed anew."""
    indexed = (recall_turns.c.turn_id == turn_id, recall_turns.c.owner == caller.user_id)
    if not rows_changed(connection, delete(recall_turns).where(*indexed)):
        return
    its = select(messages.c.id).where(messages.c.turn_id == turn_id, messages.c.owner == caller.user_id)
    forget_said(connection, caller, recall_entries.c.source_id.in_(its))


def _add_results(connection: Connection, caller: Caller, observed: ObservedRequest) -> None:
    """Store the results of the calls of the turn's newest step."""
    its = (messages.c.turn_id == observed.line.turn_id, messages.c.owner == caller.user_id, messages.c.seq > 0)
    newest = select(messages.c.id).where(*its).order_by(messages.c.seq.desc()).limit(1).scalar_subquery()
    connection.execute(update(messages).where(messages.c.id == newest).values(results=tuple(observed.results)))


def _add_step(connection: Connection, caller: Caller, observed: ObservedRequest, step: Step, session_id: str) -> None:
    line, request = observed.line, observed.request.record
    seq = request.step + 1
    row = step_row(caller.user_id, line.turn_id, line.run_id, seq, step)
    billed = usage_row(request.usage or Usage())
    connection.execute(insert(messages), {**row, **billed, "cost": request.cost, "session_id": session_id})


def _bill(connection: Connection, caller: Caller, observed: ObservedRequest) -> None:
    """Add the request's bill to its turn and its run, and how it ended."""
    request = observed.request.record
    usage = request.usage or Usage()
    status = TurnStatus.FAILED if request.error is not None else TurnStatus.FINISHED
    for table, id in ((turns, observed.line.turn_id), (runs, observed.line.run_id)):
        row = connection.execute(select(table).where(*owned_by(table, caller, id))).mappings().one()
        changed: Row = usage_row(usage_of(row) + usage)
        changed |= {"cost": row["cost"] + (request.cost or 0.0), "status": status, "error": request.error}
        connection.execute(
            update(table).where(*owned_by(table, caller, id)).values(finished_at=observed.finished_at, **changed)
        )
