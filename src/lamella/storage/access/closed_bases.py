"""Which knowledge bases are closed to the reader of what was made of them: decided with each reading."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from sqlalchemy import Connection, select

from lamella.core.access import GrantLevel, level_of
from lamella.core.counting import count_tokens
from lamella.core.knowledge import DOUBTFUL, WITHHELD_SUMMARY, bases_of_steps, user_held_back, with_held_back
from lamella.core.messages import Turn
from lamella.core.records import Caller, TurnRecord
from lamella.core.sessions import Session
from lamella.storage.access.grants import standings
from lamella.storage.tables import grant_changes, knowledge_bases


def closed_bases(connection: Connection, caller: Caller, bases: Iterable[str]) -> frozenset[str]:
    """Of these bases, those that the caller may not read in full as it stands now.

    Who removes a base of their own keeps what was made of it.
    """
    named = set(bases)
    if not named:
        return frozenset()
    known = standings(connection, caller, sorted(named))
    closed = {base for base in named if level_of(known[base]) is not GrantLevel.FULL}
    return frozenset(closed - _own_and_gone(connection, caller, closed - {DOUBTFUL}))


def _own_and_gone(connection: Connection, caller: Caller, bases: Collection[str]) -> set[str]:
    """Of these bases, those that the caller owned and removed: only they have read one that nobody was ever granted."""
    if not bases:
        return set()
    there = select(knowledge_bases.c.id).where(knowledge_bases.c.id.in_(bases))
    of_others = select(grant_changes.c.knowledge_base_id).where(
        grant_changes.c.knowledge_base_id.in_(bases), grant_changes.c.owner != caller.user_id
    )
    known = set(connection.execute(there).scalars()) | set(connection.execute(of_others).scalars())
    return set(bases) - known


def turns_held_back(connection: Connection, caller: Caller, turns: Sequence[Turn]) -> tuple[Turn, ...]:
    """The turns without what was made of bases that are closed to the caller."""
    held = bases_of_steps([step for turn in turns for step in turn.steps])
    told = (base for turn in turns for base in turn.user.made_from)
    closed = closed_bases(connection, caller, held.union(told))
    if not closed:
        return tuple(turns)
    return tuple(
        replace(turn, user=user_held_back(turn.user, closed), steps=with_held_back(turn.steps, closed))
        for turn in turns
    )


def records_held_back(connection: Connection, caller: Caller, records: Sequence[TurnRecord]) -> tuple[TurnRecord, ...]:
    """As `turns_held_back`, for turns as clients see them."""
    steps = [step for one in records for run in one.runs for step in run.steps]
    told = (base for one in records for base in one.dynamic_from)
    closed = closed_bases(connection, caller, bases_of_steps(steps).union(told))
    if not closed:
        return tuple(records)
    return tuple(
        replace(
            one,
            dynamic=one.dynamic if closed.isdisjoint(one.dynamic_from) else "",
            runs=tuple(replace(run, steps=with_held_back(run.steps, closed)) for run in one.runs),
        )
        for one in records
    )


def sessions_held_back(connection: Connection, caller: Caller, sessions: Sequence[Session]) -> tuple[Session, ...]:
    """The sessions without summaries that were made of such bases."""
    closed = closed_bases(connection, caller, (base for session in sessions for base in session.made_from))
    if not closed:
        return tuple(sessions)
    return tuple(_without_summary(session, closed) for session in sessions)


def _without_summary(session: Session, closed: frozenset[str]) -> Session:
    withheld = tuple(sorted(closed.intersection(session.made_from)))
    if not withheld or session.summary is None:
        return session
    tokens = count_tokens(WITHHELD_SUMMARY)
    return replace(session, summary=WITHHELD_SUMMARY, summary_tokens=tokens, check={}, made_from=(), withheld=withheld)
