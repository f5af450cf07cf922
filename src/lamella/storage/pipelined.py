"""A connection of psycopg that sends statements together: a statement waits here until somebody looks at an answer.

A statement that changes rows needs no answer at once, and rows that are asked for are needed when they are looked at.
So both wait in this process, in order, and go to the server together, in one round trip:

    a = execute(SELECT …)    b = execute(SELECT …)    execute(UPDATE …)      nothing is sent
    a.all()                  BEGIN, SELECT, SELECT, UPDATE are sent           one round trip
    commit()                 COMMIT is sent, with what waits                  one more

A transaction that writes asks for its id as it begins. If the connection is lost during `COMMIT`, the server is asked
by this id whether the transaction happened.

The end of a transaction that only read is sent without waiting for its answer, unless a pooler such as PgBouncer stands
between: it may give the server to another client by then, and mix up what follows.

This module needs psycopg: `storage.postgresql` imports it once a database of PostgreSQL is to be opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager, suppress
from typing import Any, NamedTuple, Self

from psycopg import Connection, Cursor, Error, OperationalError
from psycopg.abc import Params
from psycopg.pq import ConnStatus, PipelineStatus, TransactionStatus

_MARK = "SELECT pg_current_xact_id()::text, pg_logical_emit_message(true, 'lamella', ''), pg_last_wal_replay_lsn()"
"""The message puts the id into the log of the server, at a place that is known then."""

Description = Sequence[Any]
"""What DB-API tells of the columns of rows."""


class TransactionMark(NamedTuple):
    """What a transaction is found by later: its id, a place in the server's log before which it stands, and where the
    server's last recovery ended when it ran; None if that server began without one.
    """

    id: str
    place: str
    recovered: str | None


class PipelinedCursor(Cursor[Any]):
    """Sends what waits in its connection along with its own statement. `waits`: its own statement waits too."""

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        self.waits = False
        self._expected: Description | None = None

    def later(self, query: Any, params: Any, expected: Description | None = None, *, many: bool = False) -> None:
        """Run a statement when an answer is looked at. `expected` describes its rows; None: it gives no rows.

        With `many` it is run once for each of `params`.
        """
        assert isinstance(self.connection, PipelinedConnection)
        self.waits, self._expected = True, expected
        self.connection.later(_Waiting(self, query, params, many))

    def execute(self, query: Any, params: Params | None = None, **given: Any) -> PipelinedCursor:
        """As psycopg's."""
        connection = self.connection
        if not isinstance(connection, PipelinedConnection) or not connection.waits:
            super().execute(query, params, **given)
            return self
        with connection.sending():
            super().execute(query, params, **given)
        return self

    def executemany(self, query: Any, params_seq: Iterable[Params], *, returning: bool = False) -> None:
        """As psycopg's."""
        connection = self.connection
        assert isinstance(connection, PipelinedConnection)
        with connection.sending():
            super().executemany(query, params_seq, returning=returning)

    def copy(self, *args: Any, **given: Any) -> Any:
        """As psycopg's."""
        if isinstance(self.connection, PipelinedConnection):
            self.connection.flush()
        return super().copy(*args, **given)

    @property
    def description(self) -> Any:
        """As psycopg's; while the statement waits, what is expected."""
        return self._expected if self.waits else super().description

    @property
    def rowcount(self) -> int:
        """As psycopg's. While the statement waits it is not known: -1."""
        return -1 if self.waits else super().rowcount

    def fetchone(self) -> Any:
        """As psycopg's."""
        self._send()
        return super().fetchone()

    def fetchmany(self, size: int = 0) -> list[Any]:
        """As psycopg's."""
        self._send()
        return super().fetchmany(size)

    def fetchall(self) -> list[Any]:
        """As psycopg's."""
        self._send()
        return super().fetchall()

    def __iter__(self) -> PipelinedCursor:
        self._send()
        return self

    def close(self) -> None:
        """As psycopg's. A statement that waits is run in any case."""
        if not self.waits:
            super().close()

    def _send(self) -> None:
        if self.waits and isinstance(self.connection, PipelinedConnection):
            self.connection.flush()


class _Waiting(NamedTuple):
    cursor: Cursor[Any]
    query: Any
    params: Any = None
    many: bool = False

    def send(self) -> None:
        """Send it. The connection is in pipeline mode."""
        if self.many:
            Cursor.executemany(self.cursor, self.query, self.params)
        else:
            Cursor.execute(self.cursor, self.query, self.params)


class PipelinedConnection(Connection[Any]):
    """A connection without transactions of its own accord: `begin` says how each begins."""

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        self.cursor_factory = PipelinedCursor
        self._waiting: list[_Waiting] = []
        self._begun = 0
        self._asks_id = False
        self._has_begun = False
        self._is_answered = True
        self._is_direct = False
        self.mark: TransactionMark | None = None
        """Of the running or the last transaction, if it asked for one and the server has answered."""

    @classmethod
    def connect(cls, *args: Any, **given: Any) -> Self:
        """As psycopg's. A pooler is known by the process that it names: another than the one that answers."""
        made = super().connect(*args, **given)
        answering = made.pgconn.exec_(b"SELECT pg_backend_pid()").get_value(0, 0)
        made._is_direct = answering == b"%d" % made.pgconn.backend_pid
        return made

    @property
    def waits(self) -> bool:
        """Whether something is to be sent with the next statement."""
        return bool(self._waiting) or not self._is_answered

    def begin(self, statements: Sequence[str], *, asks_id: bool) -> None:
        """Begin a transaction, with its first statements."""
        self._waiting = [_Waiting(Cursor(self), statement) for statement in statements]
        self._begun = len(statements)
        self._asks_id, self.mark = asks_id, None

    def flush(self) -> None:
        """Send what waits, and take its answers."""
        if self.waits:
            with self.sending():
                pass

    def later(self, waiting: _Waiting) -> None:
        """A statement that is sent with the next one whose answer is looked at, or at the end."""
        self._waiting.append(waiting)

    @contextmanager
    def sending(self, *, ends: bool = False) -> Iterator[None]:
        """Send what waits, then what the block runs, and take all answers. `ends`: the transaction ends with it.

        Raises the first error: what was sent after it was not run. psycopg's own block would log a second one: it asks
        a lost connection for answers.
        """
        waiting, self._waiting = self._waiting, []
        asked: Cursor[Any] | None = None
        first: Error | None = None
        try:
            with self.pipeline() as pipeline:
                if not self._is_answered:
                    pipeline.result_queue.extend((None, None))
                    self._is_answered = True
                self._has_begun |= bool(waiting)
                try:
                    for one in waiting:
                        one.send()
                    if self._asks_id and not ends:
                        asked, self._asks_id = Cursor(self), False
                        asked.execute(_MARK)
                    yield
                except Error as error:
                    first = error
        except Error as error:
            raise first or error from None
        finally:
            for one in waiting:
                if isinstance(one.cursor, PipelinedCursor):
                    one.cursor.waits = False
            if self.pgconn.status == ConnStatus.OK and self.pgconn.pipeline_status != PipelineStatus.OFF:
                # The server ended the session, and some answers never come: the next statement would wait for them.
                self.close()
        if first is not None:
            raise first
        if asked is not None:
            self.mark = TransactionMark(*asked.fetchall()[0])

    def commit(self) -> None:
        """Commit, with what waits. The id is known before `COMMIT` is sent."""
        if not self._has_begun and len(self._waiting) <= self._begun:
            self._forget()
            return
        try:
            if self._asks_id:
                self.flush()
            if self.waits:
                with self.sending(ends=True):
                    Cursor(self).execute("COMMIT")
            else:
                super().commit()
        except Error:
            # What waited may have failed: then the transaction has not ended, and nobody else ends it.
            with suppress(Error):
                self.rollback()
            raise
        self._has_begun = False

    def rollback(self) -> None:
        """Roll back. If the server is at the other end, nobody waits for the answer of a transaction that went well: it
        comes with the next one.
        """
        has_begun = self._has_begun
        self._forget()
        if not has_begun:
            return
        with self._unless_lost():
            if not self._is_direct or self.pgconn.transaction_status != TransactionStatus.INTRANS:
                super().rollback()
                return
            self.pgconn.enter_pipeline_mode()
            self.pgconn.send_query_params(b"ROLLBACK", None)
            self.pgconn.pipeline_sync()
            self._is_answered = False
            if self.pgconn.flush() != 0:
                self.flush()

    @contextmanager
    def _unless_lost(self) -> Iterator[None]:
        """If the connection is lost, the server rolls back by itself. The next statement says that it is lost."""
        try:
            yield
        except OperationalError:
            if self.pgconn.status != ConnStatus.BAD:
                raise

    def _forget(self) -> None:
        self._waiting.clear()
        self._asks_id = self._has_begun = False
