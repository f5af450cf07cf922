"""Between rows and the records of the core: what has the same name in both is carried over.

    values(files, file, owner="user_ann")          # the columns of `files` that a `File` has, and the owner
    record(File, row)                               # the `File` of a row
    record(Job, row, caller=Caller(row["owner"]))   # with a field that is no column

The types of the columns (`storage.columns`) turn each value into what a record holds. Three things are no columns and
written out here: usage, which is eight of them, the parts of an answer, and where a record is found.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields
from functools import cache
from operator import itemgetter
from typing import Any, TypeVar, cast

from sqlalchemy import Column, ColumnElement, Connection, RowMapping, Select, Table, select

from lamella.core.errors import NotFound
from lamella.core.records import Caller, Page, PageQuery
from lamella.core.tokens import Usage

RecordT = TypeVar("RecordT")

Row = dict[str, Any]
"""Columns by name, as they are written."""


@cache
def _names(kind: Any) -> tuple[str, ...]:
    return tuple(field.name for field in fields(kind))


@cache
def _shared(table: Table, kind: Any) -> tuple[str, ...]:
    return tuple(name for name in _names(kind) if name in table.c)


def values(table: Table, record: Any, **others: Any) -> Row:
    """The columns of `table` that have the names of the record's fields, and `others`."""
    kind: Any = type(record)
    return {name: getattr(record, name) for name in _shared(table, kind)} | others


def record(kind: type[RecordT], row: RowMapping, **others: Any) -> RecordT:
    """A record of the columns that have the names of its fields, and `others`."""
    of: Any = kind
    return kind(**{name: row[name] for name in _names(of) if name not in others and name in row}, **others)


def recorder(kind: type[RecordT], columns: Iterable[ColumnElement[Any]]) -> Callable[..., RecordT]:
    """As `record`, for rows of these columns: which of them the record has is looked up once. Made for long lists."""
    there, of = {column.key for column in columns}, cast(Any, kind)
    names = [name for name in _names(of) if name in there]
    picked = itemgetter(*names)

    if tuple(names) == _names(of)[: len(names)]:
        return lambda row, **others: kind(*picked(row), **others)
    return lambda row, **others: kind(**{**dict(zip(names, picked(row), strict=True)), **others})


def owned_by(table: Table, caller: Caller, id: str) -> tuple[ColumnElement[bool], ColumnElement[bool]]:
    """The condition of the caller's row of this id."""
    return table.c.id == id, table.c.owner == caller.user_id


def find_row(
    connection: Connection, table: Table, caller: Caller, id: str, noun: str, *, lock: bool = False
) -> RowMapping:
    """The caller's row; raises `NotFound` with `noun`, for example `agent`.

    `lock` keeps other writers away from it until the transaction ends.
    """
    return ask_row(connection, table, caller, id, noun, lock=lock)()


def ask_row(
    connection: Connection, table: Table, caller: Caller, id: str, noun: str, *, lock: bool = False
) -> Callable[[], RowMapping]:
    """Asks for the caller's row. What it gives is called for the answer, after other rows are asked for: PostgreSQL is
    asked for all of them at once.
    """
    query = select(table).where(*owned_by(table, caller, id))
    asked = connection.execute(query.with_for_update() if lock else query).mappings()

    def found() -> RowMapping:
        if (row := asked.first()) is None:
            raise NotFound(f"There is no {noun} {id}.", param=f"{noun.rpartition(' ')[2]}_id")
        return row

    return found


def page_rows(
    connection: Connection, rows: Select[*tuple[Any, ...]], key: Column[Any], query: PageQuery
) -> Page[RowMapping]:
    """One page of `rows` by their id `key`."""
    rising = query.order == "asc"
    if query.after is not None:
        after = key.type.python_type(query.after)
        rows = rows.where(key > after if rising else key < after)
    limited = rows.order_by(key.asc() if rising else key.desc()).limit(query.limit + 1)
    found = connection.execute(limited).mappings().all()
    return Page(tuple(found[: query.limit]), len(found) > query.limit)


def page(
    connection: Connection,
    rows: Select[*tuple[Any, ...]],
    key: Column[Any],
    query: PageQuery,
    of: Callable[[RowMapping], RecordT],
) -> Page[RecordT]:
    """As `page_rows`, with what `of` makes of each row."""
    found = page_rows(connection, rows, key, query)
    return Page(tuple(map(of, found.data)), found.has_more)


_FIGURES = ("input", "cache_read", "cache_write_5m", "cache_write_1h", "output", "reasoning")

USAGE_COLUMNS = (*(f"{name}_tokens" for name in _FIGURES), "usage_estimated", "input_estimated")
"""The columns of `Usage`, in the order of its fields."""
NO_BILL: Mapping[str, Any] = {"cost": 0.0, **dict.fromkeys(USAGE_COLUMNS, 0)}
UNKNOWN_BILL: Mapping[str, Any] = {"cost": None, **dict.fromkeys(USAGE_COLUMNS)}
"""A bill of nothing, and one that is not known."""


def usage_row(usage: Usage) -> Row:
    """The columns of a usage."""
    return dict(zip(USAGE_COLUMNS, (getattr(usage, name) for name in _names(Usage)), strict=True))


def usage_of(row: RowMapping) -> Usage:
    """The usage of a row that has one."""
    return Usage(*(row[name] for name in USAGE_COLUMNS))
