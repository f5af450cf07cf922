"""SQLite set up for one process: WAL, one writing connection, and a few reading ones."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import ExitStack, closing, contextmanager
from functools import cache, partial
from pathlib import Path
from typing import Any
from urllib.parse import quote

from sqlalchemy import URL, Connection, Dialect, Engine, QueuePool, create_engine, event, make_url
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError
from sqlalchemy.pool import ConnectionPoolEntry
from sqlalchemy.util import LRUCache

from lamella.core.errors import ConfigurationError, StoreFailed
from lamella.storage.database import Database, in_thread
from lamella.storage.failures import plain_errors

_BUSY_MS = 5_000
_READERS = 4

RELEASED = 1_000
"""Free pages that are given back to the disk in one step: 4 MB, some 20 ms."""

_STATEMENTS = 1_000
"""Compiled statements that are kept. One takes about 0.4 ms to compile; two turns run some 90 different ones."""


def sqlite_url(url_or_path: str | Path) -> URL:
    """The URL of a database file, of its path or of `sqlite:///PATH`; raises `ConfigurationError` for anything else."""
    text = str(url_or_path)
    if isinstance(url_or_path, Path) or "://" not in text:
        return URL.create("sqlite", database=text)
    try:
        url = make_url(text)
    except ArgumentError as error:
        raise ConfigurationError("The database URL cannot be read.", hint="Use a file: sqlite:///PATH") from error
    if url.get_backend_name() != "sqlite" or not url.database or url.database == ":memory:":
        shown = url.render_as_string(hide_password=True)
        raise ConfigurationError(f"The database {shown} is not supported.", hint="Use a file: sqlite:///PATH")
    return URL.create("sqlite", database=url.database)


def sqlite_engine(url: URL, *, writes: bool, foreign_keys: bool = True, full: bool = False) -> Engine:
    """An engine on a database file. A writing one has a single connection, and takes the write lock as it begins.

    With `full` a transaction that was committed survives a loss of power. Without it, only those before the last
    checkpoint surely do; the file stays whole. Raises `StoreFailed` when there can be no such file.
    """
    path = Path(str(url.database)).absolute()
    if not path.parent.is_dir():
        raise StoreFailed(f"The data folder {path.parent} does not exist.", hint="Make it, or name another one.")
    if path.is_dir():
        raise StoreFailed(f"{path} is a folder, not a database file.", hint="Name a file in it.")

    def opened() -> Any:
        # The driver begins no transaction by itself: `begun` says when and how.
        return sqlite3.connect(path, timeout=_BUSY_MS / 1000, isolation_level=None, check_same_thread=False)

    size = 1 if writes else _READERS
    dialect, compiled = _compiling()
    pool = QueuePool(opened, pool_size=size, max_overflow=0, dialect=dialect)
    engine = Engine(pool, dialect, url, execution_options={"compiled_cache": compiled})
    settings = [
        # Free pages can be given back to the disk. It has to be said before anything is written.
        *([] if path.is_file() and path.stat().st_size else ["PRAGMA auto_vacuum = INCREMENTAL"]),
        "PRAGMA journal_mode = WAL",
        f"PRAGMA synchronous = {'FULL' if full else 'NORMAL'}",
        f"PRAGMA busy_timeout = {_BUSY_MS}",
        f"PRAGMA foreign_keys = {'ON' if foreign_keys else 'OFF'}",
        "PRAGMA secure_delete = ON",  # what is deleted is overwritten, also in pages that become free
        f"PRAGMA query_only = {'OFF' if writes else 'ON'}",
    ]

    def connected(connection: DBAPIConnection, _entry: ConnectionPoolEntry) -> None:
        with ExitStack() as undo:
            undo.callback(connection.close)
            cursor = connection.cursor()
            for setting in settings:
                cursor.execute(setting)
            cursor.close()
            undo.pop_all()

    def begun(connection: Connection) -> None:
        connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")

    event.listen(engine, "connect", connected)
    event.listen(engine, "begin", begun)
    return engine


def untouched_engine(url: URL) -> Engine:
    """An engine that reads a database file and leaves it, and the folder, as they are.

    Nobody else may have the file open. A log that a killed process left is read too, which makes an index of it.
    """
    path = Path(str(url.database)).absolute()
    if not path.is_file():
        raise ConfigurationError(
            f"There is no database in {path.parent}.", hint="Set LAMELLA_DATA, or name the folder."
        )
    log = path.with_name(f"{path.name}-wal")
    mode = "ro" if log.is_file() and log.stat().st_size else "ro&immutable=1"
    address = f"file:{quote(str(path))}?mode={mode}"
    engine = create_engine("sqlite://", creator=partial(sqlite3.connect, address, uri=True, isolation_level=None))
    event.listen(engine, "begin", lambda connection: connection.exec_driver_sql("BEGIN"))
    return engine


@cache
def _compiling() -> tuple[Dialect, LRUCache[object, object]]:
    """What every engine compiles its statements with, and those compiled: a process compiles each statement once.

    The cache of an engine holds for its own dialect only, so that a reader and a writer would each compile all.
    """
    engine = create_engine("sqlite://")
    engine.connect().close()  # this sets the dialect up
    engine.dispose()
    return engine.dialect, LRUCache(_STATEMENTS)


def check_references(connection: Connection) -> None:
    """Foreign keys are off while tables are rebuilt: look at them before anything is kept; raises `StoreFailed`."""
    if connection.exec_driver_sql("PRAGMA foreign_key_check").first() is not None:
        raise StoreFailed("The database could not be brought up to date: rows refer to rows that are missing.")


def vacuum(url: URL) -> None:
    """Write a database file anew: without free pages, and so that later ones can be given back to the disk.

    Nobody else may have it open. It takes as much room beside the file as the file has, and as much again for a while.
    """
    engine = sqlite_engine(url, writes=True)
    try:
        with plain_errors(), closing(engine.raw_connection()) as connection, closing(connection.cursor()) as cursor:
            for statement in ("PRAGMA auto_vacuum = INCREMENTAL", "VACUUM", "PRAGMA wal_checkpoint(TRUNCATE)"):
                cursor.execute(statement)
    finally:
        engine.dispose()


class SqliteDatabase(Database):
    """The readers and the one writer of a database file."""

    @classmethod
    def of(cls, url: URL, *, full: bool = False) -> SqliteDatabase:
        """That of a file; `full` as in `sqlite_engine`."""
        return cls(sqlite_engine(url, writes=False), sqlite_engine(url, writes=True, full=full))

    async def scrub(self) -> bool:
        """Give free pages back to the disk and empty the log.

        A step moves at most `RELEASED`, and other transactions run between two steps. False if a reader still needs the
        log. A file that was made before its pages could be given back keeps them, overwritten:
        `lamella vacuum` changes that.
        """
        self._check_open()
        while await in_thread(self._writers, self._release):
            pass
        return await in_thread(self._writers, self._truncate)

    def _release(self) -> bool:
        """Give some free pages back; False if none is left that can be."""
        with self._cursor() as cursor:
            (before,) = cursor.execute("PRAGMA freelist_count").fetchone()
            # A script is stepped to its end; of a pragma without columns `execute` would make a single step.
            cursor.executescript(f"PRAGMA incremental_vacuum({RELEASED})")
            (left,) = cursor.execute("PRAGMA freelist_count").fetchone()
        return bool(0 < left < before)

    def _truncate(self) -> bool:
        with self._cursor() as cursor:
            busy, *_ = cursor.execute("PRAGMA wal_checkpoint(TRUNCATE)").fetchone()
        return not busy

    @contextmanager
    def _cursor(self) -> Iterator[Any]:
        """The writing connection's, outside of a transaction."""
        with plain_errors(), closing(self._write.raw_connection()) as connection, closing(connection.cursor()) as made:
            yield made
