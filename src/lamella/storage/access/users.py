"""Users, and whether accounts were set up."""

from __future__ import annotations

from datetime import datetime

from sqlalchemy import Connection, RowMapping, func, insert, select, update

from lamella.core.access import LOCAL_USER, Key, Role, User, UserChange
from lamella.core.errors import InvalidRequest, NotFound, PermissionDenied
from lamella.core.records import Page, PageQuery
from lamella.storage.access.api_keys import key_row
from lamella.storage.columns import moment_text, word_of
from lamella.storage.database import Verbs, insert_missing, reads, writes
from lamella.storage.pages import page
from lamella.storage.tables import api_keys, set_ups, users

ACCOUNTS = "accounts"


def user_of(row: RowMapping) -> User:
    """The user of a row; raises `StoreFailed` for a role that there is not."""
    return User(
        id=row["id"],
        name=row["name"],
        role=word_of(Role, row["role"], f"user {row['id']}"),
        created_at=datetime.fromisoformat(row["created_at"]),
        disabled=row["disabled"],
    )


def find_user(connection: Connection, user_id: str) -> User:
    """One user."""
    row = connection.execute(select(users).where(users.c.id == user_id)).mappings().first()
    if row is None:
        raise NotFound(f"There is no user {user_id}.", param="user_id")
    return user_of(row)


def _check_free(connection: Connection, name: str, user_id: str) -> None:
    """Raises `InvalidRequest` when another user has the name."""
    query = select(users.c.id).where(users.c.folded == name.casefold(), users.c.id != user_id)
    if connection.execute(query).first() is not None:
        raise InvalidRequest(f"There is a user “{name}” already.", hint="Choose another name.", param="name")


def _check_admins(connection: Connection) -> None:
    """Raises `InvalidRequest` when nobody is left to keep users and keys."""
    active = select(func.count()).select_from(users).where(users.c.role == Role.ADMIN.value, ~users.c.disabled)
    if connection.execute(active).scalar_one() == 0:
        raise InvalidRequest(
            "This is the only admin: nobody could keep users and keys.", hint="Make another user admin first."
        )


class UserVerbs(Verbs):
    """The verbs of `Directory` about users."""

    @reads
    def set_up_at(self, connection: Connection) -> datetime | None:
        """When accounts were set up; None while the person at this machine is the only user."""
        at = connection.execute(select(set_ups.c.at).where(set_ups.c.name == ACCOUNTS)).scalar()
        return None if at is None else datetime.fromisoformat(at)

    @writes
    def set_up(self, connection: Connection, name: str, key: Key, at: datetime) -> User:
        """Turn accounts on: the local user is the first admin, with this name and key."""
        mine = {"owner": LOCAL_USER, "name": ACCOUNTS, "at": moment_text(at)}
        done = select(set_ups.c.at).where(set_ups.c.name == ACCOUNTS)
        if connection.execute(done).first() is not None:
            raise PermissionDenied("Accounts are set up already.", hint="Ask an admin for a key.")
        _check_free(connection, name, LOCAL_USER)
        named = {"name": name, "folded": name.casefold(), "role": Role.ADMIN.value, "disabled": False}
        connection.execute(update(users).where(users.c.id == LOCAL_USER).values(**named))
        connection.execute(insert(api_keys), key_row(key))
        connection.execute(insert(set_ups), mine)
        return find_user(connection, LOCAL_USER)

    @writes
    def add_user(self, connection: Connection, user: User, key: Key | None = None) -> User:
        """Store a new user, with a first key."""
        row = {
            "id": user.id,
            "name": user.name,
            "folded": user.name.casefold(),
            "role": user.role.value,
            "disabled": user.disabled,
            "created_at": moment_text(user.created_at),
        }
        _check_free(connection, user.name, user.id)
        insert_missing(connection, users, [row])
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
        rows, has_more = page(connection, select(users), users.c.id, query)
        return Page(tuple(map(user_of, rows)), has_more)

    @writes
    def change_user(self, connection: Connection, user_id: str, change: UserChange) -> User:
        """Change a user; raises `InvalidRequest` when no admin would be left."""
        named = {} if change.name is None else {"name": change.name, "folded": change.name.casefold()}
        role = {} if change.role is None else {"role": change.role.value}
        values = {**named, **role, **({} if change.disabled is None else {"disabled": change.disabled})}
        find_user(connection, user_id)
        if change.name is not None:
            _check_free(connection, change.name, user_id)
        if values:
            connection.execute(update(users).where(users.c.id == user_id).values(**values))
            _check_admins(connection)
        return find_user(connection, user_id)
