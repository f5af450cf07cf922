"""Who may read which knowledge base, decided with each reading, and every change of a grant.

What was made of a base is held back from a reader who may not read all of it any more.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from sqlalchemy import Connection, RowMapping, String, delete, insert, select, type_coerce

from lamella.core.access import AccessFacts, Grant, GrantChange, GrantLevel, Group, Subject, level_of
from lamella.core.counting import count_tokens
from lamella.core.errors import NotFound
from lamella.core.ids import Ids
from lamella.core.json import Json, JsonObject
from lamella.core.knowledge import (
    DOUBTFUL,
    WITHHELD_ANSWER,
    WITHHELD_SUMMARY,
    WITHHELD_TITLE,
    bases_of,
    bases_of_steps,
    error_held_back,
    user_held_back,
    with_held_back,
)
from lamella.core.messages import ToolResult, Turn
from lamella.core.records import Caller, Notice, NoticeKind, RequestRecord, RunRecord, TurnRecord
from lamella.core.sessions import Session
from lamella.core.withheld_packets import RequestBases
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
    sessions,
    users,
)


def standings(connection: Connection, caller: Caller, base_ids: Sequence[str]) -> Mapping[str, AccessFacts]:
    """What is known about the caller and each of these bases."""
    user_id = caller.user_id
    # A word that no role or level has is no error here: `level_of` takes it for `none`.
    role, level = (type_coerce(column, String).label(column.name) for column in (users.c.role, grants.c.level))
    owned = select(knowledge_bases.c.id, knowledge_bases.c.owner).where(knowledge_bases.c.id.in_(base_ids))
    owned_by = select(grants.c.knowledge_base_id, level).where(grants.c.knowledge_base_id.in_(base_ids))
    own = owned_by.where(grants.c.subject_kind == "user", grants.c.subject_id == user_id)
    of_groups = owned_by.join(group_members, group_members.c.group_id == grants.c.subject_id).where(
        grants.c.subject_kind == "group", group_members.c.owner == user_id
    )
    asked = connection.execute(select(role, users.c.disabled).where(users.c.id == user_id))
    all_asked = [connection.execute(query) for query in (owned, own, of_groups)]
    asker, (owned_rows, own_rows, group_rows) = asked.first(), all_asked
    owners = {row.id: row.owner for row in owned_rows}
    direct = {row.knowledge_base_id: row.level for row in own_rows}
    by_group: defaultdict[str, list[str]] = defaultdict(list)
    for row in group_rows:
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
    bases = (base for turn in turns for base in turn.user.made_from)
    closed = closed_bases(connection, caller, held.union(bases))
    if not closed:
        return tuple(turns)
    return tuple(
        replace(turn, user=user_held_back(turn.user, closed), steps=with_held_back(turn.steps, closed))
        for turn in turns
    )


def records_held_back(connection: Connection, caller: Caller, records: Sequence[TurnRecord]) -> tuple[TurnRecord, ...]:
    """As `turns_held_back`, for turns as clients see them; what failed is told without its text."""
    steps = [step for one in records for run in one.runs for step in run.steps]
    bases = (base for one in records for base in one.dynamic_from)
    failed = [one.id for one in records if one.error or any(run.error for run in one.runs)]
    read = _read_by_runs(connection, caller, failed)
    closed = closed_bases(connection, caller, bases_of_steps(steps).union(bases, *read.values()))
    if not closed:
        return tuple(records)
    return tuple(
        replace(
            one,
            dynamic=one.dynamic if closed.isdisjoint(one.dynamic_from) else "",
            runs=tuple(_run_held_back(run, read.get(run.id, frozenset()), closed) for run in one.runs),
            error=_error_of(one.error, closed.isdisjoint(base for run in one.runs for base in read.get(run.id, ()))),
        )
        for one in records
    )


def _run_held_back(run: RunRecord, read: frozenset[str], closed: frozenset[str]) -> RunRecord:
    return replace(
        run, steps=with_held_back(run.steps, closed), error=_error_of(run.error, is_open=closed.isdisjoint(read))
    )


def _error_of(error: Mapping[str, str | None] | None, is_open: bool) -> Mapping[str, str | None] | None:
    return error if error is None or is_open else error_held_back(error)


def _read_by_runs(connection: Connection, caller: Caller, turn_ids: Sequence[str]) -> Mapping[str, frozenset[str]]:
    """The bases of which something stood in a request of a run, by run."""
    if not turn_ids:
        return {}
    query = select(requests.c.run_id, requests.c.made_from).where(
        requests.c.turn_id.in_(turn_ids), requests.c.owner == caller.user_id, requests.c.run_id.is_not(None)
    )
    found: defaultdict[str, frozenset[str]] = defaultdict(frozenset)
    for run_id, made_from in connection.execute(query):
        found[run_id] |= frozenset(made_from)
    return found


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
        error=_error_of(request.error, is_open=False),
        withheld=withheld,
    )


def titles_held_back(connection: Connection, caller: Caller, rows: Sequence[RowMapping]) -> dict[str, str]:
    """The titles of these conversations by id; a fixed word for one that was made from such bases."""
    closed = closed_bases(connection, caller, (base for row in rows for base in row["title_made_from"]))
    return {row["id"]: row["title"] if closed.isdisjoint(row["title_made_from"]) else WITHHELD_TITLE for row in rows}


_FIGURES_ONLY = frozenset(
    {"status", "context", "help", "new", "clear", "prune", "undo", "queue", "abort", "stop", "cancel"}
)
"""Commands whose answers hold figures, numbers of sessions and the user's own words; the others may quote a window."""

_KEPT_DATA = frozenset({"session_id", "summary_of", "request_id", "message_id", "code", "cause", "text"})
"""Texts in the data of a notice that are ids, words of fixed lists, or the user's own."""


def may_quote(notice: Notice) -> bool:
    """Whether a notice may hold text of a window or of a provider's error."""
    if "error" in notice.data:
        return True
    is_plain = notice.kind is NoticeKind.PRUNED or (notice.kind is NoticeKind.COMMAND and notice.name in _FIGURES_ONLY)
    return not is_plain


def notice_without_text(notice: Notice) -> Notice:
    """The notice with a fixed sentence for its text, and its ids and figures alone."""
    return replace(notice, text=WITHHELD_ANSWER, data=_figures(notice.data))


def _figures(data: JsonObject) -> JsonObject:
    kept: dict[str, Json] = {name: one for name, one in data.items() if one is None or isinstance(one, int | float)}
    kept |= {name: data[name] for name in _KEPT_DATA & data.keys()}
    error = data.get("error")
    if isinstance(error, dict):
        kept["error"] = dict(error_held_back({name: str(one) for name, one in error.items() if one is not None}))
    return kept


def notices_held_back(connection: Connection, caller: Caller, notices: Sequence[Notice]) -> tuple[Notice, ...]:
    """The notices without the text of those that may quote such bases."""
    closed = closed_bases(connection, caller, (base for one in notices for base in one.made_from))
    return tuple(one if closed.isdisjoint(one.made_from) else notice_without_text(one) for one in notices)


def bases_to_quote(connection: Connection, caller: Caller, conversation_id: str) -> tuple[str, ...]:
    """The bases that a conversation holds something of and that the caller may read in full now."""
    its = (requests.c.conversation_id == conversation_id, requests.c.owner == caller.user_id)
    ended = (sessions.c.conversation_id == conversation_id, sessions.c.owner == caller.user_id)
    held: set[str] = set()
    for query in (select(requests.c.made_from).where(*its), select(sessions.c.made_from).where(*ended)):
        held.update(base for of in connection.execute(query.distinct()).scalars() for base in of)
    return tuple(sorted(held - closed_bases(connection, caller, held)))


def ask_bases_of_turn(connection: Connection, caller: Caller, turn_id: str) -> Callable[[], frozenset[str]]:
    """Asks for the bases that a turn was made from: what was answered, found, or read for its answer."""
    its = (messages.c.turn_id == turn_id, messages.c.owner == caller.user_id, messages.c.seq > 0)
    sent = (requests.c.turn_id == turn_id, requests.c.owner == caller.user_id, requests.c.purpose == "chat")
    of_requests = connection.execute(select(requests.c.made_from).where(*sent)).scalars()
    of_steps = connection.execute(select(messages.c.made_from, messages.c.results).where(*its))

    def found() -> frozenset[str]:
        held = {base for of in of_requests for base in of}
        for made_from, results in of_steps:
            held.update(made_from, *(bases_of(result) for result in results if isinstance(result, ToolResult)))
        return frozenset(held)

    return found


def bases_of_requests(connection: Connection, caller: Caller, turn_id: str) -> Mapping[str, RequestBases]:
    """The bases of each request of a turn's runs, by its id. One that made no step has those of its window."""
    sent = select(requests.c.id, requests.c.run_id, requests.c.step, requests.c.made_from).where(
        requests.c.turn_id == turn_id, requests.c.owner == caller.user_id, requests.c.purpose == "chat"
    )
    made = (
        select(messages.c.run_id, messages.c.made_from)
        .where(messages.c.turn_id == turn_id, messages.c.owner == caller.user_id, messages.c.seq > 0)
        .order_by(messages.c.seq)
    )
    rows = connection.execute(sent).all()
    steps: defaultdict[str, list[frozenset[str]]] = defaultdict(list)
    for run_id, made_from in connection.execute(made):
        steps[run_id].append(frozenset(made_from))
    numbers: defaultdict[str, set[int]] = defaultdict(set)
    for row in rows:
        numbers[row.run_id].add(row.step)
    found = {}
    for row in rows:
        window, place = frozenset(row.made_from), sorted(numbers[row.run_id]).index(row.step)
        made_step = steps[row.run_id]
        found[row.id] = RequestBases(made_step[place] if place < len(made_step) else window, window)
    return found


def _without_summary(session: Session, closed: frozenset[str]) -> Session:
    withheld = tuple(sorted(closed.intersection(session.made_from)))
    if not withheld or session.summary is None:
        return session
    tokens = count_tokens(WITHHELD_SUMMARY)
    return replace(session, summary=WITHHELD_SUMMARY, summary_tokens=tokens, check={}, made_from=(), withheld=withheld)
