"""Copies a database into another one: SQLite to PostgreSQL and back, or one PostgreSQL to another.

Rows are copied as they are stored, table by table in the order of their keys, and a batch is one transaction. In the
same transaction the target's table `copying` notes the key that the batch ends with, so a copy that is killed goes on
there. Example: after 3,000 turns it has the row `turns, '["turn_01j9…"]', 3000, …`.

Until all is copied the target has neither indexes nor foreign keys, and no lamella opens it: its revision is `copying`.
The source is only read. The copier knows no table by its name: it copies those of the schema.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from enum import StrEnum
from hashlib import blake2b
from typing import Any

import msgspec
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Engine,
    Float,
    Integer,
    LargeBinary,
    MetaData,
    String,
    Table,
    Text,
    cast,
    delete,
    insert,
    inspect,
    select,
    tuple_,
    update,
)
from sqlalchemy.exc import DataError, OperationalError
from sqlalchemy.schema import AddConstraint, DropConstraint

from lamella.core.errors import ConfigurationError, StoreFailed
from lamella.storage.columns import POSTGRESQL, ColumnType, PackedBytes, PlainText
from lamella.storage.database import rows_changed
from lamella.storage.failures import failure
from lamella.storage.migrate import HEAD, UNFINISHED, VERSION, is_index, schema_statements
from lamella.storage.sqlite import check_references
from lamella.storage.tables import deployment, metadata

AT_ONCE, BYTES_AT_ONCE = 2_000, 4_000_000
"""Rows, and about how many bytes of them, in one transaction at most."""

READ_AT_ONCE = 200
"""Rows that are held in memory while a table is read."""

_SOURCE = ":source"
"""The row of that table that says what is copied: the id of the source."""

_PLAIN = MetaData()
_copying = Table(
    "copying",
    MetaData(),
    Column("name", String, primary_key=True),
    Column("last", Text, nullable=False),
    Column("rows", BigInteger, nullable=False),
    Column("sum", Text, nullable=False),
    Column("whole", Boolean, nullable=False),
)

StoredRow = tuple[Any, ...]
Tell = Callable[[str], None]
"""Takes a line of progress."""


@dataclass(frozen=True, slots=True)
class TableSum:
    """The number of a table's rows, and a sum of their hashes that does not depend on their order."""

    rows: int = 0
    sum: int = 0

    def plus(self, rows: Iterable[Sequence[object]]) -> TableSum:
        """That of these rows too."""
        count, total = self.rows, self.sum
        for row in rows:
            count += 1
            total += int.from_bytes(blake2b(msgspec.msgpack.encode(row), digest_size=8).digest(), "big")
        return TableSum(count, total % (1 << 64))


def _plain_type(column: Column[Any]) -> Any:
    """The type of a column without what turns its values into Python's."""
    if isinstance(column.type, PackedBytes):
        return LargeBinary()
    if isinstance(column.type, ColumnType | PlainText):
        return Text()
    for kind in (Boolean, BigInteger, Integer, Float, LargeBinary):
        if isinstance(column.type, kind):
            return kind()
    raise TypeError(f"{column} has a type that nobody knows how to copy.")


def _plain(table: Table) -> Table:
    columns = [Column(one.name, _plain_type(one), primary_key=one.primary_key) for one in table.c]
    return Table(table.name, _PLAIN, *columns)


TABLES = tuple(map(_plain, metadata.sorted_tables))
"""Every table that is copied, those before that others refer to."""


def read_rows(connection: Connection, table: Table, after: Sequence[object] | None = None) -> Iterator[StoredRow]:
    """The rows of a table in the order of its key, or those after a key."""
    columns, keys = list(table.c), list(table.primary_key)
    streamed = {"yield_per": READ_AT_ONCE}
    # SQLite may keep a text in a column of bytes.
    found = select(*(cast(c, LargeBinary) if isinstance(c.type, LargeBinary) else c for c in columns)).order_by(*keys)
    if after is not None:
        found = found.where(tuple_(*keys) > tuple_(*after))
    return _streamed(connection.execute(found, execution_options=streamed))


def _streamed(result: Any) -> Iterator[StoredRow]:
    with result:
        for row in result:
            yield tuple(row)


def _batches(rows: Iterable[StoredRow]) -> Iterator[list[StoredRow]]:
    """Rows in batches that are not too large."""
    batch: list[StoredRow] = []
    size = 0
    for row in rows:
        batch.append(row)
        size += sum(len(value) for value in row if isinstance(value, str | bytes))
        if len(batch) == AT_ONCE or size >= BYTES_AT_ONCE:
            yield batch
            batch, size = [], 0
    if batch:
        yield batch


def _names(connection: Connection, table: Table) -> str:
    """The columns of a table, quoted as its database wants them."""
    quote = connection.dialect.identifier_preparer.quote_identifier
    return ", ".join(quote(column.name) for column in table.c)


def _add(connection: Connection, table: Table, rows: Sequence[StoredRow]) -> None:
    """Store rows."""
    names = _names(connection, table)
    if connection.dialect.name == POSTGRESQL:
        with connection.connection.cursor() as cursor, cursor.copy(f'COPY "{table.name}" ({names}) FROM STDIN') as into:  # type: ignore[attr-defined]
            for row in rows:
                into.write_row(row)
        return
    places = ", ".join("?" * len(table.c))
    connection.exec_driver_sql(f'INSERT INTO "{table.name}" ({names}) VALUES ({places})', list(rows))


def database_id(connection: Connection) -> str:
    """The id of a database, which a copy has too."""
    return bytes(connection.execute(select(deployment.c.data).where(deployment.c.name == "id")).scalar_one()).hex()


def check_source(connection: Connection) -> None:
    """Raises `ConfigurationError` for a database that is not one of this version."""
    if VERSION.name not in inspect(connection).get_table_names():
        raise ConfigurationError("There is no database to copy.", hint="Name its folder or URL with --from.")
    stored = connection.execute(select(VERSION.c.version_num)).scalar_one_or_none()
    if stored == UNFINISHED:
        raise ConfigurationError("The source is itself an unfinished copy.", hint="Finish that copy first.")
    if stored != HEAD:
        raise ConfigurationError(
            f"The source is of another version (revision {stored}, this lamella knows {HEAD}); nothing was copied.",
            hint="Keep a copy of it, bring it up to date with `lamella migrate` without --to, then copy it."
            if str(stored) < HEAD
            else "Install the newer lamella.",
        )


class TargetState(StrEnum):
    """How far a copy of a source into a target is. `WHOLE`: it was finished before, and may have been used since."""

    EMPTY = "empty"
    BEGUN = "begun"
    WHOLE = "whole"


def state_of(target: Connection, source_id: str) -> TargetState:
    """How far the copy of a source is. Raises `ConfigurationError` for a target that has something else."""
    names = set(inspect(target).get_table_names())
    if not names:
        return TargetState.EMPTY
    if _copying.name in names:
        of = select(_copying.c.last).where(_copying.c.name == _SOURCE)
        if target.execute(of).scalar_one() == source_id:
            return TargetState.BEGUN
        raise ConfigurationError(
            "The target has an unfinished copy of another database.", hint="Empty it, or choose another target."
        )
    is_current = VERSION.name in names and target.execute(select(VERSION.c.version_num)).scalar_one_or_none() == HEAD
    if is_current and database_id(target) == source_id:
        return TargetState.WHOLE
    raise ConfigurationError(
        "The target is not empty: it has tables already.", hint="Make an empty database, or name another folder."
    )


class DatabaseCopy:
    """A copy from one database into another. `source` is a connection that sees one state of it; `tell` takes a line
    for each table.
    """

    def __init__(self, source: Connection, target: Engine, tell: Tell) -> None:
        self._source = source
        self._target = target
        self._tell = tell
        self._read: dict[str, TableSum] = {}

    def begin(self) -> TargetState:
        """Make the tables of an empty target; returns how it was. Raises as `check_source` and `state_of` do."""
        check_source(self._source)
        source_id = database_id(self._source)
        with self._target.begin() as target:
            state = state_of(target, source_id)
            if state is TargetState.EMPTY:
                _make_tables(target)
                first = {"name": _SOURCE, "last": source_id, "rows": 0, "sum": "0", "whole": False}
                target.execute(insert(_copying).values(first))
            return state

    def rows(self) -> int:
        """Copy what is missing; returns how many rows that was."""
        return sum(map(self._table, TABLES))

    def _table(self, table: Table) -> int:
        with self._target.connect() as target:
            known = target.execute(select(_copying).where(_copying.c.name == table.name)).one_or_none()
        done = TableSum() if known is None else TableSum(known.rows, int(known.sum))
        before = done.rows
        if known is None or not known.whole:
            after = None if known is None else msgspec.json.decode(known.last)
            for batch in _batches(read_rows(self._source, table, after)):
                done = done.plus(batch)
                self._store(table, batch, done)
            self._note(table, done)
        if known is None:
            self._read[table.name] = done
        if done.rows:
            here = f", {before:,} of them before" if before else ""
            self._tell(f"{table.name:<24} {done.rows:>12,} rows{here}")
        return done.rows - before

    def _store(self, table: Table, batch: Sequence[StoredRow], done: TableSum) -> None:
        last = [batch[-1][index] for index, column in enumerate(table.c) if column.primary_key]
        noted = {"last": msgspec.json.encode(last).decode(), "rows": done.rows, "sum": str(done.sum), "whole": False}
        dbapi: Any = self._target.dialect.dbapi
        try:
            with self._target.begin() as target:
                _add(target, table, batch)
                target.execute(delete(_copying).where(_copying.c.name == table.name))
                target.execute(insert(_copying).values(name=table.name, **noted))
        except (DataError, dbapi.DataError) as error:
            why = str(getattr(error, "orig", error)).split("\n", 1)[0]
            raise StoreFailed(
                f"A row of {table.name}, up to the one with the key {last}, can't be stored: {why}."
            ) from error
        except dbapi.Error as error:  # of COPY, which SQLAlchemy does not know
            raise failure(OperationalError("COPY", {}, error)) from error

    def _note(self, table: Table, done: TableSum) -> None:
        """A table is copied whole, also one without rows."""
        with self._target.begin() as target:
            target.execute(delete(_copying).where(_copying.c.name == table.name, _copying.c.rows == 0))
            if not rows_changed(target, update(_copying).where(_copying.c.name == table.name).values(whole=True)):
                row = {"name": table.name, "last": "[]", "rows": done.rows, "sum": str(done.sum), "whole": True}
                target.execute(insert(_copying).values(row))

    def compare(self) -> int:
        """Read every table of the target, and those of the source that an earlier run copied; returns the rows.

        Raises `StoreFailed` if a count or a checksum differs.
        """
        differing, rows = [], 0
        with self._target.connect() as target:
            for table in TABLES:
                copied = TableSum().plus(read_rows(target, table))
                there = self._read.get(table.name) or TableSum().plus(read_rows(self._source, table))
                rows += copied.rows
                if copied != there:
                    differing.append(f"{table.name} ({there.rows:,} rows in the source, {copied.rows:,} in the target)")
        if differing:
            raise StoreFailed(
                f"The copy differs from its source: {', '.join(differing)}.",
                hint="Did one of them change after the copy began? Empty the target and copy again.",
            )
        return rows

    def finish(self) -> None:
        """Let the target be a database like any other: indexes, foreign keys, next ids, revision."""
        following = [(table, _next_number(self._source, table)) for table in _numbered()]
        with self._target.begin() as target:
            for statement in filter(is_index, schema_statements(target.dialect.name)):
                target.exec_driver_sql(statement)
            if target.dialect.name == POSTGRESQL:
                for key in _foreign_keys():
                    target.execute(AddConstraint(key, isolate_from_table=False))
            else:
                check_references(target)
            for table, number in following:
                _continue_after(target, table, number)
            _copying.drop(target)
            target.execute(update(VERSION).values(version_num=HEAD))


def _foreign_keys() -> list[Any]:
    return [key for table in metadata.sorted_tables for key in table.foreign_key_constraints]


def _make_tables(target: Connection) -> None:
    """The tables of the schema, without indexes, foreign keys and rows."""
    for statement in schema_statements(target.dialect.name):
        if not is_index(statement):
            target.exec_driver_sql(statement)
    if target.dialect.name == POSTGRESQL:
        for key in _foreign_keys():
            target.execute(DropConstraint(key))
    _copying.create(target)
    target.execute(insert(VERSION).values(version_num=UNFINISHED))


def _numbered() -> list[Table]:
    """The tables whose rows are numbered by the database; a number is never used twice."""
    return [table for table in metadata.sorted_tables if table.autoincrement_column is not None]


def _next_number(connection: Connection, table: Table) -> int:
    """The newest number that a table gave, 0 if none."""
    if connection.dialect.name == POSTGRESQL:
        last, used = connection.exec_driver_sql(
            f"SELECT last_value, is_called FROM {_sequence(connection, table)}"
        ).one()
        return int(last) if used else 0
    query = "SELECT seq FROM sqlite_sequence WHERE name = ?"
    return int(connection.exec_driver_sql(query, (table.name,)).scalar() or 0)


def _sequence(connection: Connection, table: Table) -> str:
    column = table.autoincrement_column
    assert column is not None
    query = "SELECT pg_get_serial_sequence(%s, %s)"
    return str(connection.exec_driver_sql(query, (table.name, column.name)).scalar_one())


def _continue_after(target: Connection, table: Table, number: int) -> None:
    """Let the next row get a number after this one."""
    if not number:
        return
    if target.dialect.name == POSTGRESQL:
        target.exec_driver_sql("SELECT setval(%s, %s)", (_sequence(target, table), number))
        return
    target.exec_driver_sql("DELETE FROM sqlite_sequence WHERE name = ?", (table.name,))
    target.exec_driver_sql("INSERT INTO sqlite_sequence (name, seq) VALUES (?, ?)", (table.name, number))
