"""Brings a database up to the tables of this version; a database that is up to date costs one small query.

A new database gets the tables of the schema at once, by statements that are compiled once per process. Alembic's
revisions only bring older databases up, from the baseline on. Both ways give the same tables; the tests compare them.
"""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from datetime import UTC, datetime
from functools import cache
from importlib import import_module
from pathlib import Path
from secrets import token_bytes
from typing import Any

from sqlalchemy import (
    URL,
    Column,
    Connection,
    MetaData,
    String,
    Table,
    create_mock_engine,
    func,
    insert,
    inspect,
    select,
)

from lamella.core.access import LOCAL_USER
from lamella.core.errors import ConfigurationError
from lamella.storage.failures import plain_errors
from lamella.storage.postgresql import COMMITTED, check_server, postgres_engine, postgres_url
from lamella.storage.sqlite import check_references, sqlite_engine, sqlite_url
from lamella.storage.tables import deployment, metadata, users

BASELINE = "0035"
"""The first revision in `migrations/versions`: older databases are refused."""

HEAD = "0056"
"""The newest revision in `migrations/versions`, as text so that asking for it does not load Alembic."""

UNFINISHED = "copying"
"""The revision of a database that is being copied into, so that no lamella opens it: see `storage.copying`."""

VERSION = Table("alembic_version", MetaData(), Column("version_num", String(32), nullable=False))
"""Alembic's own table, as it makes it but for the name of its key."""


_DIALECTS = {"sqlite": "sqlite://", "postgresql": "postgresql+psycopg://"}


@cache
def schema_statements(dialect: str) -> Sequence[str]:
    """The statements that make every table of the schema."""
    made: list[str] = []

    def take(statement: Any, *_: Any, **__: Any) -> None:
        made.append(str(statement.compile(dialect=engine.dialect)))

    engine = create_mock_engine(_DIALECTS[dialect], take)
    metadata.create_all(engine, checkfirst=False)
    VERSION.create(engine, checkfirst=False)
    return made


def is_index(statement: str) -> bool:
    """Whether a statement makes an index of a table."""
    return statement.lstrip().startswith(("CREATE INDEX", "CREATE UNIQUE INDEX"))


def _make(connection: Connection) -> None:
    """Make every table, the user and the id that every database begins with, and the mark that it is up to date."""
    for statement in schema_statements(connection.dialect.name):
        connection.exec_driver_sql(statement)
    connection.execute(insert(VERSION).values(version_num=HEAD))
    connection.execute(insert(deployment).values(name="id", data=token_bytes(16)))
    name = "Local user"
    connection.execute(
        insert(users).values(
            id=LOCAL_USER,
            name=name,
            folded=name.lower(),
            role="admin",
            disabled=False,
            created_at=datetime.now(UTC),
        )
    )


def _check_known(stored: str) -> None:
    """Raises `ConfigurationError` for a revision that this version can't begin from."""
    if stored == UNFINISHED:
        raise ConfigurationError(
            "This database is an unfinished copy.", hint="Run the same `lamella migrate --to` again, which goes on."
        )
    if stored > HEAD:
        raise ConfigurationError(
            f"A newer lamella wrote this database (revision {stored}, this one knows {HEAD}).",
            hint="Install the newer version again.",
        )
    if stored < BASELINE:
        raise ConfigurationError(
            f"An older lamella wrote this database (revision {stored}, this one begins with {BASELINE}).",
            hint="Nothing was changed. Open it once with the lamella of commit f24e334, which upgrades it; then this "
            "one can open it.",
        )


def _upgrade(connection: Connection) -> None:
    tables = inspect(connection).get_table_names()
    if not tables:
        return _make(connection)
    if VERSION.name in tables:
        stored = connection.execute(select(VERSION.c.version_num)).scalar_one_or_none()
        if stored == HEAD:
            return None
        _check_known(stored or BASELINE)
    # Alembic costs most of a second to load and is needed once per version.
    import_module("lamella.storage.migrations.upgrade").upgrade(connection)
    return None


_LOCK = 7_310_584_021_446_518_273
"""Names the lock of PostgreSQL under which one process at a time upgrades."""


def _migrate(url: URL) -> None:
    if url.get_backend_name() == "postgresql":
        engine = postgres_engine(url, COMMITTED)
    else:
        engine = sqlite_engine(url, writes=True, foreign_keys=False)
    try:
        with plain_errors(), engine.begin() as connection:
            if connection.dialect.name == "postgresql":
                check_server(connection)
                connection.execute(select(func.pg_advisory_xact_lock(_LOCK)))
            _upgrade(connection)
            if connection.dialect.name == "sqlite":
                check_references(connection)
    finally:
        engine.dispose()


async def migrate(url_or_path: str | Path | URL) -> None:
    """Create or upgrade the tables, all or nothing.

    Raises `ConfigurationError` when another version wrote the database that can't be upgraded, `StoreFailed` when it
    can't be changed.
    """
    url = url_or_path if isinstance(url_or_path, URL) else database_url(url_or_path)
    await asyncio.to_thread(_migrate, url)


def database_url(url_or_path: str | Path) -> URL:
    """The URL of a PostgreSQL database, or of a file by its path. Raises `ConfigurationError` for anything else."""
    return postgres_url(url_or_path) or sqlite_url(url_or_path)
