"""Decisions of a conversation, stored with where it stood, and read as those that hold on a path."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import ColumnElement, Connection, RowMapping, insert, select

from lamella.core.decisions import WAY, Decision, DecisionKind
from lamella.core.ids import Ids
from lamella.core.records import Caller, Page, PageQuery, Place, StoredDecision
from lamella.core.sessions import SessionCause
from lamella.storage.rows import page, recorder, values
from lamella.storage.tables import decisions, runs, sessions, turns


@dataclass(frozen=True, slots=True)
class Moment:
    """When something was decided: where the conversation stood then, and the run that it is about, if it is of one."""

    conversation_id: str
    at: datetime
    turn_id: str | None
    run_id: str | None = None


def decide(connection: Connection, ids: Ids, caller: Caller, moment: Moment, made: Sequence[Decision]) -> None:
    """Store what was decided at a moment."""
    rows = [
        values(decisions, moment, id=ids.new("dec"), owner=caller.user_id, **values(decisions, decision))
        for decision in made
    ]
    if rows:
        connection.execute(insert(decisions), rows)


_made_of = recorder(Decision, decisions.c)
_stored_of = recorder(StoredDecision, decisions.c)


def _decision_of(row: RowMapping) -> StoredDecision:
    return _stored_of(row, decision=_made_of(row))


def find_decisions(connection: Connection, caller: Caller, conversation_id: str) -> tuple[StoredDecision, ...]:
    """Everything that was decided for a conversation, oldest first."""
    return ask_decisions(connection, caller, conversation_id)()


def ask_decisions(
    connection: Connection, caller: Caller, conversation_id: str
) -> Callable[[], tuple[StoredDecision, ...]]:
    """Asks for it, see `ask_row`."""
    query = (
        select(decisions)
        .where(decisions.c.conversation_id == conversation_id, decisions.c.owner == caller.user_id)
        .order_by(decisions.c.at, decisions.c.id)
    )
    asked = connection.execute(query).mappings()
    return lambda: tuple(map(_decision_of, asked))


def newest_session(caller: Caller, conversation_id: str) -> ColumnElement[str]:
    """The outcome of the newest decision about sessions: the turn that the window begins after, "" for none. It holds
    for a conversation that was never forked.
    """
    its = (decisions.c.conversation_id == conversation_id, decisions.c.owner == caller.user_id)
    newest = select(decisions.c.outcome).where(*its, decisions.c.kind == DecisionKind.SESSION)
    return newest.order_by(decisions.c.at.desc(), decisions.c.id.desc()).limit(1).scalar_subquery()


def find_decision_page(
    connection: Connection, caller: Caller, conversation_id: str, query: PageQuery
) -> Page[StoredDecision]:
    """A page of them."""
    owned_by = select(decisions).where(
        decisions.c.conversation_id == conversation_id, decisions.c.owner == caller.user_id
    )
    return page(connection, owned_by, decisions.c.id, query, _decision_of)


@dataclass(frozen=True, slots=True)
class _Node:
    """A turn in the tree."""

    parent: Place
    started_at: datetime


@dataclass(frozen=True, slots=True)
class Tree:
    """The turns of a conversation by id, and the models of its runs.

    `branched` are the sessions that were opened for a branch, each with the one whose window it has; `first` is the
    conversation's first.
    """

    nodes: Mapping[str, _Node]
    models: Mapping[str, str]
    branched: Mapping[str, str | None]
    first: str

    def path(self, place: Place) -> tuple[Place, ...]:
        """The places from the first turn to this one, each with the run that is followed."""
        found: list[Place] = []
        while place.turn_id is not None:
            found.append(place)
            place = self.nodes[place.turn_id].parent
        return tuple(reversed(found))

    def holding(self, known: Sequence[StoredDecision], place: Place) -> tuple[tuple[StoredDecision, bool], ...]:
        """The decisions that hold on the path to `place`, each with whether it does for every model.

        One that was made elsewhere holds from where the two ways part, if this path went on from there after it was
        made: what was sent before on another branch is never changed by it. What was decided about a run that the path
        does not follow holds for that run's model alone. What cuts the past off has to cut on this path.
        """
        path = self.path(place)
        index = {step.turn_id: number for number, step in enumerate(path)}
        followed = {step.turn_id: step.run_id for step in path}
        found = []
        for stored in known:
            decision = stored.decision
            if decision.kind is DecisionKind.SESSION and decision.outcome and decision.outcome not in index:
                continue
            if stored.turn_id is None or decision.kind is DecisionKind.CALIBRATION:
                found.append((stored, True))
                continue
            parting = self._parting(stored.turn_id, index)
            if parting + 1 < len(path) and self.nodes[str(path[parting + 1].turn_id)].started_at < stored.at:
                continue
            owned_by = stored.run_id is None or followed.get(stored.turn_id) in (None, stored.run_id)
            found.append((stored, owned_by))
        return tuple(self._windows(found, index))

    def _windows(
        self, found: Sequence[tuple[StoredDecision, bool]], index: Mapping[str | None, int]
    ) -> Iterator[tuple[StoredDecision, bool]]:
        """Without the ways of turns elsewhere into windows that are not this path's.

        Such a turn went on from an older place, and what holds there is for this path no newer than what held before:
        its session continues here only if it has the window that this path has anyway.
        """
        standing = self.first
        for stored, for_all in found:
            decision = stored.decision
            if decision.kind is DecisionKind.SESSION:
                is_elsewhere = WAY in decision.numbers and stored.turn_id not in index
                if is_elsewhere and not self._has_window_of(decision.subject, standing):
                    continue
                standing = decision.subject
            yield stored, for_all

    def _has_window_of(self, session_id: str, other: str) -> bool:
        """Whether a session is the other one, or a branch of it."""
        here: str | None = session_id
        while here is not None and here != other:
            here = self.branched.get(here)
        return here == other

    def _parting(self, turn_id: str, index: Mapping[str | None, int]) -> int:
        """The last turn of the path that lies on the way to `turn_id`; -1 for none."""
        here: str | None = turn_id
        while here is not None and here not in index:
            here = self.nodes[here].parent.turn_id if here in self.nodes else None
        return index[here] if here is not None else -1


def find_tree(connection: Connection, caller: Caller, conversation_id: str) -> Tree:
    """The shape of a conversation: read only if it has branches."""
    owned_by = (turns.c.conversation_id == conversation_id, turns.c.owner == caller.user_id)
    query = select(turns.c.id, turns.c.parent_id, turns.c.parent_run_id, turns.c.started_at).where(*owned_by)
    nodes = {id: _Node(Place(parent, run), at) for id, parent, run, at in connection.execute(query).all()}
    models = select(runs.c.id, runs.c.model).join(turns, turns.c.id == runs.c.turn_id).where(*owned_by)
    named = {row.id: row.model for row in connection.execute(models).all()}
    owned_by = (sessions.c.conversation_id == conversation_id, sessions.c.owner == caller.user_id)
    opened = (
        select(sessions.c.id, sessions.c.parent_id, sessions.c.opened_by).where(*owned_by).order_by(sessions.c.number)
    )
    rows = connection.execute(opened).all()
    branched = {row.id: row.parent_id for row in rows if row.opened_by == SessionCause.BRANCH}
    return Tree(nodes, named, branched, rows[0].id if rows else "")
