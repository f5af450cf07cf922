"""What a database of very many messages costs its users: start, list, open, send and search, on PostgreSQL.

    python bench/many_messages.py [--messages 1000000] [--own 10000] [--rounds 20]

One owner has `--own` messages in conversations of 100, indexed for search. Their rows are copied to as many other
owners as it takes, under ids of their own; of these the words are not indexed. A server is asked for the first owner's
conversations before and after that: a start until it is healthy, and the median of some requests, in ms.
PostgreSQL runs on this machine, in a folder that is removed.
"""

from __future__ import annotations

import argparse
import asyncio
import re
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx2
import psycopg
from sqlalchemy import (
    ColumnElement,
    Connection,
    LargeBinary,
    Table,
    and_,
    create_engine,
    func,
    insert,
    literal,
    select,
    type_coerce,
)

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


def copies(connection: Connection, table: Table) -> Callable[[int], Any]:
    """The statement that copies a table's rows of the first owner to another one."""
    first = connection.execute(select(table).where(table.c.owner == LOCAL_USER).limit(1)).mappings().one()
    names = [name for name in map(str, table.c.keys()) if not (table is recall_entries and name == "id")]
    of_ids = [name for name in names if isinstance(first[name], str) and AN_ID.match(first[name])]
    of_ids += [name for name in ("parent_id", "head") if name in names]

    def statement(number: int) -> Any:
        def value(name: str) -> ColumnElement[Any]:
            if name == "owner":
                return literal(f"user_{number:06}")
            return func.concat(table.c[name], f"x{number}") if name in of_ids else table.c[name]

        rows = select(*[value(name) for name in names]).where(table.c.owner == LOCAL_USER)
        return insert(table).from_select(names, rows)

    return statement


def vectors(number: int) -> Any:
    """The statement that copies the vectors of the first owner's passages."""
    old, new = recall_entries.alias("old"), recall_entries.alias("new")
    same = and_(
        new.c.source_id == func.concat(old.c.source_id, f"x{number}"),
        new.c.call_id == old.c.call_id,
        new.c.start == old.c.start,
    )
    of = recall_vectors.c
    rows = select(new.c.id, new.c.owner, of.model, of.dimension, type_coerce(of.data, LargeBinary))
    joined = recall_vectors.join(old, old.c.id == of.entry_id).join(new, same)
    rows = rows.select_from(joined).where(of.owner == LOCAL_USER)
    return insert(recall_vectors).from_select(["entry_id", "owner", "model", "dimension", "data"], rows)


def grow(url: str, times: int) -> None:
    """Copy the first owner's rows to so many others."""
    engine = create_engine(url)
    with engine.begin() as connection:
        statements = [copies(connection, table) for table in TABLES]
    begin = time.perf_counter()
    for number in range(times):
        with engine.begin() as connection:
            connection.exec_driver_sql("SET LOCAL synchronous_commit = off")
            connection.exec_driver_sql("SET LOCAL session_replication_role = replica")
            for statement in statements:
                connection.execute(statement(number))
            connection.execute(vectors(number))
        if number and not number % 50:
            print(f"{number} of {times} owners, {time.perf_counter() - begin:.0f} s", flush=True)
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
