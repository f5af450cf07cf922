"""Groups and who is in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import Connection, RowMapping, delete, insert, select, update

from lamella.core.access import Group, User
from lamella.core.errors import InvalidRequest, NotFound
from lamella.core.records import Page, PageQuery
from lamella.storage.access.audit import write_member_change
from lamella.storage.access.grants import forget_group
from lamella.storage.access.users import find_user, user_of
from lamella.storage.columns import moment_text
from lamella.storage.database import Verbs, insert_missing, reads, writes
from lamella.storage.pages import page
from lamella.storage.tables import group_members, groups, users


def _members(connection: Connection, group_ids: Sequence[str]) -> Mapping[str, Sequence[User]]:
    query = (
        select(group_members.c.group_id, *users.c)
        .join(users, users.c.id == group_members.c.owner)
        .where(group_members.c.group_id.in_(group_ids))
        .order_by(group_members.c.group_id, users.c.id)
    )
    found: defaultdict[str, list[User]] = defaultdict(list)
    for row in connection.execute(query).mappings():
        found[row["group_id"]].append(user_of(row))
    return found


def _group_of(row: RowMapping, members: Sequence[User]) -> Group:
    return Group(row["id"], row["name"], datetime.fromisoformat(row["created_at"]), tuple(members))


def find_group(connection: Connection, group_id: str) -> Group:
    """One group with its members."""
    row = connection.execute(select(groups).where(groups.c.id == group_id)).mappings().first()
    if row is None:
        raise NotFound(f"There is no group {group_id}.", param="group_id")
    return _group_of(row, _members(connection, [group_id]).get(group_id, ()))


def _check_free(connection: Connection, name: str, group_id: str) -> None:
    query = select(groups.c.id).where(groups.c.folded == name.casefold(), groups.c.id != group_id)
    if connection.execute(query).first() is not None:
        raise InvalidRequest(f"There is a group “{name}” already.", hint="Choose another name.", param="name")


class GroupVerbs(Verbs):
    """The verbs of `Directory` about groups."""

    @writes
    def add_group(self, connection: Connection, group: Group) -> Group:
        """Store a new group, without its members."""
        row = {
            "id": group.id,
            "name": group.name,
            "folded": group.name.casefold(),
            "created_at": moment_text(group.created_at),
        }
        _check_free(connection, group.name, group.id)
        connection.execute(insert(groups), row)
        return find_group(connection, group.id)

    @reads
    def group(self, connection: Connection, group_id: str) -> Group:
        """One group with its members."""
        return find_group(connection, group_id)

    @reads
    def groups(self, connection: Connection, query: PageQuery) -> Page[Group]:
        """All groups, with their members."""
        rows, has_more = page(connection, select(groups), groups.c.id, query)
        members = _members(connection, [row["id"] for row in rows])
        return Page(tuple(_group_of(row, members.get(row["id"], ())) for row in rows), has_more)

    @writes
    def rename_group(self, connection: Connection, group_id: str, name: str) -> Group:
        """Give it another name."""
        find_group(connection, group_id)
        _check_free(connection, name, group_id)
        named = {"name": name, "folded": name.casefold()}
        connection.execute(update(groups).where(groups.c.id == group_id).values(**named))
        return find_group(connection, group_id)

    @writes
    def delete_group(self, connection: Connection, group_id: str, by: str, at: datetime) -> None:
        """Remove it with its grants, each a change that is kept."""
        group = find_group(connection, group_id)
        forget_group(connection, self._ids, group, by, at)
        for member in group.members:
            write_member_change(connection, self._ids, group, member, by, at, is_in=False)
        connection.execute(delete(groups).where(groups.c.id == group_id))

    @writes
    def add_member(self, connection: Connection, group_id: str, user_id: str, by: str, at: datetime) -> Group:
        """Put a user into a group; one who is in it already stays."""
        group, user = find_group(connection, group_id), find_user(connection, user_id)
        if user_id in {member.id for member in group.members}:
            return group
        write_member_change(connection, self._ids, group, user, by, at, is_in=True)
        insert_missing(connection, group_members, [{"group_id": group_id, "owner": user_id}])
        return find_group(connection, group_id)

    @writes
    def remove_member(self, connection: Connection, group_id: str, user_id: str, by: str, at: datetime) -> Group:
        """Take a user out of a group; raises `NotFound` for one who is not in it."""
        gone = delete(group_members).where(group_members.c.group_id == group_id, group_members.c.owner == user_id)
        group = find_group(connection, group_id)
        user = next((member for member in group.members if member.id == user_id), None)
        if user is None:
            raise NotFound(f"{user_id} is not in this group.", param="user_id")
        connection.execute(gone)
        write_member_change(connection, self._ids, group, user, by, at, is_in=False)
        return find_group(connection, group_id)
