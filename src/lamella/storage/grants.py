"""Who may read which knowledge base, decided with each reading, and every change of a grant.

What was made of a base is held back from a reader who may not read all of it any more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Connection, RowMapping, String, delete, insert, select, type_coerce

from lamella.core.access import AccessFacts, Grant, GrantChange, GrantLevel, Group, Subject, level_of
from lamella.core.counting import count_tokens
from lamella.core.errors import NotFound
from lamella.core.ids import Ids
from lamella.core.knowledge import (
    DOUBTFUL,
    WITHHELD_ANSWER,
    WITHHELD_SUMMARY,
    WITHHELD_TITLE,
    bases_of,
    bases_of_steps,
    user_held_back,
    with_held_back,
)
from lamella.core.messages import ToolResult, Turn
from lamella.core.records import Caller, RequestRecord, TurnRecord
from lamella.core.sessions import Session
from lamella.storage.failures import damaged
from lamella.storage.rows import record
from lamella.storage.tables import (
    grant_changes,
    grants,
    group_members,
    groups,
    knowledge_bases,
    messages,
    requests,
    users,
)


def standings(connection: Connection, caller: Caller, base_ids: Sequence[str]) -> Mapping[str, AccessFacts]:
    """What is known about the caller and each of these bases."""
    user_id = caller.user_id
    # A word that no role or level has is no error here: `level_of` takes it for `none`.
    role, level = (type_coerce(column, String).label(column.name) for column in (users.c.role, grants.c.level))
    asker = connection.execute(select(role, users.c.disabled).where(users.c.id == user_id)).first()
    owned = select(knowledge_bases.c.id, knowledge_bases.c.owner).where(knowledge_bases.c.id.in_(base_ids))
    owners = {row.id: row.owner for row in connection.execute(owned)}
    mine = select(grants.c.knowledge_base_id, level).where(grants.c.knowledge_base_id.in_(base_ids))
    own = mine.where(grants.c.subject_kind == "user", grants.c.subject_id == user_id)
    direct = {row.knowledge_base_id: row.level for row in connection.execute(own)}
    of_groups = mine.join(group_members, group_members.c.group_id == grants.c.subject_id).where(
        grants.c.subject_kind == "group", group_members.c.owner == user_id
    )
    by_group: defaultdict[str, list[str]] = defaultdict(list)
    for row in connection.execute(of_groups):
        by_group[row.knowledge_base_id].append(row.level)
    return {
        base_id: AccessFacts(
            user_id=user_id,
            role=None if asker is None else asker.role,
            disabled=asker is None or asker.disabled,
            owner=owners.get(base_id),
            direct=direct.get(base_id),
            groups=tuple(sorted(by_group[base_id])),
        )
        for base_id in base_ids
    }


def find_grants(connection: Connection, base_id: str) -> tuple[Grant, ...]:
    """Every grant on a base, by name."""
    query = (
        select(grants, users.c.name.label("user_name"), groups.c.name.label("group_name"))
        .outerjoin(users, (grants.c.subject_kind == "user") & (users.c.id == grants.c.subject_id))
        .outerjoin(groups, (grants.c.subject_kind == "group") & (groups.c.id == grants.c.subject_id))
        .where(grants.c.knowledge_base_id == base_id)
    )
    found = [_grant_of(row) for row in connection.execute(query).mappings()]
    return tuple(sorted(found, key=lambda grant: (grant.name.casefold(), grant.subject.id)))


@dataclass(frozen=True, slots=True)
class Granting:
    """A grant to make (`level`) or to take away (None), by whom and when."""

    subject: Subject
    name: str
    level: GrantLevel | None
    by: str
    at: datetime


def write_grant(connection: Connection, ids: Ids, base_id: str, owner: str, granting: Granting) -> None:
    """Make or take away a grant on a base, and keep that it was changed; nothing for what is so already."""
    subject, level = granting.subject, granting.level
    here = (grants.c.knowledge_base_id == base_id, grants.c.subject_id == subject.id)
    before = connection.execute(select(grants.c.level).where(*here)).scalar()
    if before is level:
        return
    shared = {"owner": owner, "knowledge_base_id": base_id, "subject_id": subject.id, "subject_kind": subject.kind}
    given = {"by": granting.by, "at": granting.at}
    connection.execute(delete(grants).where(*here))
    if level is not None:
        connection.execute(insert(grants), {**shared, **given, "level": level})
    changed = {"id": ids.new("change"), "subject_name": granting.name, "before": before, "after": level}
    connection.execute(insert(grant_changes), {**shared, **given, **changed})


def forget_group(connection: Connection, ids: Ids, group: Group, by: str, at: datetime) -> None:
    """Take away every grant of a group that is removed."""
    query = select(grants.c.knowledge_base_id, grants.c.owner).where(grants.c.subject_id == group.id)
    gone = Granting(Subject("group", group.id), group.name, None, by, at)
    for base_id, owner in connection.execute(query).all():
        write_grant(connection, ids, base_id, owner, gone)


def name_of(connection: Connection, subject: Subject) -> str:
    """The name of a user or a group; raises `NotFound`."""
    table = users if subject.kind == "user" else groups
    name = connection.execute(select(table.c.name).where(table.c.id == subject.id)).scalar()
    if name is None:
        raise NotFound(f"There is no {subject.kind} {subject.id}.", param="subject_id")
    return str(name)


def _subject_of(row: RowMapping) -> Subject:
    kind = row["subject_kind"]
    if kind not in ("user", "group"):
        raise damaged(f"grant to {row['subject_id']}", kind)
    return Subject(kind, row["subject_id"])


def _grant_of(row: RowMapping) -> Grant:
    name = row["user_name"] or row["group_name"] or row["subject_id"]
    return record(Grant, row, subject=_subject_of(row), name=name)


def change_of(row: RowMapping) -> GrantChange:
    """The kept change of a row."""
    return record(GrantChange, row, subject=_subject_of(row), name=row["subject_name"])


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


def requests_held_back(
    connection: Connection, caller: Caller, found: Sequence[RequestRecord]
) -> tuple[RequestRecord, ...]:
    """The requests; of one that was made from such bases the counts stay, and no text."""
    closed = closed_bases(connection, caller, (base for one in found for base in one.made_from))
    return tuple(_without_texts(one, tuple(sorted(closed.intersection(one.made_from)))) for one in found)


def _without_texts(request: RequestRecord, withheld: tuple[str, ...]) -> RequestRecord:
    if not withheld:
        return request
    return replace(
        request,
        head={},
        segments=tuple(replace(one, label=one.kind) for one in request.segments),
        notes=(),
        said=replace(request.said, text=WITHHELD_ANSWER) if request.said is not None else None,
        withheld=withheld,
    )


def titles_held_back(connection: Connection, caller: Caller, rows: Sequence[RowMapping]) -> dict[str, str]:
    """The titles of these conversations by id; a fixed word for one that was made from such bases."""
    closed = closed_bases(connection, caller, (base for row in rows for base in row["title_made_from"]))
    return {row["id"]: row["title"] if closed.isdisjoint(row["title_made_from"]) else WITHHELD_TITLE for row in rows}


def closed_turn(connection: Connection, caller: Caller, turn_id: str) -> bool:
    """Whether anything of a turn was made from such bases."""
    return bool(closed_bases(connection, caller, bases_of_turn(connection, caller, turn_id)))


def bases_of_turn(connection: Connection, caller: Caller, turn_id: str) -> frozenset[str]:
    """The bases that a turn was made from: what was answered, found, or read for its answer."""
    its = (messages.c.turn_id == turn_id, messages.c.owner == caller.user_id, messages.c.seq > 0)
    read = (requests.c.turn_id == turn_id, requests.c.owner == caller.user_id, requests.c.purpose == "chat")
    held = {base for of in connection.execute(select(requests.c.made_from).where(*read)).scalars() for base in of}
    for made_from, results in connection.execute(select(messages.c.made_from, messages.c.results).where(*its)):
        held.update(made_from, *(bases_of(result) for result in results if isinstance(result, ToolResult)))
    return frozenset(held)


def _without_summary(session: Session, closed: frozenset[str]) -> Session:
    withheld = tuple(sorted(closed.intersection(session.made_from)))
    if not withheld or session.summary is None:
        return session
    tokens = count_tokens(WITHHELD_SUMMARY)
    return replace(session, summary=WITHHELD_SUMMARY, summary_tokens=tokens, check={}, made_from=(), withheld=withheld)
