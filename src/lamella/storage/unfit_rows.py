"""Finds rows of a SQLite database that PostgreSQL can't hold, before anything is copied.

SQLite takes any text, number and key. PostgreSQL refuses NUL in a text, an integer over 32 bits, and a key that is
longer than a third of a page. Example: `messages msg_01j9…: parts holds NUL`.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from sqlalchemy import Connection, Integer, Table, Text

from lamella.storage.copying import TABLES
from lamella.storage.tables import metadata

LONGEST_KEY = 2_600
"""Bytes that the columns of an index may have together; the server's limit is 2,704 with what it adds."""

NAMED = 20
"""Rows that are named of each kind at most."""


@dataclass(frozen=True, slots=True)
class UnfitRow:
    """A row that can't be copied: its table and key, and why."""

    table: str
    key: str
    why: str

    def __str__(self) -> str:
        return f"{self.table} {self.key}: {self.why}"


def unfit_rows(connection: Connection) -> Iterator[UnfitRow]:
    """The rows of a SQLite database that PostgreSQL refuses, `NAMED` of each table and reason."""
    for table in TABLES:
        reasons = list(_reasons(table))
        if any(True for _ in _found(connection, table, "", " OR ".join(condition for _, condition in reasons))):
            for why, condition in reasons:
                yield from _found(connection, table, why, condition)


def _found(connection: Connection, table: Table, why: str, condition: str) -> Iterator[UnfitRow]:
    keys = ", ".join(f'"{column.name}"' for column in table.primary_key)
    query = f'SELECT {keys} FROM "{table.name}" WHERE {condition} LIMIT {NAMED}'
    for key in connection.exec_driver_sql(query):
        yield UnfitRow(table.name, " ".join(ascii(value) if "\0" in str(value) else str(value) for value in key), why)


def _reasons(table: Table) -> Iterator[tuple[str, str]]:
    """What PostgreSQL refuses of a table, in words, and the condition of such rows."""
    for column in table.c:
        if isinstance(column.type, Text):
            yield f"{column.name} holds NUL", f'instr("{column.name}", char(0)) > 0'
        elif type(column.type) is Integer:
            yield f"{column.name} is over 32 bits", f'"{column.name}" NOT BETWEEN -2147483648 AND 2147483647'
    for names in _indexed(table):
        length = " + ".join(f'coalesce(length(CAST("{name}" AS BLOB)), 0)' for name in names)
        yield f"the key of {', '.join(names)} has more than {LONGEST_KEY:,} bytes", f"{length} > {LONGEST_KEY}"


def _indexed(table: Table) -> list[list[str]]:
    """The columns of text of each index and key."""
    schema = metadata.tables[table.name]
    indexes = [[column.name for column in one.columns] for one in schema.indexes]
    keys = [[column.name for column in schema.primary_key.columns], *indexes]
    texts = {column.name for column in table.c if isinstance(column.type, Text)}
    return [found for names in keys if (found := [name for name in names if name in texts])]
