"""Users, groups and API keys, and the audit of what was changed for whom. Keys are kept as digests."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from datetime import datetime
from functools import partial
from typing import Any

from sqlalchemy import (
    Column,
    Connection,
    RowMapping,
    Select,
    String,
    delete,
    func,
    insert,
    literal,
    null,
    or_,
    select,
    type_coerce,
    update,
)

from lamella.core.access import LOCAL_USER, AuditEntry, AuditKind, Group, Key, KeyOptions, Role, User, UserChange
from lamella.core.errors import InvalidRequest, NotFound, PermissionDenied
from lamella.core.ids import Ids
from lamella.core.records import Page, PageQuery
from lamella.storage.database import Rows, insert_missing, reads, writes
from lamella.storage.grants import forget_group
from lamella.storage.rows import Row, page, page_rows, record, values
from lamella.storage.tables import (
    api_keys,
    deployment,
    grant_changes,
    group_members,
    groups,
    member_changes,
    restricted_uses,
    set_ups,
    users,
)

ACCOUNTS = "accounts"

CACHE_SALT, FIRST_RUN_TOKEN = "cache_salt", "first_run_token"
"""Values that the processes of a deployment share."""


def find_user(connection: Connection, user_id: str) -> User:
    """One user."""
    row = connection.execute(select(users).where(users.c.id == user_id)).mappings().first()
    if row is None:
        raise NotFound(f"There is no user {user_id}.", param="user_id")
    return record(User, row)


def _check_free(connection: Connection, name: str, user_id: str) -> None:
    """Raises `InvalidRequest` when another user has the name."""
    query = select(users.c.id).where(users.c.folded == name.casefold(), users.c.id != user_id)
    if connection.execute(query).first() is not None:
        raise InvalidRequest(f"There is a user “{name}” already.", hint="Choose another name.", param="name")


def _check_admins(connection: Connection) -> None:
    """Raises `InvalidRequest` when nobody is left to keep users and keys."""
    active = select(func.count()).select_from(users).where(users.c.role == Role.ADMIN, ~users.c.disabled)
    if connection.execute(active).scalar_one() == 0:
        raise InvalidRequest(
            "This is the only admin: nobody else could manage users and keys.", hint="Make another user admin first."
        )


class DirectoryRows(Rows):
    """Users, groups and API keys, and the audit."""

    @reads
    def set_up_at(self, connection: Connection) -> datetime | None:
        """When accounts were set up; None while the person at this machine is the only user."""
        return connection.execute(select(set_ups.c.at).where(set_ups.c.name == ACCOUNTS)).scalar()

    @writes
    def shared_value(self, connection: Connection, name: str, made: bytes) -> bytes:
        """A value that all processes of this database share: the stored one, else `made`, which is stored."""
        insert_missing(connection, deployment, [{"name": name, "data": made}])
        found = connection.execute(select(deployment.c.data).where(deployment.c.name == name)).scalar_one()
        return bytes(found)

    @writes
    def set_up(self, connection: Connection, name: str, key: Key, at: datetime) -> User:
        """Turn accounts on: the local user is the first admin, with this name and key.

        Raises `PermissionDenied` when that was done before; then nothing is stored.
        """
        owned_by = {"owner": LOCAL_USER, "name": ACCOUNTS, "at": at}
        done = select(set_ups.c.at).where(set_ups.c.name == ACCOUNTS)
        if connection.execute(done).first() is not None:
            raise PermissionDenied("Accounts are set up already.", hint="Ask an admin for a key.")
        _check_free(connection, name, LOCAL_USER)
        named = {"name": name, "folded": name.casefold(), "role": Role.ADMIN, "disabled": False}
        connection.execute(update(users).where(users.c.id == LOCAL_USER).values(**named))
        connection.execute(insert(api_keys), key_row(key))
        connection.execute(insert(set_ups), owned_by)
        connection.execute(delete(deployment).where(deployment.c.name == FIRST_RUN_TOKEN))
        return find_user(connection, LOCAL_USER)

    @writes
    def add_user(self, connection: Connection, user: User, key: Key | None = None) -> User:
        """Store a new user, with a first key."""
        _check_free(connection, user.name, user.id)
        insert_missing(connection, users, [values(users, user, folded=user.name.casefold())])
        if key is not None:
            connection.execute(insert(api_keys), key_row(key))
        return find_user(connection, user.id)

    @reads
    def user(self, connection: Connection, user_id: str) -> User:
        """One user."""
        return find_user(connection, user_id)

    @reads
    def users(self, connection: Connection, query: PageQuery) -> Page[User]:
        """All users, the local one included."""
        return page(connection, select(users), users.c.id, query, partial(record, User))

    @writes
    def change_user(self, connection: Connection, user_id: str, change: UserChange) -> User:
        """Change a user; raises `InvalidRequest` when no admin would be left."""
        folded = None if change.name is None else change.name.casefold()
        given = values(users, change, folded=folded)
        changed = {name: value for name, value in given.items() if value is not None}
        find_user(connection, user_id)
        if change.name is not None:
            _check_free(connection, change.name, user_id)
        if changed:
            connection.execute(update(users).where(users.c.id == user_id).values(**changed))
            _check_admins(connection)
        return find_user(connection, user_id)

    @writes
    def add_group(self, connection: Connection, group: Group) -> Group:
        """Store a new group, without its members."""
        _check_group_free(connection, group.name, group.id)
        connection.execute(insert(groups), values(groups, group, folded=group.name.casefold()))
        return find_group(connection, group.id)

    @reads
    def group(self, connection: Connection, group_id: str) -> Group:
        """One group with its members."""
        return find_group(connection, group_id)

    @reads
    def groups(self, connection: Connection, query: PageQuery) -> Page[Group]:
        """All groups, with their members."""
        rows = page_rows(connection, select(groups), groups.c.id, query)
        return Page(_groups_of(connection, rows.data), rows.has_more)

    @writes
    def rename_group(self, connection: Connection, group_id: str, name: str) -> Group:
        """Give it another name."""
        find_group(connection, group_id)
        _check_group_free(connection, name, group_id)
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

    @reads
    def group_names(self, connection: Connection, user_id: str) -> frozenset[str]:
        """The names of a user's groups, without their case."""
        query = select(groups.c.folded).join(group_members, group_members.c.group_id == groups.c.id)
        return frozenset(connection.execute(query.where(group_members.c.owner == user_id)).scalars())

    @writes
    def add_key(self, connection: Connection, key: Key) -> Key:
        """Store a new key of a user."""
        known = select(users.c.id).where(users.c.id == key.user_id)
        if connection.execute(known).first() is None:
            raise NotFound(f"There is no user {key.user_id}.", param="user_id")
        connection.execute(insert(api_keys), key_row(key))
        return _find(connection, key.user_id, key.id)

    @reads
    def key(self, connection: Connection, user_id: str, key_id: str) -> Key:
        """One key of a user."""
        return _find(connection, user_id, key_id)

    @reads
    def keys(self, connection: Connection, user_id: str, query: PageQuery) -> Page[Key]:
        """The keys of a user, revoked ones included; not those that pages logged in by."""
        owned_by = select(api_keys).where(api_keys.c.owner == user_id, api_keys.c.parent_id.is_(None))
        return page(connection, owned_by, api_keys.c.id, query, key_of)

    @reads
    def keys_by_prefix(self, connection: Connection, prefix: str) -> Sequence[tuple[Key, Key | None, User]]:
        """The keys with this prefix, each with its parent and its user."""
        query = select(api_keys).where(api_keys.c.prefix == prefix)
        keys = [key_of(row) for row in connection.execute(query).mappings()]
        return [(key, _parent(connection, key), _user(connection, key)) for key in keys]

    @writes
    def set_key_options(self, connection: Connection, user_id: str, key_id: str, options: KeyOptions) -> Key:
        """Replace the options of a key."""
        _find(connection, user_id, key_id)
        of = (api_keys.c.id == key_id, api_keys.c.owner == user_id)
        connection.execute(update(api_keys).where(*of).values(options=options))
        return _find(connection, user_id, key_id)

    @writes
    def revoke_key(self, connection: Connection, user_id: str, key_id: str, at: datetime) -> Key:
        """End a key, and the logins by it; one that has ended stays as it is."""
        its = or_(api_keys.c.id == key_id, api_keys.c.parent_id == key_id)
        _find(connection, user_id, key_id)
        ended = update(api_keys).where(its, api_keys.c.owner == user_id, api_keys.c.revoked_at.is_(None))
        connection.execute(ended.values(revoked_at=at))
        return _find(connection, user_id, key_id)

    @writes
    def use_key(self, connection: Connection, key_id: str, at: datetime) -> None:
        """Note when it was last used."""
        used = update(api_keys).where(api_keys.c.id == key_id)
        connection.execute(used.values(last_used_at=at))

    @reads
    def audit(self, connection: Connection, kind: AuditKind, query: PageQuery) -> Page[AuditEntry]:
        """What happened of this kind."""
        rows, key = _LISTS[kind]
        return page(connection, rows, key, query, _entry_of)


def _members(connection: Connection, group_ids: Sequence[str]) -> Mapping[str, Sequence[User]]:
    query = (
        select(group_members.c.group_id, *users.c)
        .join(users, users.c.id == group_members.c.owner)
        .where(group_members.c.group_id.in_(group_ids))
        .order_by(group_members.c.group_id, users.c.id)
    )
    found: defaultdict[str, list[User]] = defaultdict(list)
    for row in connection.execute(query).mappings():
        found[row["group_id"]].append(record(User, row))
    return found


def _groups_of(connection: Connection, rows: Sequence[RowMapping]) -> tuple[Group, ...]:
    members = _members(connection, [row["id"] for row in rows])
    return tuple(record(Group, row, members=tuple(members.get(row["id"], ()))) for row in rows)


def find_group(connection: Connection, group_id: str) -> Group:
    """One group with its members."""
    row = connection.execute(select(groups).where(groups.c.id == group_id)).mappings().first()
    if row is None:
        raise NotFound(f"There is no group {group_id}.", param="group_id")
    [found] = _groups_of(connection, [row])
    return found


def _check_group_free(connection: Connection, name: str, group_id: str) -> None:
    query = select(groups.c.id).where(groups.c.folded == name.casefold(), groups.c.id != group_id)
    if connection.execute(query).first() is not None:
        raise InvalidRequest(f"There is a group “{name}” already.", hint="Choose another name.", param="name")


def key_row(key: Key) -> Row:
    """The row of a key."""
    return values(api_keys, key, owner=key.user_id, scopes=sorted(key.scopes))


def key_of(row: RowMapping) -> Key:
    """The key of a row."""
    return record(Key, row, user_id=row["owner"])


def _find(connection: Connection, user_id: str, key_id: str) -> Key:
    query = select(api_keys).where(api_keys.c.id == key_id, api_keys.c.owner == user_id)
    row = connection.execute(query).mappings().first()
    if row is None:
        raise NotFound(f"There is no key {key_id}.", param="key_id")
    return key_of(row)


def _parent(connection: Connection, key: Key) -> Key | None:
    return None if key.parent_id is None else _find(connection, key.user_id, key.parent_id)


def _user(connection: Connection, key: Key) -> User:
    row = connection.execute(select(users).where(users.c.id == key.user_id)).mappings().one()
    return record(User, row)


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
        type_coerce(grant_changes.c.before, String).label("before"),
        type_coerce(grant_changes.c.after, String).label("after"),
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
        "at": at,
        "before": None if is_in else MEMBER,
        "after": MEMBER if is_in else None,
    }
    connection.execute(insert(member_changes), row)


def _entry_of(row: RowMapping) -> AuditEntry:
    return record(AuditEntry, row, by_name=row["by_name"] or row["by"], on_name=row["on_name"] or "")
