"""The tables of a new database, made from the schema in one step: the revisions only bring older ones up.

Both ways give the same tables and rows; the tests compare them.
"""

from __future__ import annotations

from datetime import UTC, datetime

from sqlalchemy import Column, Connection, MetaData, String, Table, insert, inspect

from lamella.core.access import LOCAL_USER
from lamella.storage.tables import metadata, users

_VERSION = Table("alembic_version", MetaData(), Column("version_num", String(32), nullable=False))
"""Alembic's own table, as it makes it but for the name of its key."""


def is_new(connection: Connection) -> bool:
    """Whether there is no table at all."""
    return not inspect(connection).get_table_names()


def make(connection: Connection, revision: str) -> None:
    """Make every table, the user that every database begins with, and the mark that it is at `revision`."""
    metadata.create_all(connection, checkfirst=False)
    _VERSION.create(connection, checkfirst=False)
    connection.execute(insert(_VERSION).values(version_num=revision))
    name = "Local user"
    connection.execute(
        insert(users).values(
            id=LOCAL_USER,
            name=name,
            folded=name.lower(),
            role="admin",
            disabled=False,
            created_at=datetime.now(UTC).isoformat(timespec="microseconds"),
        )
    )
