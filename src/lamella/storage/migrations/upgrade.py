"""Runs the revisions on an open connection. The only module of the program that loads Alembic's commands."""

from __future__ import annotations

from pathlib import Path

from alembic import command
from alembic.config import Config
from sqlalchemy import Connection


def config(connection: Connection | None = None) -> Config:
    """Alembic's configuration: this folder, and the connection that `env` uses."""
    found = Config(attributes={"connection": connection})
    # Alembic reads `%` in its options as the start of a placeholder.
    found.set_main_option("script_location", str(Path(__file__).parent).replace("%", "%%"))
    return found


def upgrade(connection: Connection) -> None:
    """Bring the tables to the newest revision, within the connection's transaction."""
    command.upgrade(config(connection), "head")
