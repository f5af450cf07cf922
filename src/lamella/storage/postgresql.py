"""PostgreSQL set up for any number of processes: serializable transactions, run again if another got in between.

The verbs of the store were written for one writer at a time. PostgreSQL gives them the same: if two transactions
contradict each other, one is undone whole, and `PostgresDatabase` runs its verb again. A reader sees one state of the
database and waits for nobody.

A server that is away is waited for: a verb is tried again for `PATIENCE` seconds. If the connection is lost during
`COMMIT`, the next connection asks what became of the transaction, by its id; it runs again only if it was undone.

It works through PgBouncer in transaction mode: nothing is prepared, and nothing belongs to a connection.
"""

from __future__ import annotations

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import Executor, ThreadPoolExecutor
from contextlib import AsyncExitStack, asynccontextmanager, closing
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from random import uniform
from time import monotonic, sleep
from types import MappingProxyType
from typing import Any, Generic, TypeVar

import structlog
from sqlalchemy import URL, Connection, Engine, create_engine, event, func, make_url, select, text
from sqlalchemy.engine.interfaces import DBAPIConnection
from sqlalchemy.exc import ArgumentError, DBAPIError, SQLAlchemyError
from sqlalchemy.util import LRUCache

from lamella.core.errors import ConfigurationError, LamellaError, StoreFailed
from lamella.storage.database import COUNTED, Database, in_thread, lease_lost
from lamella.storage.failures import failure, plain_errors
from lamella.storage.tables import metadata

log = structlog.get_logger()

SETTING = "LAMELLA_DATABASE_URL"

READERS, WRITERS = 4, 4
"""Connections of a process."""

OPTIMISTIC = 2
"""Attempts of a transaction together with others, before it runs alone."""

ATTEMPTS = 8
"""All attempts. Alone, only a process that stands still in the midst of a transaction is in the way."""

PAUSE, LONGEST_PAUSE = 0.004, 0.25
"""Seconds before the second attempt at most, and before any: each later one may wait twice as long."""

PATIENCE = 20.0
"""Seconds that a verb waits for a server that can't be reached. Then it raises `StoreFailed`."""

AWAY_AT_THE_END = "this process ends while the database is away: what is not stored yet is lost"

RECONNECTS = 0.05, 1.0
"""Seconds before the first attempt to reach it again, and before each later one at most."""

_AGAIN = ("40001", "40P01", "55P03", "25P02")
"""A transaction that contradicts another, waits for one that waits for it, or waited too long to be alone: it changed
nothing. The last says that one of them came before, in an answer that was passed over: statements are sent together."""

_FENCED = "22012"
"""A division by zero. Only a fence divides: its process was given up."""

_LOST = ("57P01", "57P02", "57P03", "25006")
"""The server goes down, comes up, or is no primary any more."""

OLDEST = 160_000
"""The first server that is supported: 16."""

_STATEMENTS = 1_000
"""Compiled statements that are kept, and those whose columns are known."""

_CONNECTING: Mapping[str, Any] = {
    "application_name": "lamella",
    "connect_timeout": 5,
    # A standby is not written to: a host of the URL that is one is passed over.
    "target_session_attrs": "read-write",
    # A server that vanished without a word is noticed after some ten seconds.
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 10_000,
}
"""Options of libpq, unless the URL has them."""

SERIALIZABLE = "BEGIN ISOLATION LEVEL SERIALIZABLE"
ONE_STATE = "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY"
COMMITTED = "BEGIN ISOLATION LEVEL READ COMMITTED"
"""How a transaction begins that writes, that reads, and that waits for locks before it looks."""

TOGETHER = ("LOCK TABLE deployment IN ROW SHARE MODE",)
ALONE = ("SET LOCAL lock_timeout = '2s'", "LOCK TABLE deployment IN EXCLUSIVE MODE")
"""What a transaction that writes does next: a lock of a table is taken before the state is fixed that it sees."""

_IS_ALONE = "alone"
"""The option of a connection whose next transaction runs alone."""

_BEGINS, _ASKS_ID = "begins", "asks_id"
"""The options of a connection that say how its next transaction begins, and whether it asks for its id: else it may be
done twice.
"""

ResultT = TypeVar("ResultT")


def postgres_url(url_or_path: str | Path) -> URL | None:
    """The URL of a PostgreSQL database; None for anything else. Raises `ConfigurationError` for one without a name."""
    if isinstance(url_or_path, Path) or not url_or_path.startswith(("postgres://", "postgresql:", "postgresql+")):
        return None
    hint = "Write postgresql://USER:PASSWORD@HOST/DATABASE."
    try:
        url = make_url(_SEVERAL_HOSTS.sub(_each_host, url_or_path.replace("postgres://", "postgresql://", 1)))
    except (ArgumentError, ValueError) as error:  # a port that is no number is the second
        raise ConfigurationError("The database URL can't be read.", hint=hint) from error
    if url.drivername not in ("postgresql", "postgresql+psycopg"):
        raise ConfigurationError(f"The driver {url.drivername} is not supported.", hint="Use postgresql+psycopg.")
    if not url.database:
        raise ConfigurationError("The database URL names no database.", hint=hint)
    return url.set(drivername="postgresql+psycopg")


_SEVERAL_HOSTS = re.compile(r"(?s)^([^:]+://(?:[^@/?]*@)?)([^@/?]*,[^@/?]*)(/[^?]*)\??(.*)$")


def _each_host(found: re.Match[str]) -> str:
    """`//USER@ONE:5432,OTHER/NAME`, as libpq has it, with a field for each host, as SQLAlchemy has it."""
    before, hosts, name, fields = found.groups()
    return f"{before}{name}?" + "&".join([*(f"host={host}" for host in hosts.split(",")), *filter(None, [fields])])


def postgres_engine(url: URL, begin: str = SERIALIZABLE, size: int = WRITERS) -> Engine:
    """An engine on a database, whose transactions begin with the statement `begin`."""
    if find_spec("psycopg") is None:
        raise ConfigurationError(
            "PostgreSQL needs the package psycopg.", hint="pip install 'lamella[postgresql]'", param=SETTING
        )
    # It imports psycopg, which is not installed without PostgreSQL.
    opened = import_module("lamella.storage.pipelined").PipelinedConnection
    given = {name: value for name, value in _CONNECTING.items() if name not in url.query}
    engine = create_engine(
        url,
        pool_size=size,
        max_overflow=0,
        pool_timeout=30,
        use_native_hstore=False,
        connect_args={**given, "prepare_threshold": None, "autocommit": True},
        query_cache_size=_STATEMENTS,
    )

    def connecting(_dialect: Any, _entry: Any, args: tuple[Any, ...], options: dict[str, Any]) -> DBAPIConnection:
        connection: DBAPIConnection = opened.connect(*args, **options)
        return connection

    def begun(connection: Connection) -> None:
        options = connection.get_execution_options()
        begins = options.get(_BEGINS, begin)
        locks: tuple[str, ...] = ()
        if begins == SERIALIZABLE:
            locks = ALONE if options.get(_IS_ALONE) else TOGETHER
        asks_id = options.get(_ASKS_ID, begins == SERIALIZABLE)
        _driver(connection).begin((begins, *locks), asks_id=asks_id)

    deferring = _Deferring()
    event.listen(engine, "do_connect", connecting)
    event.listen(engine, "begin", begun)
    event.listen(engine, "do_execute", deferring.execute)
    event.listen(engine, "do_executemany", deferring.execute_many)
    return engine


def _driver(connection: Connection) -> Any:
    """The `PipelinedConnection` below."""
    return connection.connection.dbapi_connection


class _Deferring:
    """Lets statements wait until their answers are looked at, see `storage.pipelined`.

    SQLAlchemy asks for the columns of rows at once. So a statement that gives rows waits only if the same one ran
    before; until then nobody knows its columns.
    """

    def __init__(self) -> None:
        self._columns: LRUCache[str, Any] = LRUCache(_STATEMENTS)

    def execute(self, cursor: Any, statement: str, parameters: Any, context: Any) -> bool:
        """SQLAlchemy's hook: whether the statement waits, or has run."""
        if hasattr(cursor, "name"):  # a cursor of the server needs a transaction that has begun there
            cursor.connection.flush()
            return False
        if _gives_nothing(context):
            cursor.later(statement, parameters)
            return True
        if (columns := self._columns.get(statement)) is not None:
            cursor.later(statement, parameters, columns)
            return True
        cursor.execute(statement, parameters)
        if context.compiled is not None and cursor.description is not None:
            self._columns[statement] = cursor.description
        return True

    def execute_many(self, cursor: Any, statement: str, parameters: Any, context: Any) -> bool:
        """As `execute`, for several rows."""
        if _gives_nothing(context):
            cursor.later(statement, parameters, many=True)
            return True
        return False


def _gives_nothing(context: Any) -> bool:
    """Whether a statement changes rows and gives none, and nobody asks how many there were."""
    if not (context.isinsert or context.isupdate or context.isdelete) or context.execution_options.get(COUNTED):
        return False
    return not context.compiled.effective_returning


def check_server(connection: Connection) -> None:
    """Raises `ConfigurationError` for a server that is too old, or a database that can't hold every text."""
    version = int(connection.execute(text("SHOW server_version_num")).scalar_one())
    if version < OLDEST:
        raise ConfigurationError(
            f"PostgreSQL {version // 10_000} is too old.", hint=f"Use {OLDEST // 10_000} or newer.", param=SETTING
        )
    encoding = connection.execute(text("SHOW server_encoding")).scalar_one()
    if encoding != "UTF8":
        raise ConfigurationError(
            f"The database is encoded as {encoding}, which can't hold every text.",
            hint="Make one with ENCODING 'UTF8'.",
            param=SETTING,
        )


def check_lossless(connection: Connection) -> None:
    """Raises `ConfigurationError` for a server that is set to lose commits with its power."""
    for name in ("fsync", "synchronous_commit"):
        if connection.execute(text(f"SHOW {name}")).scalar_one() == "off":
            raise ConfigurationError(
                f"PostgreSQL may lose commits with its power: its {name} is off.",
                hint="Turn it on (ALTER DATABASE … SET, or postgresql.conf), or set LAMELLA_SYNCHRONOUS=normal.",
                param="LAMELLA_SYNCHRONOUS",
            )


_HOLDER = 7_310_584_021_446_518_274
"""Names the lock of the process that serves a database."""

LOOKED_AT = 2.0
"""Seconds between two looks whether the lock is still held."""

TAKEN = "Another lamella serves this database."


class HeldDatabase:
    """The lock of the process that serves a PostgreSQL database, or of those that share it.

    It lies in a transaction that stays open. So it is there through PgBouncer too, and goes with the process. If the
    server restarts, it is taken again; if another process has it by then, `lost` is called.
    """

    def __init__(self, url: URL, *, shared: bool = False) -> None:
        lock = func.pg_try_advisory_xact_lock_shared if shared else func.pg_try_advisory_xact_lock
        self._taking = select(lock(_HOLDER))
        self._engine = postgres_engine(url, COMMITTED, 1)
        self._held: Connection | None = None
        self.lost: Callable[[], None] = lambda: None

    def take(self) -> bool:
        """Take the lock, unless it is held; False if another process has it."""
        if self._held is not None:
            return True
        connection = self._engine.connect()
        try:
            for limit in ("idle_in_transaction_session_timeout", "statement_timeout"):
                connection.execute(text(f"SET LOCAL {limit} = 0"))
            taken = connection.execute(self._taking).scalar_one()
        except BaseException:
            connection.close()
            raise
        if taken:
            self._held = connection
        else:
            connection.close()
        return bool(taken)

    def look(self) -> None:
        """Raises `SQLAlchemyError` if the connection with the lock is lost."""
        try:
            if self._held is not None:
                self._held.execute(select(1))
        except SQLAlchemyError:
            self.release()
            raise

    def release(self) -> None:
        """Give the lock back."""
        held, self._held = self._held, None
        if held is not None:
            held.invalidate()
            held.close()

    def close(self) -> None:
        """Give the lock back, and close its connection."""
        self.release()
        self._engine.dispose()

    async def keep(self) -> None:
        """Take the lock again whenever its connection was lost, until another process has it."""
        while True:
            await asyncio.sleep(LOOKED_AT)
            try:
                await asyncio.to_thread(self.look)
                if not await asyncio.to_thread(self.take):
                    break
            except SQLAlchemyError as error:
                log.warning("the lock of the database is not held now", error=failure(error).message)
        log.error("another lamella took this database while its server was away; this one stores nothing more")
        self.lost()


@asynccontextmanager
async def held_database(url_or_path: str | Path, *, shared: bool = False) -> AsyncIterator[HeldDatabase | None]:
    """Keeps a PostgreSQL database to one process until the block ends; a file is kept by the lock of its folder.

    `shared`: it is kept to processes that share it. Raises `ConfigurationError` if another process serves it.
    """
    url = postgres_url(url_or_path)
    if url is None:
        yield None
        return
    held = HeldDatabase(url, shared=shared)
    async with AsyncExitStack() as stack:
        stack.push_async_callback(asyncio.to_thread, held.close)
        with plain_errors():
            taken = await asyncio.to_thread(held.take)
        if not taken:
            raise ConfigurationError(
                TAKEN,
                hint="End it, or use another database. Several may serve it together if LAMELLA_REDIS_URL is set for "
                "each.",
                param=SETTING,
            )
        keeping = asyncio.create_task(held.keep())
        stack.push_async_callback(asyncio.wait, [keeping])
        stack.callback(keeping.cancel)
        yield held


class PostgresDatabase(Database):
    """The readers and writers of one process on a PostgreSQL database."""

    def __init__(
        self,
        read: Engine,
        write: Engine,
        *,
        patience: float = PATIENCE,
        threads: Callable[[int], Executor] = ThreadPoolExecutor,
    ) -> None:
        super().__init__(read, write, threads)
        self._patience = patience
        self._away: ServerAway | None = None
        self._away_since: float | None = None
        self._tried_at = 0.0
        self._asking = 0
        self._answered_at = 0.0
        self._one_at_a_time = asyncio.Lock()
        self._refused: str | None = None
        self._ends_at: float | None = None
        self._said_end = False

    @classmethod
    def of(cls, url: URL, connections: int | None = None, *, patience: float = PATIENCE) -> PostgresDatabase:
        """That of a URL, with so many connections to read and to write."""
        read = postgres_engine(url, ONE_STATE, connections or READERS)
        return cls(read, postgres_engine(url, SERIALIZABLE, connections or WRITERS), patience=patience)

    def refuse(self) -> None:
        """Another process serves the database now: every verb fails from now on."""
        self._refused = TAKEN

    def hurry(self, seconds: float) -> None:
        """See `Database.hurry`. A transaction whose end is not known is given up then too."""
        if self._ends_at is None:
            self._ends_at = monotonic() + seconds

    async def _read_with(self, work: Callable[[Connection], ResultT]) -> ResultT:
        return await self._reached(self._readers, Attempt(self._read, partial(_at_once, work), writes=False))

    async def _write_with(self, work: Callable[[Connection], ResultT]) -> ResultT:
        return await self._reached(self._writers, Attempt(self._write, partial(_at_once, work), writes=True))

    async def _repeat_with(self, work: Callable[[Connection], Callable[[], ResultT]]) -> ResultT:
        return await self._reached(self._writers, Attempt(self._write, work, writes=True, options={_ASKS_ID: False}))

    async def _note_with(self, work: Callable[[Connection], ResultT]) -> ResultT:
        options = {_ASKS_ID: False, _BEGINS: COMMITTED}
        return await self._reached(
            self._writers, Attempt(self._write, partial(_at_once, work), writes=True, options=options)
        )

    async def check_writable(self) -> None:
        """See `Database.check_writable`. It waits for no server: a balancer asks for what is now."""
        attempt = Attempt(self._write, lambda connection: connection.execute(select(1)).scalar_one, writes=True)
        await self._reached(self._writers, attempt, patience=0.0)

    @property
    def silent_seconds(self) -> float:
        """See `Database.silent_seconds`."""
        return monotonic() - self._answered_at if self._asking else 0.0

    async def scrub(self) -> bool:
        """Let the server reuse the room of removed rows. Its log and its backups are the operator's to rotate."""
        self._check_open()
        await in_thread(self._writers, self._vacuum)
        return True

    def _vacuum(self) -> None:
        with plain_errors(), closing(self._write.raw_connection()) as connection, closing(connection.cursor()) as made:
            made.connection.flush()  # a vacuum is sent alone
            for table in metadata.sorted_tables:
                made.execute(f'VACUUM "{table.name}"')

    async def _reached(self, threads: Executor, attempt: Attempt[ResultT], patience: float | None = None) -> ResultT:
        if not self._asking:
            self._answered_at = monotonic()
        self._asking += 1
        try:
            return await self._waited(threads, attempt, self._patience if patience is None else patience)
        finally:
            self._asking -= 1

    async def _in_thread(self, threads: Executor, attempt: Attempt[ResultT]) -> ResultT:
        try:
            found = await in_thread(threads, attempt.run)
        except ServerAway:
            raise
        except LamellaError:
            self._answered_at = monotonic()
            raise
        self._answered_at = monotonic()
        return found

    async def _waited(self, threads: Executor, attempt: Attempt[ResultT], patience: float) -> ResultT:
        """What an attempt gives. While the server is away, one verb at a time tries to reach it.

        The patience ends for a transaction that surely changed nothing. One whose end is not known waits for the
        server as long as it takes, and then knows, unless the process ends.
        """
        began = monotonic()
        until = began + patience
        pause, longest = RECONNECTS
        while True:
            self._check_open()
            try:
                if self._away_since is None:
                    return await self._in_thread(threads, attempt)
                async with self._one_at_a_time:
                    # Only if another one has tried meanwhile: else nobody would find out that the server is back.
                    tried = self._tried_at > began
                    if self._away is not None and self._is_over(until, monotonic(), attempt, tried=tried):
                        raise failure(self._away.error)
                    found = await self._in_thread(threads, attempt)
                    self._is_back()
                    return found
            except ServerAway as away:
                self._is_away(away)
                if self._is_over(until, monotonic() + pause, attempt):
                    raise failure(away.error) from away.error
            await asyncio.sleep(uniform(pause / 2, pause))
            pause = min(2 * pause, longest)

    def _is_over(self, until: float, now: float, attempt: Attempt[Any], *, tried: bool = True) -> bool:
        """Whether the patience for a server that is away has ended by `now`, and the server was `tried` meanwhile."""
        if self._ends_at is None or now <= self._ends_at:
            return now > until and tried and not attempt.is_unknown
        if not self._said_end:
            self._said_end = True
            log.error(AWAY_AT_THE_END)
        return True

    def _is_away(self, away: ServerAway) -> None:
        self._away, self._tried_at = away, monotonic()
        if self._away_since is None:
            self._away_since = monotonic()
            log.warning("the database can't be reached; trying again", cause=str(away.error.orig).split("\n", 1)[0])

    def _is_back(self) -> None:
        if self._away_since is not None:
            log.info("the database is back", seconds=round(monotonic() - self._away_since, 1))
            self._away = self._away_since = None

    def _check_open(self) -> None:
        super()._check_open()
        if self._refused is not None:
            raise StoreFailed(self._refused, hint="End one of the two.")


class ServerAway(Exception):
    """The server can't be reached, or went away. The transaction changed nothing, or `Attempt.is_unknown`."""

    def __init__(self, error: DBAPIError, *, was_connected: bool) -> None:
        super().__init__(str(error))
        self.error = error
        self.was_connected = was_connected


class Attempt(Generic[ResultT]):
    """A transaction that is run until it is surely done. It runs again whole if it was undone.

    `work` gives the function that looks at its answers, which is called after the transaction has ended. `options` are
    those of its connections.
    """

    def __init__(
        self,
        engine: Engine,
        work: Callable[[Connection], Callable[[], ResultT]],
        *,
        writes: bool,
        options: Mapping[str, Any] = MappingProxyType({}),
    ) -> None:
        self._engine = engine
        self._work = work
        self._writes = writes
        self._options = options
        self._answer: Callable[[], ResultT] | None = None
        self._unknown: Any = None  # a `TransactionMark`: its module needs psycopg

    @property
    def is_unknown(self) -> bool:
        """Whether the connection was lost during `COMMIT`, and nobody could be asked yet what became of it."""
        return self._unknown is not None

    def run(self) -> ResultT:
        """What the work gives, committed. Raises `ServerAway`, and what the work raises; errors are plain."""
        with plain_errors():
            try:
                return self._settled()
            except ServerAway as away:
                # The connection may be an old one of the pool, whose server has come back.
                if not away.was_connected:
                    raise
            return self._settled()

    def _settled(self) -> ResultT:
        if self._unknown is not None and self._answer is not None and self._was_committed(self._unknown):
            return self._answer()
        self._unknown = None
        pause = PAUSE
        for attempt in range(1, ATTEMPTS):
            try:
                return self._once(alone=attempt > OPTIMISTIC)
            except DBAPIError as error:
                if _state(error) not in _AGAIN:
                    raise
            sleep(uniform(0, pause))
            pause = min(2 * pause, LONGEST_PAUSE)
        return self._once(alone=True)

    def _once(self, *, alone: bool) -> ResultT:
        with self._connected() as connection:
            if alone:
                connection = connection.execution_options(alone=True)
            driver = _driver(connection)
            try:
                transaction = connection.begin()
                self._answer = answer = self._work(connection)
            except DBAPIError as error:
                _raise_if_lost(connection, error)
                raise
            try:
                if not self._writes:
                    transaction.rollback()
                elif transaction.is_active:  # else the work has undone it
                    transaction.commit()
            except DBAPIError as error:
                if self._writes and _is_lost(error):
                    self._unknown = driver.mark
                _raise_if_lost(connection, error)
                raise
            return answer()

    def _connected(self) -> Connection:
        try:
            connection = self._engine.connect()
        except DBAPIError as error:
            raise ServerAway(error, was_connected=False) from error
        return connection.execution_options(**self._options)

    def _was_committed(self, mark: Any) -> bool:
        """What became of a transaction. Raises `ServerAway` while the server does not know it either.

        A server that crashed, or a standby that took over, may lack the end of the log, and the transaction with it.
        Then it gives its id to another one, so the answer says nothing: `_STATUS` tells how far its log came.
        """
        for _ in range(LOOKS):
            with self._connected() as connection:
                try:
                    status, has_it = connection.execute(_STATUS, mark._asdict()).one()
                    if not has_it:
                        return False
                    if status != "in progress":
                        return bool(status == "committed")
                    connection.execute(_END, {"id": mark.id})
                except DBAPIError as error:
                    _raise_if_lost(connection, error)
                    if _state(error) == _IN_THE_FUTURE:
                        return False
                    raise
            sleep(PAUSE)
        still = Exception("the server still runs a transaction of a lost connection")
        raise ServerAway(DBAPIError("COMMIT", None, still), was_connected=False)


LOOKS = 50
"""How often the server is asked in a row about a transaction that it still runs."""

_STATUS = text(
    "SELECT pg_xact_status(CAST(:id AS xid8)), coalesce(pg_last_wal_replay_lsn() = CAST(:recovered AS pg_lsn)"
    " OR pg_last_wal_replay_lsn() >= CAST(:place AS pg_lsn), pg_last_wal_replay_lsn() IS NULL)"
)
"""The state of a transaction by its id, and whether the id is still its own: the server had no recovery since it ran,
or recovered more of the log than its mark.
"""
_END = text(
    "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE backend_xid = CAST(CAST(:id AS xid8) AS xid) "
    "AND (state LIKE 'idle in transaction%' OR wait_event = 'ClientRead') AND datname = current_database()"
)
"""Ends the session that waits for a `COMMIT` which was lost on its way. If statements came together without their end,
it is active, and reads.
"""

_IN_THE_FUTURE = "22023"


def _state(error: DBAPIError) -> str:
    return getattr(error.orig, "sqlstate", None) or ""


def _is_lost(error: DBAPIError) -> bool:
    return error.connection_invalidated or _state(error) in _LOST or _state(error).startswith("08")


def _at_once(work: Callable[[Connection], ResultT], connection: Connection) -> Callable[[], ResultT]:
    """What `work` gives, which has looked at its answers already."""
    found = work(connection)
    return lambda: found


def _raise_if_lost(connection: Connection, error: DBAPIError) -> None:
    """Raises `ServerAway` if the connection is lost, which goes back to no pool then; `LeaseLost` if the process is
    given up.
    """
    if _state(error) == _FENCED:
        raise lease_lost() from None
    if not _is_lost(error):
        return
    if not connection.invalidated:
        connection.invalidate(error)
    raise ServerAway(error, was_connected=True) from error
