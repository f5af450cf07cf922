"""Who may read which knowledge base: what is known for the decision, the grants, and every change of one."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import Connection, RowMapping, delete, insert, select

from lamella.core.access import BaseStanding, Grant, GrantChange, GrantLevel, Group, Subject
from lamella.core.errors import NotFound
from lamella.core.ids import Ids
from lamella.core.records import Caller
from lamella.storage.columns import moment_text, word_of
from lamella.storage.failures import damaged
from lamella.storage.tables import grant_changes, grants, group_members, groups, knowledge_bases, users


def standings(connection: Connection, caller: Caller, base_ids: Sequence[str]) -> Mapping[str, BaseStanding]:
    """What is known about the caller and each of these bases."""
    user_id = caller.user_id
    asker = connection.execute(select(users.c.role, users.c.disabled).where(users.c.id == user_id)).first()
    owned = select(knowledge_bases.c.id, knowledge_bases.c.owner).where(knowledge_bases.c.id.in_(base_ids))
    owners = {row.id: row.owner for row in connection.execute(owned)}
    mine = select(grants.c.knowledge_base_id, grants.c.level).where(grants.c.knowledge_base_id.in_(base_ids))
    own = mine.where(grants.c.subject_kind == "user", grants.c.subject_id == user_id)
    direct = {row.knowledge_base_id: row.level for row in connection.execute(own)}
    of_groups = mine.join(group_members, group_members.c.group_id == grants.c.subject_id).where(
        grants.c.subject_kind == "group", group_members.c.owner == user_id
    )
    by_group: defaultdict[str, list[str]] = defaultdict(list)
    for row in connection.execute(of_groups):
        by_group[row.knowledge_base_id].append(row.level)
    return {
        base_id: BaseStanding(
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
    after = None if level is None else level.value
    if before == after:
        return
    shared = {"owner": owner, "knowledge_base_id": base_id, "subject_id": subject.id, "subject_kind": subject.kind}
    given = {"by": granting.by, "at": moment_text(granting.at)}
    connection.execute(delete(grants).where(*here))
    if after is not None:
        connection.execute(insert(grants), {**shared, **given, "level": after})
    changed = {"id": ids.new("change"), "subject_name": granting.name, "before": before, "after": after}
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
    level = word_of(GrantLevel, row["level"], f"grant on {row['knowledge_base_id']}")
    name = row["user_name"] or row["group_name"] or row["subject_id"]
    return Grant(_subject_of(row), name, level, row["by"], datetime.fromisoformat(row["at"]))


def change_of(row: RowMapping) -> GrantChange:
    """The kept change of a row."""
    what = f"change {row['id']}"
    before, after = (
        None if word is None else word_of(GrantLevel, word, what) for word in (row["before"], row["after"])
    )
    at = datetime.fromisoformat(row["at"])
    return GrantChange(row["id"], _subject_of(row), row["subject_name"], row["by"], at, before, after)
