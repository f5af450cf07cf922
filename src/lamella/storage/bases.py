"""Knowledge bases with their grants, and how restricted ones were used."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial

from sqlalchemy import (
    ColumnElement,
    Connection,
    Integer,
    RowMapping,
    Text,
    case,
    cast,
    delete,
    exists,
    func,
    insert,
    or_,
    select,
    update,
)

from lamella.core.access import (
    DAILY_LIMIT,
    LONGEST_QUESTION,
    AccessFacts,
    BaseContent,
    DescribedBy,
    Disclosure,
    Grant,
    GrantChange,
    GrantLevel,
    KnowledgeBase,
    ReaderHistory,
    RestrictedReader,
    RestrictedUse,
    Subject,
    ToldPassage,
    can_see,
    level_of,
)
from lamella.core.errors import InvalidRequest, NotFound, PermissionDenied
from lamella.core.knowledge import DOUBTFUL, ERASE, Shelf
from lamella.core.records import Caller, NewJob, Page, PageQuery
from lamella.storage.database import Rows, reads, rows_changed, writes
from lamella.storage.grants import Granting, change_of, find_grants, name_of, standings, write_grant
from lamella.storage.jobs import enqueue_job, forget_jobs
from lamella.storage.keys import forget_keys
from lamella.storage.knowledge.documents import forget_shelf
from lamella.storage.rows import owned_by, page, page_rows, record, values
from lamella.storage.tables import (
    grant_changes,
    grants,
    group_members,
    jobs,
    knowledge_bases,
    restricted_told,
    restricted_uses,
    users,
)
from lamella.storage.tables import knowledge_bases as bases


def _base_of(row: RowMapping, facts: AccessFacts) -> KnowledgeBase:
    return record(KnowledgeBase, row, content=record(BaseContent, row), level=level_of(facts))


def find_base(connection: Connection, caller: Caller, base_id: str) -> KnowledgeBase:
    """A base that the caller can see, whatever the level; raises `NotFound`."""
    standing = standings(connection, caller, [base_id])[base_id]
    row = connection.execute(select(bases).where(bases.c.id == base_id)).mappings().first()
    if row is None or not can_see(standing, visible=row["visible"]):
        raise NotFound(f"There is no knowledge base {base_id}.", param="knowledge_base_id")
    return _base_of(row, standing)


def own_base(connection: Connection, caller: Caller, base_id: str) -> KnowledgeBase:
    """A base of the caller's own; raises `PermissionDenied` for one that the caller only sees."""
    base = find_base(connection, caller, base_id)
    if base.owner != caller.user_id:
        raise PermissionDenied("Only the owner of a knowledge base may do this.", hint="Ask its owner.")
    return base


def _in_sight(caller: Caller) -> ColumnElement[bool]:
    """Which rows `can_see` can be true of: it decides, and this keeps the others from being read."""
    owned_by = grants.c.subject_id == caller.user_id
    of_mine = exists().where(group_members.c.group_id == grants.c.subject_id, group_members.c.owner == caller.user_id)
    granted = exists().where(grants.c.knowledge_base_id == bases.c.id, or_(owned_by, of_mine))
    return or_(bases.c.owner == caller.user_id, bases.c.visible, granted)


class AccessRows(Rows):
    """Knowledge bases, the grants on them, and the uses of restricted ones."""

    @reads
    def level(self, connection: Connection, caller: Caller, base_id: str) -> GrantLevel:
        """How much of a base the caller may read, by `level_of` and as it stands now; `none` for an unknown base."""
        return level_of(standings(connection, caller, [base_id])[base_id])

    @writes
    def add_base(
        self, connection: Connection, caller: Caller, base_id: str, content: BaseContent, at: datetime
    ) -> KnowledgeBase:
        """Store a new base of the caller."""
        row = values(bases, content, id=base_id, owner=caller.user_id, created_at=at, updated_at=at)
        if connection.execute(select(users.c.id).where(users.c.id == caller.user_id)).first() is None:
            raise NotFound(f"There is no user {caller.user_id}.", param="user_id")
        connection.execute(insert(bases), row)
        return find_base(connection, caller, base_id)

    @reads
    def base(self, connection: Connection, caller: Caller, base_id: str) -> KnowledgeBase:
        """One base that the caller can see, whatever the level."""
        return find_base(connection, caller, base_id)

    @reads
    def owner_name(self, connection: Connection, base_id: str) -> str:
        """The name of the owner of a base; "" for an unknown one."""
        named = select(users.c.name).join(bases, bases.c.owner == users.c.id).where(bases.c.id == base_id)
        return str(connection.execute(named).scalar() or "")

    @reads
    def bases(self, connection: Connection, caller: Caller, query: PageQuery) -> Page[KnowledgeBase]:
        """The bases that the caller can see."""
        seen: list[KnowledgeBase] = []
        while True:
            rows = page_rows(connection, select(bases).where(_in_sight(caller)), bases.c.id, query)
            known = standings(connection, caller, [row["id"] for row in rows.data])
            shown = [row for row in rows.data if can_see(known[row["id"]], visible=row["visible"])]
            seen += [_base_of(row, known[row["id"]]) for row in shown]
            room = query.limit
            if not rows.has_more or len(seen) >= room:
                return Page(tuple(seen[:room]), rows.has_more or len(seen) > room)
            query = PageQuery(room, rows.data[-1]["id"], query.order)

    @writes
    def change_base(
        self,
        connection: Connection,
        caller: Caller,
        base_id: str,
        edit: Callable[[BaseContent], BaseContent],
        at: datetime,
    ) -> KnowledgeBase:
        """Store what `edit` makes of its content."""
        before = own_base(connection, caller, base_id).content
        after = edit(before)
        if after != before:
            changed = values(bases, after, updated_at=at)
            connection.execute(update(bases).where(*owned_by(bases, caller, base_id)).values(**changed))
        return find_base(connection, caller, base_id)

    @writes
    def describe_base(
        self,
        connection: Connection,
        caller: Caller,
        base_id: str,
        summary: str,
        topics: Sequence[str],
        made_from: str,
        at: datetime,
    ) -> bool:
        """Store what a model says that a base is about; False, and nothing stored, where a person has said it.

        `made_from` is a fingerprint of the documents, as `described_from` gives it back.
        """
        values = {"summary": summary, "topics": tuple(topics), "described_by": DescribedBy.MODEL}
        free = update(bases).where(*owned_by(bases, caller, base_id), bases.c.described_by != DescribedBy.USER)
        return rows_changed(connection, free.values(**values, described_from=made_from, updated_at=at)) > 0

    @reads
    def described_from(self, connection: Connection, caller: Caller, base_id: str) -> str | None:
        """The fingerprint of the documents that a model's words about a base were made from, "" for none.

        None if a person wrote the text.
        """
        query = select(bases.c.described_by, bases.c.described_from).where(bases.c.id == base_id)
        own_base(connection, caller, base_id)
        by, made_from = connection.execute(query).one()
        if by is DescribedBy.USER:
            return None
        return str(made_from) if by is DescribedBy.MODEL else ""

    @writes
    def delete_base(self, connection: Connection, caller: Caller, base_id: str, at: datetime) -> None:
        """Remove it with all that belongs to it, and its grants, each a change that is kept."""
        own_base(connection, caller, base_id)
        for grant in find_grants(connection, base_id):
            gone = Granting(grant.subject, grant.name, None, caller.user_id, at)
            write_grant(connection, self._ids, base_id, caller.user_id, gone)
        forget_shelf(connection, self._ids, Shelf(caller.user_id, base_id))
        forget_jobs(connection, caller, jobs.c.subject == base_id)
        erasing = NewJob(ERASE, base_id, "the base was removed", at)
        enqueue_job(connection, caller, self._ids.new("job"), erasing, at)
        forget_keys(connection, caller, base_id)
        connection.execute(delete(bases).where(*owned_by(bases, caller, base_id)))

    @reads
    def protected(self, connection: Connection, base_ids: frozenset[str]) -> frozenset[str]:
        """Of these bases, those that somebody may use and not read, and those of which that is not known."""
        restricted = grants.c.level == GrantLevel.RESTRICTED
        query = select(grants.c.knowledge_base_id).where(grants.c.knowledge_base_id.in_(base_ids), restricted)
        return frozenset(connection.execute(query).scalars()) | base_ids & {DOUBTFUL}

    @reads
    def grants(self, connection: Connection, caller: Caller, base_id: str) -> tuple[Grant, ...]:
        """Every grant on a base of the caller's, by name."""
        own_base(connection, caller, base_id)
        return find_grants(connection, base_id)

    @writes
    def set_grant(
        self,
        connection: Connection,
        caller: Caller,
        base_id: str,
        subject: Subject,
        level: GrantLevel | None,
        at: datetime,
    ) -> Grant | None:
        """Grant a level, or take a grant away with None; a difference is a change that is kept.

        Raises `InvalidRequest` for the owner, `NotFound` for an unknown user or group.
        """
        own_base(connection, caller, base_id)
        if subject.id == caller.user_id:
            raise InvalidRequest(
                "The owner of a knowledge base reads all of it.", hint="Name another user.", param="subject_id"
            )
        name = name_of(connection, subject)
        granting = Granting(subject, name, level, caller.user_id, at)
        write_grant(connection, self._ids, base_id, caller.user_id, granting)
        found = find_grants(connection, base_id)
        return next((grant for grant in found if grant.subject == subject), None)

    @reads
    def grant_changes(
        self, connection: Connection, caller: Caller, base_id: str, query: PageQuery
    ) -> Page[GrantChange]:
        """Every change of the grants on a base of the caller's."""
        of_base = select(grant_changes).where(grant_changes.c.knowledge_base_id == base_id)
        own_base(connection, caller, base_id)
        return page(connection, of_base, grant_changes.c.id, query, change_of)

    @reads
    def reader_history(
        self, connection: Connection, base_id: str, user_id: str, passage_ids: Sequence[str], since: datetime
    ) -> ReaderHistory:
        """What a reader got of a base: the answers since a moment, and the words of these passages since ever."""
        return _history(connection, base_id, user_id, passage_ids, since)

    @writes
    def record_answer(
        self,
        connection: Connection,
        use: RestrictedUse,
        told: Sequence[ToldPassage],
        history: ReaderHistory,
        since: datetime,
    ) -> RestrictedUse | None:
        """Keep an answer and what it told; None, and nothing kept, if `history` is no longer what its reader got.

        So of two answers that are made at once the second one is made again with what the first one told.
        """
        if _history(connection, use.base_id, use.user_id, use.passage_ids, since) != history:
            return None
        kept = self._kept_use(connection, use)
        for one in told:
            row = values(restricted_told, one, use_id=kept.id, knowledge_base_id=use.base_id, user_id=use.user_id)
            owner = select(bases.c.owner).where(bases.c.id == use.base_id).scalar_subquery()
            connection.execute(insert(restricted_told).values(**row, owner=owner))
        return kept

    @writes
    def record_restricted_use(self, connection: Connection, use: RestrictedUse) -> RestrictedUse:
        """Keep one, with the name that its user has; raises `NotFound` for a base that is gone."""
        return self._kept_use(connection, use)

    def _kept_use(self, connection: Connection, use: RestrictedUse) -> RestrictedUse:
        of_base = select(knowledge_bases.c.owner).where(knowledge_bases.c.id == use.base_id)
        owner = connection.execute(of_base).scalar()
        if owner is None:
            raise NotFound(f"There is no knowledge base {use.base_id}.", param="knowledge_base_id")
        name = connection.execute(select(users.c.name).where(users.c.id == use.user_id)).scalar()
        kept = replace(
            use, id=self._ids.new("use"), user_name=name or use.user_id, question=use.question[:LONGEST_QUESTION]
        )
        row = values(restricted_uses, kept, owner=owner, knowledge_base_id=kept.base_id)
        connection.execute(insert(restricted_uses), row)
        return kept

    @reads
    def restricted_uses(
        self, connection: Connection, caller: Caller, base_id: str, query: PageQuery
    ) -> Page[RestrictedUse]:
        """Those of a base of the caller's; raises `NotFound` and `PermissionDenied`."""
        of_base = select(restricted_uses).where(restricted_uses.c.knowledge_base_id == base_id)
        own_base(connection, caller, base_id)
        return page(connection, of_base, restricted_uses.c.id, query, partial(record, RestrictedUse, base_id=base_id))

    @reads
    def disclosures(
        self, connection: Connection, caller: Caller, base_id: str, document_id: str, limit: int
    ) -> tuple[tuple[Disclosure, ...], bool]:
        """What answers told of a document of a base of the caller's, the newest `limit`, and whether there are more."""
        own_base(connection, caller, base_id)
        of = restricted_told.c
        query = (
            select(restricted_told, *(restricted_uses.c[name] for name in ("user_name", "at", "question")))
            .join(restricted_uses, restricted_uses.c.id == of.use_id)
            .where(of.knowledge_base_id == base_id, of.passage_id.startswith(f"{document_id}:", autoescape=True))
            .order_by(of.use_id.desc(), of.passage_id)
            .limit(limit + 1)
        )
        rows = connection.execute(query).mappings().all()
        found = [record(Disclosure, row, told=record(ToldPassage, row)) for row in rows[:limit]]
        return tuple(found), len(rows) > limit

    @reads
    def restricted_readers(
        self, connection: Connection, caller: Caller, base_id: str, since: datetime
    ) -> tuple[RestrictedReader, ...]:
        """Who asked a base of the caller's since a moment, the last one first."""
        own_base(connection, caller, base_id)
        of = restricted_uses.c
        cut = cast(of.removed, Text)
        query = (
            select(
                of.user_id,
                func.max(of.user_name).label("user_name"),
                func.sum(cast(of.counted, Integer)).label("answers"),
                func.sum(cast(of.short, Integer)).label("short"),
                func.sum(case((of.reason == DAILY_LIMIT, 1), else_=0)).label("limited"),
                func.sum(case((cut.contains('"covered"'), 1), else_=0)).label("covered"),
                func.sum(case((cut.contains('"name"'), 1), else_=0)).label("named"),
                func.max(of.at).label("last_at"),
            )
            .where(of.knowledge_base_id == base_id, of.at >= since)
            .group_by(of.user_id)
            .order_by(func.max(of.at).desc())
        )
        return tuple(record(RestrictedReader, row) for row in connection.execute(query).mappings())


def _history(
    connection: Connection, base_id: str, user_id: str, passage_ids: Sequence[str], since: datetime
) -> ReaderHistory:
    of, told = restricted_uses.c, restricted_told.c
    counts = select(func.sum(cast(of.counted, Integer)), func.sum(cast(of.short, Integer))).where(
        of.knowledge_base_id == base_id, of.user_id == user_id, of.at >= since
    )
    answers, short = connection.execute(counts).one()
    rows = select(told.passage_id, told.words).where(
        told.knowledge_base_id == base_id, told.user_id == user_id, told.passage_id.in_(passage_ids)
    )
    words: defaultdict[str, set[str]] = defaultdict(set)
    for passage_id, new in connection.execute(rows):
        words[passage_id].update(new)
    return ReaderHistory(answers or 0, short or 0, {one: frozenset(known) for one, known in words.items()})
