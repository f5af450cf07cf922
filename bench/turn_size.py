"""What a short turn takes in the database, by table and index, with its packets in the journal and packed.

    python bench/turn_size.py [--conversations 20] [--turns 10] [--postgres] [--dump FILE] [--json]

A turn is a message of some 80 characters and an answer of some 200, streamed in pieces of four characters. The server
is the app with its own settings and a scripted model; a title is written for each conversation, and every passage has
its vector. Bytes are those of pages (SQLite's dbstat) or of relations (PostgreSQL), less those of an empty database.
"""

from __future__ import annotations

import asyncio
import random
import re
import sqlite3
import sys
import tempfile
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, closing
from datetime import UTC, datetime, timedelta
from pathlib import Path

from sqlalchemy import create_engine, text

sys.path.insert(0, str(Path(__file__).parents[1] / "tests"))

from lamella.app.app import LOCAL_OWNER, App, database_path, open_app
from lamella.app.conversations import NewConversation
from lamella.chat.message import Message
from lamella.core.prompt import WireRequest
from lamella.core.tokens import Usage
from lamella.llm.scripted import ReplayEvent, ScriptedModel, ScriptedModels, saying
from lamella.settings import Settings, read_settings
from lamella.storage import open_store
from postgres import running
from tables import arguments, emit, show

QUESTION, ANSWER, PIECE = 80, 200, 4
"""Characters of a message, of an answer, and of a piece of it."""

WORDS = re.findall(r"[A-Za-z]+", Path(__file__).parents[1].joinpath("docs/explanation/context.md").read_text("utf-8"))

SIZES = {
    "sqlite": "SELECT name, sum(pgsize) FROM dbstat GROUP BY name",
    "postgresql": """
        SELECT relname, pg_relation_size(oid) FROM pg_class
        WHERE relkind IN ('r', 'i', 't') AND relnamespace IN ('public'::regnamespace, 'pg_toast'::regnamespace)
        AND oid >= 16384
    """,
}

OWNERS = {
    "sqlite": "SELECT name, tbl_name FROM sqlite_master",
    "postgresql": """
        SELECT i.relname, t.relname FROM pg_index x JOIN pg_class i ON i.oid = x.indexrelid
        JOIN pg_class t ON t.oid = x.indrelid
        UNION SELECT o.relname, t.relname FROM pg_class t JOIN pg_class o ON o.oid = t.reltoastrelid
        UNION SELECT i.relname, t.relname FROM pg_class t JOIN pg_index x ON x.indrelid = t.reltoastrelid
        JOIN pg_class i ON i.oid = x.indexrelid
    """,
}
"""The table of each index; PostgreSQL's side tables of long values count as their table's."""


def said(chance: random.Random, size: int) -> str:
    """Words of about so many characters."""
    words: list[str] = []
    while sum(map(len, words)) + len(words) < size:
        words.append(chance.choice(WORDS))
    return " ".join(words)[:size].rstrip()


class Talker(ScriptedModel):
    """Answers every request in small pieces, also those for titles."""

    def __init__(self, chance: random.Random) -> None:
        super().__init__()
        self._chance = chance

    def _next(self, request: WireRequest) -> Iterator[ReplayEvent]:
        written = said(self._chance, 30 if b"title" in request.blocks[-1].data else ANSWER)
        pieces = [written[at : at + PIECE] for at in range(0, len(written), PIECE)]
        return iter(saying(*pieces, usage=Usage(input=1_200, output=60, cache_read=1_000)))


async def fill(settings: Settings, conversations: int, turns: int) -> None:
    """Speak so many conversations, and wait until all of it can be found."""
    chance = random.Random(18)
    async with open_app(settings, models=ScriptedModels(Talker(chance))) as app:
        for _ in range(conversations):
            conversation = (await app.conversations.create(LOCAL_OWNER, NewConversation())).id
            for _ in range(turns):
                await speak(app, conversation, said(chance, QUESTION))
            await app.recall.index_now(LOCAL_OWNER, conversation)


async def speak(app: App, conversation: str, words: str) -> None:
    """One turn, to the end of what follows it."""
    turn = await app.chat.sender.begin(LOCAL_OWNER, conversation, Message(words))
    async for _ in app.chat.stream(LOCAL_OWNER, turn):
        pass
    await app.chat.rest(conversation)


def sizes(url: str) -> Mapping[str, int]:
    """Bytes of each table and index, as `table` or `table: index`."""
    engine = create_engine(url, isolation_level="AUTOCOMMIT")
    with engine.connect() as connection:
        if engine.dialect.name == "postgresql":
            connection.execute(text("VACUUM FULL"))
        else:
            connection.execute(text("VACUUM"))
        tables = {row[0]: row[1] for row in connection.execute(text(OWNERS[engine.dialect.name]))}
        found = connection.execute(text(SIZES[engine.dialect.name])).all()
    engine.dispose()
    return {_place(name, tables.get(name, name)): int(size) for name, size in found}


def _place(name: str, table: str) -> str:
    return name if name == table else f"{table}: {name}"


def per_turn(filled: Mapping[str, int], empty: Mapping[str, int], turns: int) -> dict[str, float]:
    """Bytes of a turn in each table and index, the largest first."""
    grown = {place: (size - empty.get(place, 0)) / turns for place, size in filled.items()}
    return dict(sorted(((p, s) for p, s in grown.items() if s > 0), key=lambda pair: -pair[1]))


async def pack(url: str) -> None:
    """Pack all packets, as the server does an hour after their turns."""
    async with await open_store(url) as store:
        while await store.retention.pack_packets(datetime.now(UTC) + timedelta(days=1), 100):
            pass


def measure(url: str | None, conversations: int, turns: int, dump: Path | None) -> dict[str, dict[str, float]]:
    """Bytes a turn: with its packets in the journal, and packed."""
    count = conversations * turns
    with tempfile.TemporaryDirectory(prefix="lamella-size-") as made:
        settings = read_settings(data=Path(made), **({} if url is None else {"database_url": url}))
        at = url or f"sqlite:///{database_path(Path(made))}"
        asyncio.run(fill(settings, 0, 0))
        empty = sizes(at)
        asyncio.run(fill(settings, conversations, turns))
        whole = per_turn(sizes(at), empty, count)
        if dump is not None and url is None:
            with closing(sqlite3.connect(database_path(Path(made)))) as source, closing(sqlite3.connect(dump)) as copy:
                source.backup(copy)
        asyncio.run(pack(at))
        return {"journal": whole, "packed": per_turn(sizes(at), empty, count)}


def rows(found: Mapping[str, Mapping[str, float]]) -> Iterator[list[str]]:
    """The table: a row for each table and index, and the sum."""
    whole, rest = found["journal"], found["packed"]
    yield ["bytes a turn", *found]
    for place in whole:
        yield [place, f"{whole[place]:,.0f}", f"{rest.get(place, 0):,.0f}"]
    yield ["all", f"{sum(whole.values()):,.0f}", f"{sum(rest.values()):,.0f}"]


def main() -> None:
    parser = arguments(__doc__)
    parser.add_argument("--conversations", type=int, default=20)
    parser.add_argument("--turns", type=int, default=10, help="of each conversation")
    parser.add_argument("--postgres", action="store_true", help="on a PostgreSQL server that is started for it")
    parser.add_argument("--dump", type=Path, help="also copy the SQLite file there")
    options = parser.parse_args()
    with ExitStack() as stack:
        url = None
        if options.postgres:
            server = stack.enter_context(running())
            url = server.url(server.copied("measured"))
        found = measure(url, options.conversations, options.turns, options.dump)
    if options.json:
        emit(found)
    else:
        show(list(rows(found)))


if __name__ == "__main__":
    main()
