"""Brings a database up to the tables of this version; a database that is up to date costs one small query."""

from __future__ import annotations

import asyncio
from importlib import import_module
from pathlib import Path

from sqlalchemy import URL, Connection, inspect, text
from sqlalchemy.ext.asyncio import AsyncEngine

from lamella.core.errors import ConfigurationError
from lamella.storage.failures import plain_errors
from lamella.storage.fresh import is_new, make
from lamella.storage.sqlite import check_references, sqlite_engine, sqlite_url

HEAD = "0035"
"""The newest revision in `migrations/versions`, as text so that asking for it does not load Alembic."""


def _stored(connection: Connection) -> str | None:
    if not inspect(connection).has_table("alembic_version"):
        return None
    revision: str | None = connection.execute(text("SELECT version_num FROM alembic_version")).scalar_one_or_none()
    return revision


async def _made(engine: AsyncEngine) -> bool:
    """Whether the tables are there and up to date now: a new database gets them all at once."""
    async with engine.begin() as connection:
        stored = await connection.run_sync(_stored)
        if stored is None and await connection.run_sync(is_new):
            await connection.run_sync(make, HEAD)
            return True
        return stored == HEAD


async def _upgrade(engine: AsyncEngine) -> None:
    # Alembic costs most of a second to load and is needed once per version, so it is loaded here, beside the loop.
    upgrade = (await asyncio.to_thread(import_module, "lamella.storage.migrations.upgrade")).upgrade
    async with engine.begin() as connection:
        stored = await connection.run_sync(_stored)
        if stored != HEAD:
            await connection.run_sync(upgrade)
            await connection.run_sync(check_references)


async def migrate(url_or_path: str | Path | URL) -> None:
    """Create or upgrade the tables, all or nothing.

    Raises `ConfigurationError` when a newer version wrote the database, `StoreFailed` when it cannot be changed.
    """
    url = url_or_path if isinstance(url_or_path, URL) else sqlite_url(url_or_path)
    engine = sqlite_engine(url, writes=True, foreign_keys=False)
    try:
        with plain_errors():
            async with engine.connect() as connection:
                stored = await connection.run_sync(_stored)
            if stored is not None and stored > HEAD:
                raise ConfigurationError(
                    f"A newer lamella wrote this database (revision {stored}, this one knows {HEAD}).",
                    hint="Install the newer version again.",
                )
            if stored != HEAD and not await _made(engine):
                await _upgrade(engine)
    finally:
        await engine.dispose()
