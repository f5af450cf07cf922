"""A connection of psycopg that sends what nobody waits for together with what somebody waits for.

`BEGIN` and rows to insert need no answer before the next statement. They wait in this process, and go to the server
with the statement after them, or with `COMMIT`: five statements of a transaction may be two round trips.

A transaction that writes asks for its id as it begins. If the connection is lost during `COMMIT`, the server is asked
by this id whether the transaction happened.

This module needs psycopg: `storage.postgresql` imports it once a database of PostgreSQL is to be opened.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

from psycopg import Connection, Cursor, Error, OperationalError
from psycopg.abc import Params
from psycopg.generators import fetch_many
from psycopg.pq import ConnStatus, TransactionStatus

_IDLE = TransactionStatus.IDLE
_TRANSACTION_ID = "SELECT pg_current_xact_id()::text"


class PipelinedCursor(Cursor[Any]):
    """Sends what waits in its connection along with its own statement."""

    def execute(self, query: Any, params: Params | None = None, **given: Any) -> PipelinedCursor:
        """As psycopg's."""
        connection = self.connection
        if not isinstance(connection, PipelinedConnection) or not connection.waits:
            super().execute(query, params, **given)
            return self
        with connection.together():
            super().execute(query, params, **given)
        return self

    def copy(self, *args: Any, **given: Any) -> Any:
        """As psycopg's."""
        self.connection.flush()  # type: ignore[attr-defined]
        return super().copy(*args, **given)

    def executemany(self, query: Any, params_seq: Iterable[Params], *, returning: bool = False) -> None:
        """As psycopg's."""
        connection = self.connection
        assert isinstance(connection, PipelinedConnection)
        with connection.together():
            super().executemany(query, params_seq, returning=returning)


class PipelinedConnection(Connection[Any]):
    """A connection without transactions of its own accord: `begin` says how each begins."""

    def __init__(self, *args: Any, **given: Any) -> None:
        super().__init__(*args, **given)
        self.cursor_factory = PipelinedCursor
        self._waiting: list[tuple[Any, Sequence[Params] | None]] = []
        self._begun = 0
        self._asks_id = False
        self._id: Cursor[Any] | None = None
        self._is_answered = True
        self.transaction_id: str | None = None
        """The id of the running or the last transaction, if it asked for one and the server has answered."""

    @property
    def waits(self) -> bool:
        """Whether something is to be sent with the next statement."""
        return bool(self._waiting) or self._asks_id

    def begin(self, statements: Sequence[str], *, writes: bool) -> None:
        """Begin a transaction, with its first statements. One that writes asks for its id."""
        with self._unless_lost():
            self._take_answer()
        self._waiting = [(statement, None) for statement in statements]
        self._begun = len(statements)
        self._asks_id, self.transaction_id = writes, None

    def flush(self) -> None:
        """Send what waits, and take its answers."""
        if self.waits:
            with self.together():
                pass

    @contextmanager
    def together(self) -> Iterator[None]:
        """Send what waits with the statements of the block, and take all answers at its end.

        The first error is raised. psycopg's own block would log a second one: it asks a lost connection for answers.
        """
        first: Error | None = None
        try:
            with self.pipeline():
                try:
                    self._send()
                    yield
                except Error as error:
                    first = error
        except Error as error:
            raise first or error from None
        if first is not None:
            raise first
        if self._id is not None:
            self.transaction_id = self._id.fetchall()[0][0]
            self._id = None

    def later(self, query: Any, params: Sequence[Params] | None) -> None:
        """Run a statement, once for each of `params`, with the next one or at the end; nobody reads what it gives."""
        self._waiting.append((query, params))

    def _send(self) -> None:
        waiting, self._waiting = self._waiting, []
        for query, params in waiting:
            if params is None:
                self._plain(query)
            else:
                for each in params:
                    self._plain(query, each)
        if self._asks_id and self.transaction_id is None:
            self._id = self._plain(_TRANSACTION_ID)
        self._asks_id = False

    def _plain(self, query: Any, params: Params | None = None) -> Cursor[Any]:
        return Cursor[Any](self).execute(query, params)

    def commit(self) -> None:
        """Commit, with what waits. The id is known before `COMMIT` is sent."""
        if self._has_only_begun():
            return
        if self._asks_id:
            self.flush()
        if self.waits:
            with self.together():
                self._plain("COMMIT")
        else:
            super().commit()

    def rollback(self) -> None:
        """Roll back. Nobody waits for the answer of a transaction that went well: it is read before the next one."""
        if self._has_only_begun():
            return
        self._waiting.clear()
        self._asks_id = False
        with self._unless_lost():
            if self.pgconn.transaction_status == TransactionStatus.INTRANS and self._is_answered:
                self.pgconn.send_query(b"ROLLBACK")
                self._is_answered = False
                if self.pgconn.flush() == 0:
                    return
            self._take_answer()
            super().rollback()

    @contextmanager
    def _unless_lost(self) -> Iterator[None]:
        """If the connection is lost, the server rolls back by itself. The next statement says that it is lost."""
        try:
            yield
        except OperationalError:
            if self.pgconn.status != ConnStatus.BAD:
                raise

    def _has_only_begun(self) -> bool:
        """Whether the server knows nothing of the transaction; it is forgotten then."""
        if not self._is_answered or self.pgconn.transaction_status != _IDLE:
            return False
        if len(self._waiting) > self._begun:
            return False
        self._waiting.clear()
        self._asks_id = False
        return True

    def _take_answer(self) -> None:
        """Read the answer to the last `ROLLBACK`."""
        if self._is_answered:
            return
        self._is_answered = True
        with self.lock:
            self.wait(fetch_many(self.pgconn))
