"""The audit of access: changes of grants and of groups, and questions to restricted bases (`core.access`)."""

from __future__ import annotations

from datetime import datetime
from typing import Any

from sqlalchemy import Column, Connection, RowMapping, Select, insert, literal, null, select

from lamella.core.access import AuditEntry, AuditKind, Group, User
from lamella.core.ids import Ids
from lamella.core.records import Page, PageQuery
from lamella.storage.columns import moment_text
from lamella.storage.database import Verbs, reads
from lamella.storage.pages import page
from lamella.storage.tables import grant_changes, member_changes, restricted_uses, users

MEMBER = "member"

_actors = users.alias("actors")
_owners = users.alias("owners")

_GRANTS = (
    select(
        grant_changes.c.id,
        grant_changes.c.at,
        grant_changes.c.by,
        _actors.c.name.label("by_name"),
        grant_changes.c.subject_id.label("subject"),
        grant_changes.c.subject_name,
        grant_changes.c.knowledge_base_id.label("on"),
        _owners.c.name.label("on_name"),
        grant_changes.c.before,
        grant_changes.c.after,
    )
    .outerjoin(_actors, _actors.c.id == grant_changes.c.by)
    .outerjoin(_owners, _owners.c.id == grant_changes.c.owner)
)
_MEMBERS = select(
    member_changes.c.id,
    member_changes.c.at,
    member_changes.c.by,
    _actors.c.name.label("by_name"),
    member_changes.c.owner.label("subject"),
    member_changes.c.user_name.label("subject_name"),
    member_changes.c.group_id.label("on"),
    member_changes.c.group_name.label("on_name"),
    member_changes.c.before,
    member_changes.c.after,
).outerjoin(_actors, _actors.c.id == member_changes.c.by)
_USES = (
    select(
        restricted_uses.c.id,
        restricted_uses.c.at,
        restricted_uses.c.user_id.label("by"),
        restricted_uses.c.user_name.label("by_name"),
        literal("").label("subject"),
        literal("").label("subject_name"),
        restricted_uses.c.knowledge_base_id.label("on"),
        _owners.c.name.label("on_name"),
        null().label("before"),
        restricted_uses.c.reason.label("after"),
    )
    .select_from(restricted_uses)
    .outerjoin(_owners, _owners.c.id == restricted_uses.c.owner)
)
_LISTS: dict[AuditKind, tuple[Select[*tuple[Any, ...]], Column[str]]] = {
    AuditKind.GRANTS: (_GRANTS, grant_changes.c.id),
    AuditKind.MEMBERS: (_MEMBERS, member_changes.c.id),
    AuditKind.RESTRICTED_USES: (_USES, restricted_uses.c.id),
}


def write_member_change(
    connection: Connection, ids: Ids, group: Group, user: User, by: str, at: datetime, *, is_in: bool
) -> None:
    """Keep that a user was put into a group, or taken out."""
    row = {
        "id": ids.new("change"),
        "owner": user.id,
        "user_name": user.name,
        "group_id": group.id,
        "group_name": group.name,
        "by": by,
        "at": moment_text(at),
        "before": None if is_in else MEMBER,
        "after": MEMBER if is_in else None,
    }
    connection.execute(insert(member_changes), row)


class AuditVerbs(Verbs):
    """The verb of `Directory` about what happened."""

    @reads
    def audit(self, connection: Connection, kind: AuditKind, query: PageQuery) -> Page[AuditEntry]:
        """What happened of this kind."""
        rows, key = _LISTS[kind]
        found, has_more = page(connection, rows, key, query)
        return Page(tuple(map(_entry_of, found)), has_more)


def _entry_of(row: RowMapping) -> AuditEntry:
    return AuditEntry(
        id=row["id"],
        at=datetime.fromisoformat(row["at"]),
        by=row["by"],
        by_name=row["by_name"] or row["by"],
        subject=row["subject"],
        subject_name=row["subject_name"],
        on=row["on"],
        on_name=row["on_name"] or "",
        before=row["before"],
        after=row["after"],
    )
