"""What a database of very many messages costs its users: start, list, open, send and search, on PostgreSQL.

    python bench/many_messages.py [--messages 1000000] [--own 10000] [--rounds 20]

One owner has `--own` messages in conversations of 100, indexed for search. Their rows are copied to as many other
owners as it takes, under ids of their own; of these the words are not indexed. A server is asked for the first owner's
conversations before and after that: a start until it is healthy, and the median of some requests, in ms.
Keys and indexes are dropped while the rows are copied, and made again: with them ten million messages take hours.
PostgreSQL runs on this machine, in a folder that is removed.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx2
import psycopg
from sqlalchemy import Column, ColumnElement, Connection, MetaData, Table, create_engine, func, insert, literal, select

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from lamella.core.access import LOCAL_USER
from lamella.core.clock import SystemClock
from lamella.core.ids import RandomIds
from lamella.core.records import Caller
from lamella.search.lexical import LexicalEmbedder
from lamella.storage import open_store
from lamella.storage.tables import (
    conversations,
    messages,
    recall_entries,
    recall_turns,
    recall_vectors,
    runs,
    sessions,
    turns,
)
from many_passages import fill
from postgres import running
from processes import server, until_healthy
from tables import middle, show

TABLES = (conversations, sessions, turns, runs, messages, recall_turns, recall_entries)
AN_ID = re.compile(r"(conv|sess|turn|run|msg|step)_")


async def begin(url: str, count: int) -> None:
    """Store the messages of the owner who is asked for."""
    ids = RandomIds(SystemClock())
    async with await open_store(url, ids) as store:
        await fill(store, Caller(LOCAL_USER), LexicalEmbedder(), ids, count)


def first_rows(connection: Connection, table: Table) -> tuple[Table, list[str], list[str]]:
    """The first owner's rows in a table of their own, all its columns, and those that hold ids."""
    connection.exec_driver_sql(
        f"CREATE TABLE first_{table.name} AS SELECT * FROM {table.name} WHERE owner = '{LOCAL_USER}'"
    )
    source = Table(f"first_{table.name}", MetaData(), *[Column(one.name, one.type) for one in table.c])
    row = connection.execute(select(source).limit(1)).mappings().one()
    names = list(map(str, table.c.keys()))
    ids = [name for name in names if isinstance(row[name], str) and AN_ID.match(row[name])]
    return source, names, ids + [name for name in ("parent_id", "head") if name in names]


def copies(connection: Connection, table: Table) -> Callable[[int], Any]:
    """The statement that copies a table's rows of the first owner to another one."""
    source, names, ids = first_rows(connection, table)
    shift = connection.scalar(select(func.max(source.c.id))) if table is recall_entries else 0

    def statement(number: int) -> Any:
        def value(name: str) -> ColumnElement[Any]:
            if name == "owner":
                return literal(f"user_{number:06}")
            if table is recall_entries and name == "id":
                return source.c.id + literal(shift * (number + 1))
            return func.concat(source.c[name], f"x{number}") if name in ids else source.c[name]

        return insert(table).from_select(names, select(*[value(name) for name in names]))

    return statement


def vectors(connection: Connection) -> Callable[[int], Any]:
    """The statement that copies the vectors of the first owner's passages."""
    source, names, _ = first_rows(connection, recall_vectors)
    shift = connection.scalar(select(func.max(source.c.entry_id)))

    def statement(number: int) -> Any:
        others = {"owner": literal(f"user_{number:06}"), "entry_id": source.c.entry_id + literal(shift * (number + 1))}
        rows = select(*[others.get(name, source.c[name]) for name in names])
        return insert(recall_vectors).from_select(names, rows)

    return statement


@contextmanager
def without_indexes(connection: Connection, tables: Sequence[Table]) -> Iterator[None]:
    """Keys and indexes of the tables are dropped, and made again at the end. References are taken as they are."""
    names = ", ".join(f"'{table.name}'" for table in tables)
    constraints = connection.exec_driver_sql(
        "SELECT conrelid::regclass::text, conname, pg_get_constraintdef(oid), contype FROM pg_constraint"
        f" WHERE contype IN ('p', 'u', 'f') AND (conrelid::regclass::text IN ({names})"
        f" OR confrelid::regclass::text IN ({names})) ORDER BY contype = 'f'"
    ).all()
    indexes = connection.exec_driver_sql(
        f"SELECT indexname, indexdef FROM pg_indexes WHERE tablename IN ({names})"
        " AND indexname NOT IN (SELECT conname FROM pg_constraint)"
    ).all()
    for table, name, _, _ in reversed(constraints):
        connection.exec_driver_sql(f'ALTER TABLE {table} DROP CONSTRAINT "{name}"')
    for name, _ in indexes:
        connection.exec_driver_sql(f'DROP INDEX "{name}"')
    yield
    connection.exec_driver_sql("SET maintenance_work_mem = '2GB'")
    for _, definition in indexes:
        connection.exec_driver_sql(definition)
    for table, name, definition, kind in constraints:
        whole = definition if kind != "f" or definition.endswith("NOT VALID") else f"{definition} NOT VALID"
        connection.exec_driver_sql(f'ALTER TABLE {table} ADD CONSTRAINT "{name}" {whole}')


def grow(url: str, times: int) -> None:
    """Copy the first owner's rows to so many others."""
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    begin = time.perf_counter()
    with engine.connect() as connection, without_indexes(connection, (*TABLES, recall_vectors)):
        connection.exec_driver_sql("SET synchronous_commit = off")
        statements = [*(copies(connection, table) for table in TABLES), vectors(connection)]
        for number in range(times):
            for statement in statements:
                connection.execute(statement(number))
            if number and not number % 50:
                print(f"{number} of {times} owners, {time.perf_counter() - begin:.0f} s", flush=True)
        connection.exec_driver_sql(
            "SELECT setval(pg_get_serial_sequence('recall_entries', 'id'), (SELECT max(id) FROM recall_entries))"
        )
        for table in (*TABLES, recall_vectors):
            connection.exec_driver_sql(f"DROP TABLE first_{table.name}")
    print(f"indexes made, {time.perf_counter() - begin:.0f} s", flush=True)
    engine.dispose()


def asked(url: str, rounds: int) -> Iterator[tuple[str, float]]:
    """What a user does, and its seconds."""
    environment = {"LAMELLA_DATABASE_URL": url}
    with server(environment) as first:
        until_healthy(first.url)
    begin = time.perf_counter()
    with server(environment) as lamella:
        until_healthy(lamella.url)
        yield "start", time.perf_counter() - begin
        with httpx2.Client(base_url=f"{lamella.url}/api/v1", timeout=60) as client:
            listed = client.get("/conversations").raise_for_status().json()["data"]
            some = [one["id"] for one in listed][:rounds]
            model, search = client.get("/models").json()["data"][0]["id"], "/sessions/search"
            for name, ask in (
                ("list", lambda _: client.get("/conversations")),
                ("open", lambda at: client.get(f"/conversations/{some[at % len(some)]}/turns")),
                (
                    "send",
                    lambda at: client.post(
                        f"/conversations/{some[at % len(some)]}/turns", json={"text": "Hello", "models": [model]}
                    ),
                ),
                (
                    "search one",
                    lambda at: client.get(
                        search, params={"q": "mapping of names", "conversation_id": some[at % len(some)]}
                    ),
                ),
                ("search all", lambda _: client.get(search, params={"q": "the assignment of names to objects"})),
            ):
                yield name, middle([timed(ask, at) for at in range(rounds)])


def timed(ask: Callable[[int], httpx2.Response], at: int) -> float:
    """Seconds of a request."""
    begin = time.perf_counter()
    answer = ask(at)
    if answer.is_error:
        raise RuntimeError(answer.text)
    return time.perf_counter() - begin


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--messages", type=int, default=1_000_000)
    parser.add_argument("--own", type=int, default=10_000)
    parser.add_argument("--rounds", type=int, default=20)
    given = parser.parse_args()
    with running() as started:
        url = started.url(started.copied())
        asyncio.run(begin(url, given.own))
        before = dict(asked(url, given.rounds))
        grow(url, given.messages // given.own - 1)
        with psycopg.connect(url.replace("+psycopg", ""), autocommit=True) as connection:
            connection.execute("VACUUM ANALYZE")
            [size] = connection.execute("SELECT pg_database_size(current_database()) / 1e9").fetchone() or [0]
            [count] = connection.execute("SELECT count(*) FROM messages").fetchone() or [0]
        after = dict(asked(url, given.rounds))
        show(
            [
                ["ms", *after],
                *(
                    [name, *(f"{found[k] * 1e3:.0f}" for k in after)]
                    for name, found in (
                        (f"{given.own:,} messages", before),
                        (f"{count:,} messages, {size:.1f} GB", after),
                    )
                ),
            ]
        )


if __name__ == "__main__":
    main()
