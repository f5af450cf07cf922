"""Round trips to PostgreSQL of a turn, by the verb of the store that makes them.

    python bench/round_trips.py [--turns 10] [--alone] [--keys] [--json]

A *round trip* is a wait for an answer of the server: statements that are sent together are one. The server runs in this
process as one of several replicas (`--alone`: as the only one, without Valkey), the simulator in another. Messages of
one conversation are sent and followed by HTTP (`--keys`: with a key), and all that follows a turn is waited for.
"""

from __future__ import annotations

import asyncio
import os
import sys
import tempfile
import threading
from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any

import msgspec
from sqlalchemy import Engine, event

from lamella.app.app import App
from lamella.server.testing import FIRST_RUN_TOKEN, ServerClient, served
from lamella.settings import read_settings
from lamella.storage.pipelined import PipelinedConnection
from processes import KEY, simulator
from replicating.cluster import Servers, servers
from tables import arguments, emit, show

ENDS = ("_exit_gen", "_sync_gen")
"""What psycopg runs to take the answers of a pipeline. Before that, a statement of a pipeline is sent only."""

BACKGROUND = ("ReplicaRows.beat", "ReplicaRows.look")
"""Verbs that every process runs each second, with or without turns."""


@dataclass(slots=True)
class Count:
    """Waits for PostgreSQL while it is `counting`, by the verb that waited."""

    trips: Counter[str] = field(default_factory=Counter)
    transactions: Counter[str] = field(default_factory=Counter)
    counting: bool = False
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def waited(self) -> None:
        """The running thread has waited for an answer."""
        if self.counting:
            with self._lock:
                self.trips[_verb()] += 1

    def begun(self) -> None:
        """The running thread begins a transaction."""
        if self.counting:
            with self._lock:
                self.transactions[_verb()] += 1


def _verb() -> str:
    """The verb of the store that the running thread works for, by its frames."""
    frame = sys._getframe()
    at: Any = frame
    while at is not None:
        if at.f_code.co_name == "_once":
            return _name(at.f_locals["self"]._work)
        at = at.f_back
    return "outside of a verb"


def _name(work: Any) -> str:
    while isinstance(work, partial):
        inner = next((one for one in work.args if callable(one)), None)
        work = inner if inner is not None else work.func
    return str(getattr(work, "__qualname__", work))


@contextmanager
def counted() -> Iterator[Count]:
    """Counts what every connection that is opened in the block waits for."""
    count = Count()

    class Counted(PipelinedConnection):
        def wait(self, gen: Any, *args: Any, **options: Any) -> Any:
            if self._pipeline is None or gen.__name__ in ENDS:
                count.waited()
            return super().wait(gen, *args, **options)

        def begin(self, statements: Sequence[str], *, asks_id: bool) -> None:
            count.begun()
            super().begin(statements, asks_id=asks_id)

    def connecting(dialect: Any, _entry: Any, args: tuple[Any, ...], options: dict[str, Any]) -> Any:
        return Counted.connect(*args, **options) if dialect.name == "postgresql" else None

    event.listen(Engine, "do_connect", connecting)
    try:
        yield count
    finally:
        event.remove(Engine, "do_connect", connecting)


@contextmanager
def environment(given: Mapping[str, str]) -> Iterator[None]:
    """These variables are set until the block ends."""
    before = dict(os.environ)
    os.environ.update(given)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(before)


@asynccontextmanager
async def server(url: str, on: Servers, *, alone: bool, keys: bool) -> AsyncIterator[tuple[App, ServerClient]]:
    """A server in this process on a database of its own."""
    database, valkey = on
    given = {
        "ANTHROPIC_BASE_URL": url,
        "ANTHROPIC_API_KEY": KEY,
        "LAMELLA_DATABASE_URL": database.url(database.copied()),
        "LAMELLA_DEBOUNCE_MS": "0",
        "LAMELLA_TITLES": "false",
        **({} if alone else {"LAMELLA_REDIS_URL": valkey.url}),
    }
    with environment(given), tempfile.TemporaryDirectory(prefix="lamella-bench-") as folder:
        async with served(read_settings(data=Path(folder)), checked=False) as (app, client):
            if keys:
                made = await client.post("/setup", {"name": "Ann", "token": FIRST_RUN_TOKEN})
                client.http.headers["authorization"] = f"Bearer {made['secret']}"
            yield app, client


async def one_turn(app: App, client: ServerClient, conversation: str, text: str) -> None:
    """A message, its answer, and what follows it."""
    path = f"/api/v1/conversations/{conversation}/turns"
    async with client.http.stream("POST", path, json={"text": text}) as answer:
        async for line in answer.aiter_lines():
            if line.startswith("data: ") and msgspec.json.decode(line[6:])["type"] == "turn.finished":
                break
    while not app.chat.is_idle:  # noqa: ASYNC110
        await asyncio.sleep(0.005)
    await asyncio.sleep(0.6)


async def turns(count: Count, on: Servers, url: str, number: int, *, alone: bool, keys: bool) -> Count:
    """So many turns of one conversation, after two that open connections and compile statements."""
    async with server(url, on, alone=alone, keys=keys) as (app, client):
        conversation = (await client.post("/conversations", {}))["id"]
        for name in range(number + 2):
            count.counting = name >= 2
            await one_turn(app, client, conversation, f"Question {name}.")
        count.counting = False
    return count


def measured(number: int, on: Servers, *, alone: bool = False, keys: bool = False) -> dict[str, tuple[float, float]]:
    """Round trips and transactions a turn, by verb."""
    with simulator("--rate", "0") as provider, counted() as count:
        asyncio.run(turns(count, on, provider.url, number, alone=alone, keys=keys))
    return {
        verb: (trips / number, count.transactions[verb] / number)
        for verb, trips in count.trips.most_common()
        if verb not in BACKGROUND
    }


def main() -> None:
    """Measure and print."""
    parser = arguments(__doc__)
    parser.add_argument("--turns", type=int, default=10)
    parser.add_argument("--alone", action="store_true")
    parser.add_argument("--keys", action="store_true")
    given = parser.parse_args()
    with servers() as on:
        found = measured(given.turns, on, alone=given.alone, keys=given.keys)
    if given.json:
        emit(found)
        return
    rows = [(verb, f"{trips:.1f}", f"{transactions:.1f}") for verb, (trips, transactions) in found.items()]
    whole = ("a turn", *(f"{sum(one[at] for one in found.values()):.1f}" for at in (0, 1)))
    show([("verb", "round trips", "transactions"), *rows, whole])


if __name__ == "__main__":
    main()
