"""A removed base is erased from every conversation of other readers, and from the bytes of the database."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest

from lamella.app.app import LOCAL_OWNER, App
from lamella.core.access import BaseContent
from lamella.core.knowledge import ERASE
from lamella.core.records import JobStatus
from lamella.llm.scripted import ScriptedModel, ScriptedModels, saying
from lamella.server.testing import ServerClient, served
from lamella.settings import Settings, read_settings
from lamella.storage import open_store
from leaking.restricted_base import ANN, add, restricted_base, second_model, stored_text, terms_of_page
from sessions.test_ended import ended_job

from .test_lowered_grants import new_session
from .test_revoked import CANARIES, SAYS, SEARCH, SECRET, everything, read_in_full, told

pytestmark = pytest.mark.anyio

MARKERS = tuple(one[:7].lower() for one in CANARIES)
"""Beginnings of canaries: an index of words holds them in small letters and without their endings."""


def settings(folder: Path) -> Settings:
    return read_settings(data=folder, restricted_model="second", debounce_ms=0, titles=True, knowledge_summaries=False)


def left(folder: Path) -> Iterator[tuple[str, str]]:
    """Markers in rows, by table, and in the bytes of files."""
    with closing(sqlite3.connect(f"file:{folder / 'lamella.db'}?mode=ro", uri=True)) as database:
        for (table,) in database.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall():
            for row in database.execute(f'SELECT * FROM "{table}"'):
                told = " ".join(map(stored_text, row)).lower()
                told += terms_of_page(row[-1]) if table == "postings" else ""
                yield from ((f"table {table}", marker) for marker in MARKERS if marker in told)
    for path in folder.rglob("*"):
        data = path.read_bytes().lower() if path.is_file() else b""
        yield from ((f"file {path.name}", marker) for marker in MARKERS if marker.encode() in data)


async def talked(app: App, client: ServerClient, model: ScriptedModel, base: str) -> str:
    """A conversation that was titled, summed up and searched, over a base whose documents it found."""
    conversation = await read_in_full(app, client, model, base)
    model.then(saying(f"They said {SAYS}."))
    assert CANARIES[1] in await new_session(client, conversation)
    return conversation


@pytest.mark.parametrize("packed", [False, True])
async def test_no_byte_of_a_removed_base_is_left(tmp_path: Path, packed: bool) -> None:
    model = ScriptedModel()
    async with served(settings(tmp_path), models=ScriptedModels(model, second_model())) as (app, client):
        base = await restricted_base(app, SECRET, title="Heronsgate.md")
        conversation = await talked(app, client, model, base)
        where = {place for place, _ in left(tmp_path)}
        tables = (
            "messages",
            "journal",
            "blocks",
            "found_documents",
            "sessions",
            "conversations",
            "postings",
        )
        assert {f"table {name}" for name in tables} <= where
        before = await everything(app, client, conversation)
        if packed:
            assert await app.store.retention.pack_packets(app.clock.now() + timedelta(hours=1), 100)
            again = await everything(app, client, conversation)
            streams = [path for path in before if "/events" in path]
            assert streams
            assert [again[path] for path in streams] == [before[path] for path in streams]
        await app.bases.delete(ANN, base)
        assert (await ended_job(app, base, ERASE, ANN)).status is JobStatus.FINISHED
        assert list(left(tmp_path)) == []
        after = await everything(app, client, conversation)
        assert after.keys() == before.keys()
        assert told(after) == {}
        with closing(sqlite3.connect(tmp_path / "lamella.db")) as database:
            assert database.execute("SELECT count(*) FROM turns WHERE packets IS NOT NULL").fetchone() == (0,)
        model.then(saying("Yes."))
        packets = await client.send(conversation, "And now?")
        assert packets[-1]["type"] == "turn.finished"


async def test_a_process_killed_in_the_middle_leaves_the_rest_to_the_next(tmp_path: Path) -> None:
    model, models = ScriptedModel(), ScriptedModels(ScriptedModel(), second_model())
    async with served(settings(tmp_path), models=ScriptedModels(model, second_model())) as (app, client):
        base = await restricted_base(app, SECRET)
        conversations = [await talked(app, client, model, base) for _ in range(2)]
        now = app.clock.now()
    async with await open_store(tmp_path / "lamella.db") as store:
        await store.access.delete_base(ANN, base, now)
        assert await store.jobs.claim((ERASE,), now, 90.0) is not None
        found = await store.erasure.conversations_of_base(ANN, base)
        assert [id for _, id in found] == sorted(conversations)
        assert await store.erasure.erase_base(LOCAL_OWNER, conversations[0], base)
        assert await store.erasure.conversations_of_base(ANN, base) == ((LOCAL_OWNER, conversations[1]),)
    assert list(left(tmp_path))
    async with served(settings(tmp_path), models=models) as (app, _):
        assert (await ended_job(app, base, ERASE, ANN)).status is JobStatus.FINISHED
        assert list(left(tmp_path)) == []


async def test_who_removes_their_own_base_keeps_what_was_made_of_it(tmp_path: Path) -> None:
    model = ScriptedModel()
    given = settings(tmp_path).model_copy(update={"titles": False})
    async with served(given, models=ScriptedModels(model, second_model())) as (app, client):
        base = (await app.access.add_base(LOCAL_OWNER, "kb_mine", BaseContent("Mine"), app.clock.now())).id
        await add(app, base, SECRET, "a.md", owner=LOCAL_OWNER)
        conversation = await client.conversation()
        model.then(SEARCH, saying(f"It is {CANARIES[1]}."))
        await client.send(conversation, "What is owed?", knowledge_base_ids=[base])
        await app.bases.delete(LOCAL_OWNER, base)
        assert (await ended_job(app, base, ERASE, LOCAL_OWNER)).status is JobStatus.FINISHED
        turns = (await client.get(f"/conversations/{conversation}/turns"))["data"]
        assert turns[0]["answer"] == f"It is {CANARIES[1]}."
