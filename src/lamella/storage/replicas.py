"""Several processes on one database: which are alive, which conversations each holds, and their signals.

The row of a process in `processes` is its right to write. Each write for a conversation that it holds is *fenced*
(`database.py`): the transaction first locks that row, and raises `LeaseLost` if the row is gone. So a process that was
taken for dead can't change anything, however late it wakes up.

    P1 holds a conversation ── beat stays the same for 5 s ──▶ P2 removes the row of P1 and takes the conversation
    P1 wakes up, and its next write finds no row: LeaseLost. It begins again as P3.

One process at a time holds a conversation. Three serializable transactions keep this true:

- Adding a row to a queue takes the conversation if it is free.
- Taking it for a turn or a command succeeds only if no other process holds it.
- Letting it go succeeds only if no row waits and no turn runs.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, delete, exists, insert, literal, select, union, update

from lamella.core.errors import NotFound
from lamella.core.messages import TurnStatus
from lamella.core.records import JobStatus, QueueStatus
from lamella.core.replicas import Hold, Inherited, Look, Signal, SignalKind
from lamella.storage.database import Rows, insert_missing, reads, repeats, rows_changed, writes
from lamella.storage.tables import conversations, jobs, processes, queued_messages, signals, turns
from lamella.storage.tables import held_conversations as held
from lamella.storage.tables import process_beats as beats

_LIVE = select(processes.c.id)


def _waiting(conversation_id: ColumnElement[str] | str) -> ColumnElement[bool]:
    """Whether rows wait in the queue of a conversation."""
    queued = queued_messages.c.status == QueueStatus.QUEUED
    return exists().where(queued_messages.c.conversation_id == conversation_id, queued)


def _ask_hold(connection: Connection, conversation_id: str) -> Callable[[], Hold]:
    """Asks who holds a conversation. The answer raises `NotFound`."""
    query = (
        select(held.c.process_id, conversations.c.running_turn, _waiting(conversation_id).label("waits"))
        .select_from(conversations.outerjoin(held, held.c.conversation_id == conversations.c.id))
        .where(conversations.c.id == conversation_id)
    )
    asked = connection.execute(query)

    def found() -> Hold:
        if (row := asked.one_or_none()) is None:
            raise NotFound(f"There is no conversation {conversation_id}.", param="conversation_id")
        return Hold(row.process_id, row.running_turn, bool(row.waits))

    return found


def ask_holder(connection: Connection, conversation_id: str) -> Callable[[], str | None]:
    """Asks for the process that holds a conversation."""
    query = select(held.c.process_id).where(held.c.conversation_id == conversation_id)
    return connection.execute(query).scalar_one_or_none


def tell_of_row(
    connection: Connection, id: str, process_id: str, owner: str, conversation_id: str, holder: str | None
) -> None:
    """A row was added to a queue: the process takes the conversation if it is free, else signals its `holder`. `id`
    names the signal.
    """
    if holder is None:
        insert_missing(connection, held, [{"conversation_id": conversation_id, "process_id": process_id}])
    elif holder != process_id:
        _signal(connection, id, holder, Signal(SignalKind.QUEUE, conversation_id, {"owner": owner}))


def _signal(connection: Connection, id: str, to: str, signal: Signal) -> None:
    row = {"id": id, "process_id": to, "conversation_id": signal.conversation_id, "kind": signal.kind.value}
    connection.execute(insert(signals).values(**row, data=signal.data))


class ReplicaRows(Rows):
    """Processes, the conversations that they hold, and their signals."""

    @writes
    def begin(self, connection: Connection, process_id: str, name: str, at: datetime) -> None:
        """A process begins to serve. It ends the former process of its name, if it has one."""
        if name:
            connection.execute(delete(processes).where(processes.c.name == name))
        connection.execute(insert(processes).values(id=process_id, name=name, started_at=at))
        connection.execute(insert(beats).values(process_id=process_id, beat=0))

    @writes
    def clear(self, connection: Connection) -> None:
        """Forget all processes: the one that asks has this database alone."""
        for table in (held, signals, processes):
            connection.execute(delete(table))

    @writes
    def beat(self, connection: Connection, process_id: str) -> bool:
        """Give a sign of life; False if others have given this process up."""
        own = beats.c.process_id == process_id
        return rows_changed(connection, update(beats).where(own).values(beat=beats.c.beat + 1)) == 1

    @reads
    def look(self, connection: Connection, process_id: str) -> Look:
        """The beats of the other processes, and whether there is something to do."""
        orphan = select(held.c.conversation_id).where(held.c.process_id.not_in(_LIVE))
        others = connection.execute(select(beats).where(beats.c.process_id != process_id))
        query = select(exists().where(signals.c.process_id == process_id), orphan.exists())
        has_signals, has_orphans = connection.execute(query).one()
        return Look({row.process_id: row.beat for row in others}, bool(has_signals), bool(has_orphans))

    @writes
    def end(self, connection: Connection, process_id: str, beat: int | None = None) -> bool:
        """Take the right to write from a process, if its beat is still this one; whether that was done.

        A process that ends by itself names no beat.
        """
        this = processes.c.id == process_id
        if beat is not None:
            this &= exists().where(beats.c.process_id == process_id, beats.c.beat == beat)
        return rows_changed(connection, delete(processes).where(this)) == 1

    @writes
    def inherit(
        self, connection: Connection, process_id: str, at: datetime, *, started: bool = False
    ) -> tuple[Inherited, ...]:
        """Take the conversations and jobs of processes that are gone; gives the conversations.

        A process that has just `started` also takes what one without others left: turns that run and rows that wait
        in conversations that nobody holds.
        """
        gone = held.c.process_id.not_in(_LIVE)
        found = select(held.c.conversation_id).where(gone)
        connection.execute(delete(signals).where(signals.c.process_id.not_in(_LIVE)))
        lost = (jobs.c.status == JobStatus.RUNNING) & jobs.c.process_id.is_not(None) & jobs.c.process_id.not_in(_LIVE)
        waits = {"status": JobStatus.WAITING, "due_at": at, "asked_at": at, "process_id": None}
        connection.execute(update(jobs).where(lost).values(**waits))
        taken = list(connection.execute(found).scalars())
        if started:
            running = select(turns.c.conversation_id).where(turns.c.status == TurnStatus.RUNNING)
            queued = queued_messages.c.status == QueueStatus.QUEUED
            left = union(running, select(queued_messages.c.conversation_id).where(queued)).subquery()
            free = select(left.c.conversation_id).where(left.c.conversation_id.not_in(select(held.c.conversation_id)))
            ownerless = list(connection.execute(free).scalars())
            rows = [{"conversation_id": id, "process_id": process_id} for id in ownerless]
            insert_missing(connection, held, rows)
            taken += ownerless
        if not taken:
            return ()
        connection.execute(update(held).where(gone).values(process_id=process_id))
        owners = select(conversations.c.id, conversations.c.owner).where(conversations.c.id.in_(taken))
        return tuple(Inherited(row.id, row.owner) for row in connection.execute(owners.order_by(conversations.c.id)))

    @reads
    def hold(self, connection: Connection, conversation_id: str) -> Hold:
        """Who holds a conversation. Raises `NotFound`."""
        return _ask_hold(connection, conversation_id)()

    @repeats
    def take(
        self, connection: Connection, process_id: str, conversation_id: str, *, to_speak: bool
    ) -> Callable[[], Hold]:
        """Hold a conversation, unless another process does; gives who holds it then. Raises `NotFound`.

        `to_speak`: only if no turn runs and nothing waits.
        """
        free = select(conversations.c.id, literal(process_id)).where(conversations.c.id == conversation_id)
        if to_speak:
            free = free.where(conversations.c.running_turn.is_(None), ~_waiting(conversation_id))
        insert_missing(connection, held, free)
        return _ask_hold(connection, conversation_id)

    @repeats
    def let_go(self, connection: Connection, process_id: str, conversation_id: str) -> Callable[[], bool]:
        """Hold a conversation no more, unless something waits or a turn runs; whether something is left to do."""
        runs = exists().where(conversations.c.id == conversation_id, conversations.c.running_turn.is_not(None))
        mine = (held.c.conversation_id == conversation_id, held.c.process_id == process_id)
        connection.execute(delete(held).where(*mine, ~_waiting(conversation_id), ~runs))
        kept = connection.execute(select(held.c.process_id).where(*mine))
        return lambda: kept.first() is not None

    @writes
    def signal(self, connection: Connection, process_id: str, signal: Signal) -> str | None:
        """Signal the process that holds a conversation, if it is another one; gives its id, to ring it."""
        holder = ask_holder(connection, signal.conversation_id)()
        if holder is None or holder == process_id:
            return None
        _signal(connection, self._ids.new("signal"), holder, signal)
        return holder

    @writes
    def signal_all(self, connection: Connection, process_id: str, signal: Signal) -> tuple[str, ...]:
        """Signal all other processes; gives their ids."""
        others = tuple(connection.execute(_LIVE.where(processes.c.id != process_id)).scalars())
        for other in others:
            _signal(connection, self._ids.new("signal"), other, signal)
        return others

    @writes
    def take_signals(self, connection: Connection, process_id: str) -> tuple[Signal, ...]:
        """What a process is asked, in order; the rows are removed."""
        mine = signals.c.process_id == process_id
        rows = connection.execute(select(signals).where(mine).order_by(signals.c.id)).all()
        connection.execute(delete(signals).where(signals.c.id.in_([row.id for row in rows])))
        return tuple(Signal(SignalKind(row.kind), row.conversation_id, row.data) for row in rows)
