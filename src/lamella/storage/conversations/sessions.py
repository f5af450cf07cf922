"""Sessions of a conversation: opened, closed and opened again by compare-and-swap, labels moved along."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from typing import Any

from sqlalchemy import ColumnElement, Connection, RowMapping, Select, func, insert, select, update

from lamella.core.decisions import DecisionKind
from lamella.core.errors import NotFound, SessionMoved
from lamella.core.records import Caller, Conversation, Job, NewJob, Page, PageQuery, Place, first_choice
from lamella.core.sessions import Session, SessionCause, SessionReturn, SessionStep, SessionSummary
from lamella.core.tokens import Usage
from lamella.storage.conversations.conversations import find_conversation, turn_in_progress
from lamella.storage.conversations.decisions import Moment, decide
from lamella.storage.conversations.paths import line_of
from lamella.storage.database import Rows, reads, writes
from lamella.storage.grants import sessions_held_back
from lamella.storage.jobs import check_lease, enqueue_job
from lamella.storage.recall.sources import forget_source, touch_recall
from lamella.storage.rows import Row, owned_by, record, values
from lamella.storage.tables import conversations, decisions, messages, runs, sessions, turns

_NO_VECTOR = {"embedding": None, "embedding_model": None}
_SESSION = [column for column in sessions.c if column.name not in _NO_VECTOR]


def _session_of(row: RowMapping) -> Session:
    return record(Session, row, check=row["summary_check"])


def _session_row(owner: str, session: Session) -> Row:
    return values(sessions, session, owner=owner, summary_check=session.check)


def find_session(connection: Connection, caller: Caller, session_id: str, *, lock: bool = False) -> Session:
    """The caller's session; `lock` keeps other writers away from it until the transaction ends."""
    query = select(*_SESSION).where(*owned_by(sessions, caller, session_id))
    row = connection.execute(query.with_for_update() if lock else query).mappings().first()
    if row is None:
        raise NotFound(f"There is no session {session_id}.", param="session_id")
    [session] = sessions_held_back(connection, caller, [_session_of(row)])
    return session


def find_sessions(connection: Connection, caller: Caller, conversation_id: str) -> tuple[Session, ...]:
    """All sessions of the caller's conversation, the oldest first."""
    query = (
        select(*_SESSION)
        .where(sessions.c.conversation_id == conversation_id, sessions.c.owner == caller.user_id)
        .order_by(sessions.c.number)
    )
    return _ask(connection, caller, query)()


def _ask(connection: Connection, caller: Caller, query: Select[*tuple[Any, ...]]) -> Callable[[], tuple[Session, ...]]:
    asked = connection.execute(query).mappings()
    return lambda: sessions_held_back(connection, caller, [_session_of(row) for row in asked])


def ask_ancestry(
    connection: Connection, caller: Caller, session_id: str | ColumnElement[str]
) -> Callable[[], tuple[Session, ...]]:
    """Asks for the session after those that it continues, as far as each inherits; the oldest first."""
    first = select(sessions.c.id, sessions.c.parent_id, sessions.c.inherits).where(
        sessions.c.id == session_id, sessions.c.owner == caller.user_id
    )
    line = first.cte("ancestry", recursive=True)
    parent = sessions.alias("parent")
    line = line.union(
        select(parent.c.id, parent.c.parent_id, parent.c.inherits).where(
            parent.c.id == line.c.parent_id, parent.c.owner == caller.user_id, line.c.inherits
        )
    )
    return _ask(
        connection, caller, select(*_SESSION).where(sessions.c.id.in_(select(line.c.id))).order_by(sessions.c.number)
    )


def spend(connection: Connection, caller: Caller, session_id: str, spent: Mapping[str, Usage]) -> None:
    """Add what was spent, by purpose, to a session."""
    if any(usage != Usage() for usage in spent.values()):
        add_spent(connection, caller, find_session(connection, caller, session_id, lock=True), spent)


def ask_current_session(connection: Connection, caller: Caller, turn_id: str) -> Callable[[], Session]:
    """Asks for the session that the conversation of a turn is in, locked, see `ask_row`."""
    current = select(conversations.c.session_id).join(turns, turns.c.conversation_id == conversations.c.id)
    current = current.where(turns.c.id == turn_id, turns.c.owner == caller.user_id)
    its = (sessions.c.id == current.scalar_subquery(), sessions.c.owner == caller.user_id)
    asked = connection.execute(select(*_SESSION).where(*its).with_for_update()).mappings()
    return lambda: _session_of(asked.one())


def add_spent(connection: Connection, caller: Caller, session: Session, spent: Mapping[str, Usage]) -> None:
    """Add what was spent, by purpose, to a session that is locked."""
    spent = {purpose: usage for purpose, usage in spent.items() if usage != Usage()}
    if not spent:
        return
    total = {**session.usage, **{name: session.usage.get(name, Usage()) + usage for name, usage in spent.items()}}
    connection.execute(update(sessions).where(*owned_by(sessions, caller, session.id)).values(usage=total))


def check_current(conversation: Conversation, expected: str) -> None:
    """Raises `SessionMoved` when somebody else went on to another session first."""
    if conversation.session_id != expected:
        raise _moved(conversation, f"The conversation is no longer in session {expected}.")


def count_session_changes(connection: Connection, caller: Caller, conversation_id: str) -> int:
    """How often a conversation went from one session to another, in whatever branch."""
    query = select(func.count()).where(
        decisions.c.conversation_id == conversation_id,
        decisions.c.owner == caller.user_id,
        decisions.c.kind == DecisionKind.SESSION,
    )
    return int(connection.execute(query).scalar_one())


def _check_unchanged(connection: Connection, caller: Caller, conversation: Conversation, changes: int) -> None:
    """Raises `SessionMoved` when the conversation left its session meanwhile, even if it is back in it."""
    if count_session_changes(connection, caller, conversation.id) != changes:
        raise _moved(conversation, "The conversation changed its session meanwhile.")


def _moved(conversation: Conversation, what: str) -> SessionMoved:
    hint = f"It is in session {conversation.session_id} by now: look at that one, then try again."
    return SessionMoved(what, hint=hint, param="session_id")


def _close(
    connection: Connection, caller: Caller, conversation: Conversation, cause: SessionCause, why: str, at: datetime
) -> None:
    """Close the session that the conversation is in."""
    closed = {"closed_at": at, "closed_by": cause, "ends_with": conversation.head, "why": why}
    connection.execute(update(sessions).where(*owned_by(sessions, caller, conversation.session_id)).values(closed))


def _summarise(
    connection: Connection, caller: Caller, session_id: str, summary: SessionSummary, ends_with: str | None
) -> None:
    """Give a session its summary, which stands for its turns up to `ends_with`."""
    made = {
        "summary": summary.text,
        "summary_tokens": summary.tokens,
        "summary_ends_with": ends_with,
        "summary_check": summary.check,
        "made_from": summary.made_from,
        **_NO_VECTOR,
    }
    connection.execute(update(sessions).where(*owned_by(sessions, caller, session_id)).values(made))
    spend(connection, caller, session_id, {"summary": summary.usage})


def _open_next(connection: Connection, caller: Caller, conversation: Conversation, step: SessionStep) -> Session:
    """The row of the next session, which is given; the current one is closed."""
    check_current(conversation, step.expected)
    known = find_sessions(connection, caller, conversation.id)
    if step.session.parent_id not in {None, *(session.id for session in known)}:
        raise NotFound(f"There is no session {step.session.parent_id} here.", param="parent_id")
    opened = replace(step.session, number=known[-1].number + 1)
    connection.execute(insert(sessions), _session_row(caller.user_id, opened))
    _close(connection, caller, conversation, opened.opened_by, step.why, step.at)
    return opened


def _open_again(connection: Connection, caller: Caller, conversation: Conversation, back: SessionReturn) -> None:
    """An earlier session is open again, the current one is closed."""
    _close(connection, caller, conversation, back.cause, back.why, back.at)
    opened: dict[str, Any] = {"closed_at": None, "closed_by": None, "ends_with": None, "why": ""}
    if back.forgets_summary:
        opened |= {"summary": None, "summary_tokens": 0, "summary_ends_with": None, "summary_check": {}}
        opened |= {"made_from": (), **_NO_VECTOR}
        forget_source(connection, caller, back.session_id)
    connection.execute(update(sessions).where(*owned_by(sessions, caller, back.session_id)).values(opened))


def move_to_session(
    connection: Connection, caller: Caller, conversation: Conversation, move: SessionStep | SessionReturn
) -> Session:
    """Let the conversation go on in another session with its next turn, and give that session.

    What is stored keeps its labels: a branch takes nothing from the session that it leaves.
    """
    check_current(conversation, move.expected)
    if isinstance(move, SessionStep):
        opened = _open_next(connection, caller, conversation, move)
    else:
        _open_again(connection, caller, conversation, move)
        opened = find_session(connection, caller, move.session_id)
    connection.execute(
        update(conversations).where(*owned_by(conversations, caller, conversation.id)).values(session_id=opened.id)
    )
    return opened


def _equip(connection: Connection, caller: Caller, step: SessionStep) -> None:
    """Give the conversation the tools that it has from this step on; a turn that runs keeps its own."""
    if step.tools is not None:
        connection.execute(
            update(conversations)
            .where(*owned_by(conversations, caller, step.session.conversation_id))
            .values(tools=step.tools)
        )


def _enter(
    connection: Connection, caller: Caller, conversation: Conversation, session: Session, head: str | None
) -> None:
    """Let the conversation go on from `head` in `session`, whose label the messages in its window get.

    Raises `NotFound` when the session begins after a turn that is not on the way to `head`.
    """
    if head is not None and head != session.begins_after:
        line = line_of(caller, Place(head), session.begins_after)
        oldest = select(turns.c.parent_id).join(line, line.c.id == turns.c.id).order_by(line.c.depth.desc()).limit(1)
        if connection.execute(oldest).scalar_one() != session.begins_after:
            raise _not_on_path(session.begins_after)
        connection.execute(
            update(messages)
            .where(messages.c.turn_id.in_(select(line.c.id)), messages.c.owner == caller.user_id)
            .where(messages.c.session_id != session.id)
            .values(session_id=session.id)
        )
        touch_recall(connection, caller)
    elif head is None and session.begins_after is not None:
        raise _not_on_path(session.begins_after)
    connection.execute(
        update(conversations)
        .where(*owned_by(conversations, caller, conversation.id))
        .values(
            session_id=session.id,
            head=head,
            head_run_id=followed_run(connection, caller, conversation, head),
            forked=conversation.forked or head != conversation.head,
        )
    )


def _not_on_path(turn_id: str | None) -> NotFound:
    return NotFound(
        f"There is no turn {turn_id} on the path of this conversation.",
        hint="A session begins after one of the turns on the path to the newest one.",
        param="begins_after",
    )


def followed_run(connection: Connection, caller: Caller, conversation: Conversation, turn_id: str | None) -> str | None:
    """From which answer of a turn a conversation goes on where nobody says: the one it stands at, else the one that was
    continued last, else the first choice.
    """
    if turn_id is None or turn_id == conversation.head:
        return conversation.head_run_id if turn_id is not None else None
    last = select(turns.c.parent_run_id).where(turns.c.parent_id == turn_id, turns.c.owner == caller.user_id)
    last = last.order_by(turns.c.started_at.desc(), turns.c.id.desc()).limit(1)
    continued: str | None = connection.execute(last).scalar_one_or_none()
    if continued is not None:
        return continued
    query = select(runs.c.id, runs.c.status).where(runs.c.turn_id == turn_id, runs.c.owner == caller.user_id)
    found = connection.execute(query.order_by(runs.c.number)).all()
    chosen: str = found[first_choice([status for _, status in found])][0]
    return chosen


def _check_turn(connection: Connection, caller: Caller, conversation_id: str, turn_id: str) -> None:
    query = select(turns.c.id).where(*owned_by(turns, caller, turn_id), turns.c.conversation_id == conversation_id)
    if connection.execute(query).first() is None:
        raise NotFound(f"There is no turn {turn_id} in this conversation.", param="head")


class SessionRows(Rows):
    """The sessions of conversations."""

    @reads
    def session(self, connection: Connection, caller: Caller, session_id: str) -> Session:
        """One session."""
        return find_session(connection, caller, session_id)

    @reads
    def sessions(self, connection: Connection, caller: Caller, conversation_id: str) -> tuple[Session, ...]:
        """All sessions of a conversation, the oldest first."""
        find_conversation(connection, caller, conversation_id)
        return find_sessions(connection, caller, conversation_id)

    @reads
    def session_page(
        self, connection: Connection, caller: Caller, conversation_id: str, query: PageQuery
    ) -> Page[Session]:
        """Some of the sessions of a conversation."""
        number, rising = sessions.c.number, query.order == "asc"
        own = sessions.c.conversation_id == conversation_id, sessions.c.owner == caller.user_id
        rows = select(*_SESSION).where(*own).order_by(number.asc() if rising else number.desc())
        find_conversation(connection, caller, conversation_id)
        if query.after is not None:
            after = find_session(connection, caller, query.after).number
            rows = rows.where(number > after if rising else number < after)
        found = _ask(connection, caller, rows.limit(query.limit + 1))()
        return Page(found[: query.limit], len(found) > query.limit)

    @writes
    def next_session(
        self, connection: Connection, caller: Caller, step: SessionStep, job: Job | None = None
    ) -> Session:
        """Close the current session and open the next, whose number the store counts; gives it as stored.

        The messages of the turns after `begins_after` on the path, the running one's included, are the new session's.
        A summary that the closed one had before it was opened again gives way to a new one. Raises `SessionMoved` when
        the conversation is no longer in the expected session, or left it meanwhile, `NotFound` for a foreign parent or
        a `begins_after` off the path, `LeaseLost` when it is the work of a `job` that another worker has by now; then
        nothing is stored.
        """
        conversation = find_conversation(connection, caller, step.session.conversation_id, lock=True)
        check_current(conversation, step.expected)
        if step.changes is not None:
            _check_unchanged(connection, caller, conversation, step.changes)
        if job is not None:
            check_lease(connection, job)
        opened = _open_next(connection, caller, conversation, step)
        if step.summary is not None:
            _summarise(connection, caller, step.expected, step.summary, opened.begins_after)
        self._then(connection, caller, conversation, step)
        _enter(connection, caller, conversation, opened, conversation.head)
        _equip(connection, caller, step)
        decide(connection, self._ids, caller, Moment(conversation.id, step.at, conversation.head), step.decisions)
        return opened

    @writes
    def return_to_session(self, connection: Connection, caller: Caller, back: SessionReturn) -> Session:
        """Close the current session and open an earlier one again, from another head; gives it as it is now.

        The messages of the turns that are in its window are its own again. Raises `SessionMoved`, `TurnInProgress`, or
        `NotFound` for a head that does not follow what the session begins after; then nothing is stored.
        """
        found = find_session(connection, caller, back.session_id)
        conversation = find_conversation(connection, caller, found.conversation_id, lock=True)
        check_current(conversation, back.expected)
        if conversation.running_turn is not None:
            raise turn_in_progress(conversation.running_turn)
        if back.head is not None:
            _check_turn(connection, caller, conversation.id, back.head)
        self._then(connection, caller, conversation, back)
        _open_again(connection, caller, conversation, back)
        _enter(connection, caller, conversation, found, back.head)
        decide(connection, self._ids, caller, Moment(conversation.id, back.at, back.head), back.decisions)
        return find_session(connection, caller, found.id)

    @writes
    def summarise_session(
        self, connection: Connection, caller: Caller, closed: Session, summary: SessionSummary
    ) -> bool:
        """Give a session that is closed as `closed` is its summary, and add what that cost.

        False when it is open, was closed at another moment, or has a summary of all of it; then nothing is stored.
        """
        session = find_session(connection, caller, closed.id, lock=True)
        if session.closed_at is None or session.closed_at != closed.closed_at or session.is_summarised:
            return False
        _summarise(connection, caller, closed.id, summary, session.ends_with)
        return True

    @writes
    def spend(self, connection: Connection, caller: Caller, session_id: str, purpose: str, usage: Usage) -> None:
        """Add the usage of side requests to a session."""
        find_session(connection, caller, session_id)
        spend(connection, caller, session_id, {purpose: usage})

    def _then(
        self, connection: Connection, caller: Caller, conversation: Conversation, step: SessionStep | SessionReturn
    ) -> None:
        """Enqueue what follows for the session that ends: a crash after this transaction does not lose it."""
        if step.then is None:
            return
        ended = find_session(connection, caller, step.expected)
        if ended.begins_after != conversation.head:
            job = NewJob(step.then, ended.id, step.why, step.at)
            enqueue_job(connection, caller, self._ids.new("job"), job, step.at)
