"""Groups and who is in them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime

from sqlalchemy import RowMapping, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from lamella.core.access import Group, User
from lamella.core.errors import InvalidRequest, NotFound
from lamella.core.records import Page, PageQuery
from lamella.storage.access.audit import write_member_change
from lamella.storage.access.grants import forget_group
from lamella.storage.access.users import find_user, user_of
from lamella.storage.columns import moment_text
from lamella.storage.database import Verbs, insert_missing, uninterrupted
from lamella.storage.pages import page
from lamella.storage.tables import group_members, groups, users


async def _members(connection: AsyncConnection, group_ids: Sequence[str]) -> Mapping[str, Sequence[User]]:
    query = (
        select(group_members.c.group_id, *users.c)
        .join(users, users.c.id == group_members.c.owner)
        .where(group_members.c.group_id.in_(group_ids))
        .order_by(group_members.c.group_id, users.c.id)
    )
    found: defaultdict[str, list[User]] = defaultdict(list)
    for row in (await connection.execute(query)).mappings():
        found[row["group_id"]].append(user_of(row))
    return found


def _group_of(row: RowMapping, members: Sequence[User]) -> Group:
    return Group(row["id"], row["name"], datetime.fromisoformat(row["created_at"]), tuple(members))


async def find_group(connection: AsyncConnection, group_id: str) -> Group:
    """One group with its members."""
    row = (await connection.execute(select(groups).where(groups.c.id == group_id))).mappings().first()
    if row is None:
        raise NotFound(f"There is no group {group_id}.", param="group_id")
    return _group_of(row, (await _members(connection, [group_id])).get(group_id, ()))


async def _check_free(connection: AsyncConnection, name: str, group_id: str) -> None:
    query = select(groups.c.id).where(groups.c.folded == name.casefold(), groups.c.id != group_id)
    if (await connection.execute(query)).first() is not None:
        raise InvalidRequest(f"There is a group “{name}” already.", hint="Choose another name.", param="name")


class GroupVerbs(Verbs):
    """The verbs of `Directory` about groups."""

    @uninterrupted
    async def add_group(self, group: Group) -> Group:
        """Store a new group, without its members."""
        row = {
            "id": group.id,
            "name": group.name,
            "folded": group.name.casefold(),
            "created_at": moment_text(group.created_at),
        }
        async with self._database.writing() as connection:
            await _check_free(connection, group.name, group.id)
            await connection.execute(insert(groups), row)
            return await find_group(connection, group.id)

    @uninterrupted
    async def group(self, group_id: str) -> Group:
        """One group with its members."""
        async with self._database.reading() as connection:
            return await find_group(connection, group_id)

    @uninterrupted
    async def groups(self, query: PageQuery) -> Page[Group]:
        """All groups, with their members."""
        async with self._database.reading() as connection:
            rows, has_more = await page(connection, select(groups), groups.c.id, query)
            members = await _members(connection, [row["id"] for row in rows])
        return Page(tuple(_group_of(row, members.get(row["id"], ())) for row in rows), has_more)

    @uninterrupted
    async def rename_group(self, group_id: str, name: str) -> Group:
        """Give it another name."""
        async with self._database.writing() as connection:
            await find_group(connection, group_id)
            await _check_free(connection, name, group_id)
            named = {"name": name, "folded": name.casefold()}
            await connection.execute(update(groups).where(groups.c.id == group_id).values(**named))
            return await find_group(connection, group_id)

    @uninterrupted
    async def delete_group(self, group_id: str, by: str, at: datetime) -> None:
        """Remove it with its grants, each a change that is kept."""
        async with self._database.writing() as connection:
            group = await find_group(connection, group_id)
            await forget_group(connection, self._ids, group, by, at)
            for member in group.members:
                await write_member_change(connection, self._ids, group, member, by, at, is_in=False)
            await connection.execute(delete(groups).where(groups.c.id == group_id))

    @uninterrupted
    async def add_member(self, group_id: str, user_id: str, by: str, at: datetime) -> Group:
        """Put a user into a group; one who is in it already stays."""
        async with self._database.writing() as connection:
            group, user = await find_group(connection, group_id), await find_user(connection, user_id)
            if user_id in {member.id for member in group.members}:
                return group
            await write_member_change(connection, self._ids, group, user, by, at, is_in=True)
            await insert_missing(connection, group_members, [{"group_id": group_id, "owner": user_id}])
            return await find_group(connection, group_id)

    @uninterrupted
    async def remove_member(self, group_id: str, user_id: str, by: str, at: datetime) -> Group:
        """Take a user out of a group; raises `NotFound` for one who is not in it."""
        gone = delete(group_members).where(group_members.c.group_id == group_id, group_members.c.owner == user_id)
        async with self._database.writing() as connection:
            group = await find_group(connection, group_id)
            user = next((member for member in group.members if member.id == user_id), None)
            if user is None:
                raise NotFound(f"{user_id} is not in this group.", param="user_id")
            await connection.execute(gone)
            await write_member_change(connection, self._ids, group, user, by, at, is_in=False)
            return await find_group(connection, group_id)
